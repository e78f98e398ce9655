"""What both stores refuse about flows: their journals, children and signals."""

from __future__ import annotations

from typing import Any

from tests.store.conftest import new_job
from tests.store.flows.flow_calls import begin, called, entry, record
from tests.store.refusal_cases import A, B, C


def a_signal_with_a_name_of_the_engine(db: Any) -> None:
    begin(db, id=A)
    db.signal(A, "$cancel")


def a_child_that_is_its_own_flow(db: Any) -> None:
    claim = begin(db, id=A, unique_key="k")
    record(db, called(claim, 1, new_job(id=B, kind="checkout", unique_key="k")))


def a_child_of_a_flow_whose_key_is_taken(db: Any) -> None:
    db.enqueue(id=C, unique_key="k", queue="other")
    record(db, called(begin(db, id=A), 1, new_job(id=B, unique_key="k", on_conflict="raise")))


def the_journal_of_a_plain_job(db: Any) -> None:
    db.enqueue(id=A)
    db.run(db.ops.forget(A, 1, tenant_id=None, actor=None))


def the_journal_of_a_flow_that_runs(db: Any) -> None:
    begin(db, id=A)
    db.run(db.ops.forget(A, 1, tenant_id=None, actor=None))


def the_journal_of_a_flow_that_is_over(db: Any) -> None:
    begin(db, id=A)
    db.cancel(A)
    db.cancel(A)
    db.settle(_again(db), "canceled")
    db.run(db.ops.forget(A, 1, tenant_id=None, actor=None))


def a_step_that_is_settled(db: Any) -> None:
    claim = begin(db, id=A)
    for _ in range(2):
        db.run(db.ops.settle_step(entry(claim, 0, "settled", place="pay")))


def a_step_under_an_old_fence(db: Any) -> None:
    claim = begin(db, id=A)
    db.settle(claim, "scheduled", delay_ms=1_000)
    db.run(db.ops.settle_step(entry(claim, 0, "settled", place="pay")))


def a_step_of_a_job_that_is_elsewhere(db: Any) -> None:
    claim = begin(db, id=A)
    db.settle(claim, "canceled")
    db.delete(A)
    db.run(db.ops.settle_step(entry(claim, 0, "settled", place="pay")))


def _again(db: Any) -> Any:
    from headway.model.job import Claim

    ((job_id, fence),) = db.running()
    fields = dict.fromkeys(Claim.__struct_fields__)
    return Claim(**{**fields, "id": job_id, "fence": fence})
