"""What both stores refuse about jobs: enqueue, claim, change, move and retry."""

from __future__ import annotations

from typing import Any

from headway.model.artifact import NewArtifact, NewPayload, WrittenPayload
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim
from headway.model.machine import Checkpoint
from headway.model.served import ServedChange
from headway.model.spill import reference
from tests.store.conftest import new_group, new_job, settlement
from tests.store.refusal_cases import ACME, GROUP, OTHER, A, B, C, D, E, rename

# enqueue


def a_kind_that_is_not_active(db: Any) -> None:
    db.change_definition("mail", active=False)
    db.enqueue(id=A)


def a_kind_that_is_not_active_in_a_batch(db: Any) -> None:
    db.change_definition("mail", active=False)
    db.enqueue_all([new_job(id=A, kind="other"), new_job(id=B), new_job(id=C, kind="mail")])


def a_kind_that_is_for_other_tenants(db: Any) -> None:
    db.change_definition("mail", tenants=("acme",))
    db.enqueue(id=A)


def a_job_id_that_another_tenant_has(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    db.enqueue(id=A)


def a_job_id_that_another_tenant_has_in_a_batch(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    db.enqueue_all([new_job(id=B), new_job(id=A, tenant="other")])


def a_job_id_that_another_tenant_has_with_keys(db: Any) -> None:
    db.enqueue(id=A, tenant="acme", unique_key="k", idempotency_key="i")
    db.enqueue(id=A, unique_key="k", idempotency_key="i")


def a_job_id_that_another_tenant_has_on_a_train(db: Any) -> None:
    db.enqueue(id=A, tenant="acme", train="t")
    db.enqueue(id=A, train="t")


def a_unique_key_that_is_taken(db: Any) -> None:
    db.enqueue(id=A, unique_key="k")
    db.enqueue(id=B, unique_key="k", on_conflict="raise")


def a_unique_key_that_is_taken_in_a_batch(db: Any) -> None:
    db.start(id=A, unique_key="k")
    db.enqueue_all([new_job(id=B), new_job(id=C, unique_key="k", on_conflict="raise")])


def a_unique_key_in_the_window_of_an_ended_job(db: Any) -> None:
    db.finish(db.start(id=A, unique_key="k", unique_for_ms=1000))
    db.enqueue(id=B, unique_key="k", unique_for_ms=1000, on_conflict="raise")


def a_parent_that_does_not_exist(db: Any) -> None:
    db.enqueue(id=A, after=(B,))


def a_parent_of_another_tenant(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    db.enqueue_all([new_job(id=B), new_job(id=C, after=(B, A))])


def a_group_that_does_not_exist(db: Any) -> None:
    db.enqueue(id=A, group_id=GROUP)


def a_group_of_another_tenant(db: Any) -> None:
    db.enqueue_all([new_job(id=A, tenant="acme", group_id=GROUP)], new_group(id=GROUP, tenant_id=ACME))
    db.enqueue_all([new_job(id=B), new_job(id=C, group_id=GROUP)])


def a_group_that_was_stopped(db: Any) -> None:
    db.enqueue_all([new_job(id=A, group_id=GROUP)], new_group(id=GROUP))
    db.cancel_group(GROUP)
    db.enqueue(id=B, group_id=GROUP)


def a_group_that_is_over(db: Any) -> None:
    _with_callback(db)
    db.drain()
    db.enqueue(id=C, group_id=GROUP)


def a_group_whose_callback_is_gone(db: Any) -> None:
    _with_callback(db)
    db.sql("delete from {jobs} where id = ?", B)
    db.enqueue(id=C, group_id=GROUP)


def _with_callback(db: Any) -> None:
    """A group of A, whose callback is B."""
    db.enqueue_all(
        [new_job(id=A, group_id=GROUP), new_job(id=B, after=(A,), on_failure="continue")],
        new_group(id=GROUP, callback_id=B),
    )


def more_jobs_than_max_pending(db: Any) -> None:
    db.limit("tenant", "*", max_pending=2)
    db.enqueue_all([new_job(id=A), new_job(id=B)])
    db.enqueue(id=C)


def more_jobs_than_max_pending_in_a_batch(db: Any) -> None:
    db.limit("tenant", ACME, max_pending=3)
    db.enqueue(id=A, tenant="acme")
    db.enqueue_all([new_job(id=B), *(new_job(id=id_, tenant="acme") for id_ in (A, C, D, E))])


def more_jobs_than_max_pending_for_a_tenant_without_a_name(db: Any) -> None:
    db.limit("tenant", OTHER, max_pending=0)
    db.enqueue_all([new_job(id=A, tenant_id=OTHER)])


def more_bytes_than_max_bytes(db: Any) -> None:
    db.limit("tenant", "*", max_bytes=30)
    db.enqueue(id=A, payload='{"a": 1}')
    db.enqueue_all([new_job(id=B, payload='{"a": "äöü"}'), new_job(id=C, payload='{"b": 1234567890}')])


def more_bytes_than_max_bytes_beside_a_repeat(db: Any) -> None:
    db.limit("tenant", "*", max_bytes=30)
    db.enqueue(id=A, payload='{"a": "0123456789"}')
    db.enqueue_all([new_job(id=A, payload='{"a": "0123456789"}'), new_job(id=B, payload='{"b": 1234567890}')])


def more_members_than_max_group(db: Any) -> None:
    db.limit("tenant", "*", max_group=1)
    db.enqueue_all([new_job(id=A, group_id=GROUP), new_job(id=B, group_id=GROUP)], new_group(id=GROUP))


def more_followers_than_max_fan_out(db: Any) -> None:
    db.limit("tenant", "*", max_fan_out=1)
    db.enqueue(id=A)
    db.enqueue(id=B, after=(A,))
    db.enqueue(id=C, after=(A,))


def a_tenant_name_that_is_anothers(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    db.enqueue_all([new_job(id=B, tenant="acme", tenant_id=OTHER)])


def a_tenant_name_that_was_given_up(db: Any) -> None:
    db.enqueue(id=A, tenant="acme")
    rename(db, "acme", "other")
    db.enqueue_all([new_job(id=B, tenant="acme", tenant_id=OTHER)])


def more_jobs_than_max_pending_beside_a_repeat(db: Any) -> None:
    db.limit("tenant", "*", max_pending=2)
    db.enqueue_all([new_job(id=A), new_job(id=B)])
    db.enqueue_all([new_job(id=A), new_job(id=C)])


# claim


def a_claim_of_an_unknown_worker(db: Any) -> None:
    db.enqueue(id=B)
    db.claim(A)


def a_take_of_an_unknown_worker(db: Any) -> None:
    db.enqueue(id=B)
    db.take_job(B, A)


def a_settle_and_claim_of_an_unknown_worker(db: Any) -> None:
    db.enqueue(id=B)
    db.run(db.ops.settle_and_claim(A, [], "default", 1))


def a_settle_and_claim_of_a_worker_that_was_reaped(db: Any) -> None:
    claim = db.start(db.worker(id=A), id=B)
    db.unregister(A)
    db.enqueue(id=C)
    db.run(db.ops.settle_and_claim(A, [settlement(claim, "succeeded")], "default", 1))


# change


def a_change_of_a_running_job(db: Any) -> None:
    db.start(id=A)
    db.change(A, priority=1)


def a_change_of_a_dead_job(db: Any) -> None:
    db.settle(db.start(id=A), "dead", error="boom")
    db.change(A, priority=1)


def a_payload_for_a_job_that_has_run(db: Any) -> None:
    db.settle(db.start(id=A), "scheduled", delay_ms=1000)
    db.change(A, payload="{}")


def a_payload_for_a_machine_that_is_retried(db: Any) -> None:
    claim = db.start(id=A, checkpoint=Checkpoint(version=1, step="start"))
    db.settle(claim, "dead", error="boom", charge=1)
    db.retry(A, payload="{}")


def a_change_that_queues_a_job_whose_key_is_taken(db: Any) -> None:
    db.enqueue(id=A, unique_key="k", unique_scope=("queued",), delay_ms=1000)
    db.enqueue(id=B, unique_key="k", unique_scope=("queued",))
    db.change(A, scheduled_for=None)


# move


def a_move_to_nowhere(db: Any) -> None:
    db.enqueue(id=A)
    db.move(A)


def a_move_to_two_places(db: Any) -> None:
    db.enqueue(id=A)
    db.move(A, first=True, last=True)


def a_move_of_a_running_job(db: Any) -> None:
    db.start(id=A)
    db.move(A, first=True)


def a_move_of_a_dead_job(db: Any) -> None:
    db.settle(db.start(id=A), "dead")
    db.move(A, first=True)


def a_move_of_a_scheduled_job(db: Any) -> None:
    db.enqueue(id=A, delay_ms=1000)
    db.move(A, first=True)


def a_move_of_a_job_that_waits_for_others(db: Any) -> None:
    db.enqueue(id=A)
    db.enqueue(id=B, after=(A,))
    db.move(B, first=True)


def a_move_of_a_machine_that_waits_for_signals(db: Any) -> None:
    db.parked("go", id=A)
    db.move(A, first=True)


def a_move_of_a_locomotive(db: Any) -> None:
    db.enqueue(id=A, train="t")
    db.move(A, first=True)


def a_move_of_a_scheduled_locomotive(db: Any) -> None:
    db.enqueue(id=A, train="t", delay_ms=1000)
    db.move(A, last=True)


def a_move_to_a_job_that_does_not_exist(db: Any) -> None:
    db.enqueue(id=A)
    db.move(A, before=B)


def a_move_to_a_job_of_another_tenant(db: Any) -> None:
    db.enqueue(id=A)
    db.enqueue(id=B, tenant="acme")
    db.move(A, after=B)


def a_move_to_itself(db: Any) -> None:
    db.enqueue(id=A)
    db.move(A, after=A)


def a_move_to_another_queue(db: Any) -> None:
    db.enqueue(id=A)
    db.enqueue(id=B, queue="other")
    db.move(A, after=B)


def a_move_to_another_train(db: Any) -> None:
    db.enqueue_all([new_job(id=A, train="t"), new_job(id=B, train="t"), new_job(id=C, train="u")])
    db.move(B, after=C)


def a_move_ahead_of_the_locomotive(db: Any) -> None:
    db.enqueue_all([new_job(id=A, train="t"), new_job(id=B, train="t")])
    db.move(B, before=A)


def a_move_to_a_car_that_is_over(db: Any) -> None:
    db.enqueue_all([new_job(id=A, train="t"), new_job(id=B, train="t"), new_job(id=C, train="t")])
    db.finish(db.take())
    db.process_arrivals()
    db.move(C, before=A)


def a_move_to_a_job_that_is_scheduled(db: Any) -> None:
    db.enqueue(id=A)
    db.enqueue(id=B, delay_ms=1000)
    db.move(A, before=B)


def a_move_to_a_locomotive_of_the_same_queue(db: Any) -> None:
    db.enqueue(id=B, train="t", delay_ms=1000)
    db.enqueue(id=A)
    db.move(A, before=B)


# retry


def a_retry_of_a_job_that_was_retried(db: Any) -> None:
    _died_once(db, A)
    runs_as = db.retry(A)[A]
    db.sql("update {jobs} set retry_of = null, id = ? where id = ?", B, runs_as)
    db.sql("update {jobs} set retry_of = ? where id = ?", A, B)
    db.retry(A)


def a_retry_of_a_job_whose_key_is_taken(db: Any) -> None:
    db.settle(db.start(id=A, unique_key="k"), "dead")
    db.enqueue(id=B, unique_key="k")
    db.retry(A)


def a_retry_over_at_most_once_whose_key_is_taken(db: Any) -> None:
    _died_once(db, A, unique_key="k")
    db.enqueue(id=B, unique_key="k")
    db.retry(A)


def _died_once(db: Any, job_id: str, **options: Any) -> None:
    db.settle(db.start(id=job_id, delivery="at_most_once", **options), "dead")


# workers


def a_worker_to_declare_dead_that_is_not_there(db: Any) -> None:
    db.declare_dead(A)


def a_worker_to_set_that_is_not_there(db: Any) -> None:
    db.run(db.ops.set_worker(A, ServedChange(total=3), actor=None))


# outcomes that handlers commit with their own rows


def an_outcome_of_a_lost_claim(db: Any) -> None:
    claim = db.start(id=A)
    db.release(claim)
    db.commit_outcome(settlement(claim, "succeeded"))


def a_second_outcome(db: Any) -> None:
    claim = db.start(id=A)
    db.commit_outcome(settlement(claim, "succeeded"))
    db.commit_outcome(settlement(claim, "dead"))


def an_outcome_for_another_database(db: Any) -> None:
    claim = db.start(id=A)
    db.sql("delete from {jobs} where id = ?", A)
    db.commit_outcome(settlement(claim, "succeeded"))


# artifacts


def an_artifact_of_a_lost_claim(db: Any) -> None:
    claim = db.start(id=A)
    db.release(claim)
    db.run(db.ops.begin_artifact(_artifact(B, claim)))


def a_second_artifact_of_one_name(db: Any) -> None:
    claim = db.start(id=A)
    db.run(db.ops.keep_artifact(_artifact(B, claim), size=1, sha256="ab"))
    db.run(db.ops.begin_artifact(_artifact(C, claim)))


def a_payload_that_was_swept(db: Any) -> None:
    db.run(db.ops.begin_payloads([NewPayload(B, DEFAULT_TENANT_ID, A, "folder:1")]))
    db.advance("61m")
    db.run(db.ops.trash(["folder:1"], limit=1))
    db.enqueue(id=A, payload=reference(B))
    db.run(db.ops.keep_payloads([WrittenPayload(B, A, 1, "ab")]))


def _artifact(artifact_id: str, claim: Claim) -> NewArtifact:
    return NewArtifact(
        id=artifact_id,
        tenant_id=claim.tenant_id,
        job_id=claim.id,
        fence=claim.fence,
        name="report.csv",
        content_type="text/csv",
        store="folder:1",
        path="a/b",
    )


# claim_once


def a_claim_of_a_worker_that_is_not_registered(db: Any) -> None:
    db.claim_once("a", E)
