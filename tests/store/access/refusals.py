"""What both stores refuse about API keys."""

from __future__ import annotations

from typing import Any

from headway.model.access import NewApiKey
from headway.model.request import Request
from tests.store.refusal_cases import ACME


def _create(db: Any, **fields: Any) -> None:
    values: dict[str, Any] = {"id": "0123456789ab", "secret_hash": b"0" * 32, "name": "shop", "role": "admin"}
    db.run(db.ops.create_key(NewApiKey(**values | fields), actor=None))


def a_key_id_that_is_taken(db: Any) -> None:
    _create(db, tenant_id=ACME)
    _create(db, tenant_id=ACME, secret_hash=b"1" * 32)


def a_role_that_is_none(db: Any) -> None:
    _create(db, role="root")


def a_mode_that_is_none(db: Any) -> None:
    _create(db, mode="dead")


def a_superadmin_of_one_tenant(db: Any) -> None:
    _create(db, role="superadmin", tenant_id=ACME)


def an_admin_without_a_tenant(db: Any) -> None:
    _create(db)


def a_superadmin_for_some_queues(db: Any) -> None:
    _create(db, role="superadmin", queues=("mail",))


def an_idempotency_key_with_another_body(db: Any) -> None:
    for body in (b"0", b"1"):
        asked = Request(tenant_id=ACME, key_id="a", route="POST /jobs", key="k1", body_hash=body * 32)
        db.run(db.ops.once(asked, db.ops.enqueue([])))
