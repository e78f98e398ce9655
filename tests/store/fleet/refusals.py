"""What both stores refuse about tenants."""

from __future__ import annotations

from typing import Any

from headway.model.ids import DEFAULT_TENANT_ID
from tests.store.db import new_worker
from tests.store.refusal_cases import ACME, OTHER, A, rename


def a_tenant_name_that_is_not_valid(db: Any) -> None:
    db.run(db.ops.tenants_named(["Acme"], create=True))


def a_tenant_name_that_looks_like_an_id(db: Any) -> None:
    db.run(db.ops.tenants_named([A.replace("-", "")], create=True))


def a_tenant_name_that_belonged_to_another(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    rename(db, "acme", "other")
    db.run(db.ops.tenants_named(["new", "acme"], create=True))


def a_name_that_another_tenant_has(db: Any) -> None:
    db.run(db.ops.create_tenant(ACME, "acme", actor=None))
    db.run(db.ops.create_tenant(OTHER, "acme", actor=None))


def a_new_name_that_another_tenant_has(db: Any) -> None:
    db.run(db.ops.create_tenant(ACME, "acme", actor=None))
    db.run(db.ops.create_tenant(OTHER, "other", actor=None))
    db.run(db.ops.rename_tenant(OTHER, "acme", actor=None))


def a_name_that_a_tenant_had(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    rename(db, "acme", "other")
    db.run(db.ops.create_tenant(OTHER, "acme", actor=None))


def a_new_name_that_a_tenant_had(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    rename(db, "acme", "other")
    db.run(db.ops.create_tenant(OTHER, "third", actor=None))
    db.run(db.ops.rename_tenant(OTHER, "acme", actor=None))


def another_name_for_the_default_tenant(db: Any) -> None:
    db.run(db.ops.rename_tenant(DEFAULT_TENANT_ID, "acme", actor=None))


def the_deletion_of_the_default_tenant(db: Any) -> None:
    db.run(db.ops.delete_tenant(DEFAULT_TENANT_ID, limit=1, actor=None))


def a_tenant_that_is_not_there(db: Any) -> None:
    db.run(db.ops.suspend_tenant(ACME, actor=None))


def the_deletion_of_a_tenant_whose_jobs_run(db: Any) -> None:
    db.start(id=A, tenant="acme")
    db.run(db.ops.delete_tenant(ACME, limit=1, actor=None))


def a_deleted_tenant(db: Any) -> None:
    db.run(db.ops.create_tenant(ACME, "acme", actor=None))
    db.run(db.ops.delete_tenant(ACME, limit=100, actor=None))
    db.run(db.ops.tenants_named([ACME], create=True))


def _suspended(db: Any) -> None:
    db.run(db.ops.create_tenant(ACME, "acme", actor=None))
    db.run(db.ops.suspend_tenant(ACME, actor=None))


def a_write_for_a_suspended_tenant(db: Any) -> None:
    _suspended(db)
    db.run(db.ops.refuse_suspended(ACME))


def a_job_of_a_suspended_tenant(db: Any) -> None:
    _suspended(db)
    db.enqueue(id=A, tenant="acme")


def an_event_of_a_suspended_tenant(db: Any) -> None:
    _suspended(db)
    db.emit("paid", id=A, tenant="acme")


def a_schedule_of_a_suspended_tenant(db: Any) -> None:
    _suspended(db)
    db.schedule(id=A, tenant="acme", name="nightly")


def a_limit_of_a_suspended_tenant(db: Any) -> None:
    _suspended(db)
    db.limit("tenant", ACME, max_running=1)


def a_worker_that_has_left(db: Any) -> None:
    worker = new_worker(id=A)
    db.run(db.ops.register(worker))
    db.unregister(A)
    db.run(db.ops.register(worker))
