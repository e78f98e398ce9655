"""What both stores refuse about tenants' names."""

from __future__ import annotations

from typing import Any

from tests.store.refusal_cases import A, rename


def a_tenant_name_that_is_not_valid(db: Any) -> None:
    db.run(db.ops.tenants_named(["Acme"], create=True))


def a_tenant_name_that_looks_like_an_id(db: Any) -> None:
    db.run(db.ops.tenants_named([A.replace("-", "")], create=True))


def a_tenant_name_that_belonged_to_another(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    rename(db, "acme", "other")
    db.run(db.ops.tenants_named(["new", "acme"], create=True))
