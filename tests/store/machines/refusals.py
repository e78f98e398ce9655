"""What both stores refuse about machines: their signals and their children."""

from __future__ import annotations

from typing import Any

from tests.store.conftest import new_job
from tests.store.machines.machine_calls import new_signal
from tests.store.refusal_cases import ACME, A, B, C, D


def a_secret_in_a_signal(db: Any) -> None:
    db.machine(id=A)
    db.signal(A, "go", {"$secret": "KEY"})


def a_signal_to_a_job_that_does_not_exist(db: Any) -> None:
    db.signal(A, "go")


def a_signal_to_a_job_of_another_tenant(db: Any) -> None:
    db.machine(id=A)
    db.signal(A, "go", tenant_id=ACME)


def a_signal_to_a_key_that_nobody_has(db: Any) -> None:
    db.signal(None, "go", kind="checkout", unique_key="k")


def a_signal_to_a_key_of_another_tenant(db: Any) -> None:
    db.machine(id=A, unique_key="k")
    db.signal(None, "go", kind="checkout", unique_key="k", tenant_id=ACME)


def a_signal_to_a_job_that_is_over(db: Any) -> None:
    db.machine(id=A)
    db.cancel(A)
    db.signal_all([new_signal(A, "go", id=C), new_signal(A, "stop", id=D)])


def a_signal_to_a_plain_job_that_has_run(db: Any) -> None:
    db.settle(db.start(id=A), "scheduled", delay_ms=1000)
    db.signal(A, "go")


def a_child_that_is_its_own_machine(db: Any) -> None:
    claim = db.begin(id=A, unique_key="k")
    db.spawn(claim, new_job(id=B, kind="checkout", unique_key="k"))


def a_child_whose_key_is_taken(db: Any) -> None:
    db.enqueue(id=C, unique_key="k", queue="other")
    claim = db.begin(id=A)
    db.spawn(claim, new_job(id=B, unique_key="k", on_conflict="raise"))


def more_children_than_max_fan_out(db: Any) -> None:
    db.limit("tenant", "*", max_fan_out=1)
    claim = db.begin(id=A)
    db.spawn(claim, new_job(id=B), new_job(id=C))


def a_fork_with_an_id_of_another_tenant(db: Any) -> None:
    db.machine(id=A, tenant="acme")
    db.fork(new_job(id=A, kind="checkout"))


def a_signal_id_that_another_tenant_has(db: Any) -> None:
    db.machine(id=A, tenant="acme")
    db.machine(id=B)
    db.signal(A, "go", id=C)
    db.signal(B, "go", id=C)


def a_signal_id_that_another_tenant_has_to_a_job_that_is_over(db: Any) -> None:
    db.machine(id=A, tenant="acme")
    db.machine(id=B)
    db.signal(A, "go", id=C)
    db.cancel(B)
    db.signal(B, "go", id=C)
