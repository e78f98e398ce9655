"""`complete` and `fail`: a job's end by the policy of its own row is what a worker in Python would have settled."""

from __future__ import annotations

from itertools import product
from typing import Any

import psycopg

from headway.model import retry
from headway.model.job import Claim
from headway.model.reported import Completion, Ended, Failure
from tests.store.store_marks import POSTGRES

POLICIES = [
    {"delivery": delivery, "max_attempts": attempts, "backoff_base_ms": 1_000, "backoff_cap_ms": cap}
    for delivery, attempts, cap in (
        ("at_least_once", 1, 9_000),
        ("at_least_once", 2, 9_000),
        ("at_least_once", 4, 1_100),
        ("at_most_once", 1, 9_000),
        ("at_most_once", 2, 600),
    )
]
SAYINGS: list[dict[str, Any]] = [{}, {"retry": False}, {"delay_ms": 0, "status": "timeout"}, {"delay_ms": 60_000}]


def _shown(db: Any, job_id: str, *, exact: bool) -> tuple[Any, ...]:
    """What a failure left: the job, the job that retries it, and the attempt. Jittered times by their bounds only."""
    db.process_arrivals()
    job = db.job(job_id)
    heirs = [each for each in db.find(kind=job.kind) if each.retry_of == job_id]
    (attempt,) = db.attempts(job_id)[-1:]

    def due(each: Any) -> Any:
        if each.scheduled_for is None:
            return None
        wait = (each.scheduled_for - db.now()).total_seconds() * 1_000
        if exact:
            return wait
        middle = each.backoff_base_ms * 2 ** (attempt.fence - 1)
        assert 0.75 * min(middle, each.backoff_cap_ms) <= wait + 1
        assert wait - 1 <= min(1.25 * middle, each.backoff_cap_ms)
        return "by its backoff"

    return (
        (job.status, job.tries, job.losses, job.fence, job.error, job.worker_id, job.finished_at, due(job)),
        [(each.status, each.tries, each.fence, each.max_attempts, due(each)) for each in heirs],
        (attempt.status, attempt.error, attempt.exit_code, attempt.stdout_tail, attempt.stderr_tail),
    )


def _by_model(db: Any, claim: Claim, said: dict[str, Any]) -> None:
    status = said.get("status", "failed")
    if said.get("retry", True):
        delay = said.get("delay_ms")
        end = retry.failed(claim, "boom", status=status, delay=None if delay is None else delay / 1_000)
    else:
        end = retry.dead(claim, "boom")
    assert db.settle_all([end]) == []


def _by_sql(db: Any, claim: Claim, said: dict[str, Any]) -> str:
    delay = said.get("delay_ms")
    ((status,),) = db.sql(
        "select headway.fail(?::uuid, ?::uuid, ?::integer, 'boom', ?::boolean, ?::interval, ?::text)",
        db.home(),
        claim.id,
        claim.fence,
        said.get("retry", True),
        None if delay is None else f"{delay} milliseconds",
        said.get("status", "failed"),
    )
    return status


def test_a_failure_goes_where_the_model_sends_it(db: Any) -> None:
    ways = ["op"] + ["sql"] * (db.dialect == "postgres")
    for n, (policy, said, way, tried) in enumerate(product(POLICIES, SAYINGS, ways, (0, 1))):
        shown = []
        for by in ("model", way):
            db.sql(
                f"update {db.table('jobs')} set status = 'canceled', finished_at = created_at where status = 'queued'"
            )
            claim = db.start(kind=f"k{n}", **policy)
            if tried and policy["delivery"] == "at_least_once" and policy["max_attempts"] > 1:
                db.settle_all([retry.failed(claim, "first", delay=0)])
                claim = db.take()
            if by == "model":
                _by_model(db, claim, said)
            elif by == "op":
                ended = db.fail(Failure(claim.id, claim.fence, "boom", **said))
                assert (ended.statuses, ended.lost) == ({claim.id: db.job(claim.id).status}, [])
            else:
                assert _by_sql(db, claim, said) == db.job(claim.id).status
            shown.append(_shown(db, claim.id, exact="delay_ms" in said))
        assert shown[0] == shown[1], (policy, said, way)


@POSTGRES
def test_a_long_error_is_cut(db: Any) -> None:
    claim = db.start()
    db.sql("select headway.fail(?::uuid, ?::uuid, ?::integer, repeat('é', 70000))", db.home(), claim.id, claim.fence)
    assert db.job(claim.id).error == "é" * 65_536


def test_losses_count_against_an_at_most_once_job(db: Any) -> None:
    policy = {"delivery": "at_most_once", "max_attempts": 3}
    job = db.start(**policy)
    db.sql(f"update {db.table('jobs')} set losses = 2")
    assert db.fail(Failure(job.id, job.fence, "boom")).statuses == {job.id: "dead"}


def test_what_was_asked_to_cancel_is_canceled_and_what_succeeded_is_not(db: Any) -> None:
    one, two, told = db.enqueue_ids(3, max_attempts=1)
    db.sql(f"update {db.table('jobs')} set max_attempts = 2 where id = '{one}'")
    claims = {claim.id: claim for claim in db.claim()}
    db.cancel(one, two, told, reason="enough")
    assert db.fail(Failure(one, claims[one].fence, "boom")).statuses == {one: "canceled"}
    # a worker that was told says so: not dead, though it was the last try, and nothing is charged
    stopped = Failure(told, claims[told].fence, None, status="canceled")
    for _ in range(2):  # a repeat gives the same answer
        assert db.fail(stopped) == Ended({told: "canceled"})
    job, (attempt,) = db.job(told), db.attempts(told)
    assert (job.error, job.tries, attempt.status, attempt.error) == ("enough", 0, "canceled", "enough")
    assert db.complete(Completion(two, claims[two].fence, "7")).statuses == {two: "succeeded"}
    assert db.job(two).result == 7


def test_many_end_at_once_and_each_claim_is_its_workers(db: Any, make: Any) -> None:
    other = db.worker()
    ids = db.enqueue_ids(5, max_attempts=2)
    db.run(db.ops.enqueue([make.machine()]))
    claims = db.claim(limit=5)
    (theirs,) = db.claim(other, limit=1)
    machine = theirs if theirs.checkpoint else None
    assert machine is not None
    first, second, third, fourth, fifth = claims
    ended = db.complete(Completion(first.id, first.fence, "1"), Completion(machine.id, machine.fence))
    assert (ended.statuses, ended.lost) == ({first.id: "succeeded"}, [(machine.id, machine.fence)])
    # the machine's own worker: nothing is written, for its step ends with an outcome
    ended = db.complete(Completion(machine.id, machine.fence), worker=other)
    assert (ended.statuses, ended.lost, ended.machines) == ({}, [], [(machine.id, machine.fence)])
    assert db.status(machine.id) == "running"
    # another worker's claims, another fence, another job: nothing changes
    for strays in (
        db.fail(Failure(second.id, second.fence, "no"), worker=other),
        db.complete(Completion(second.id, second.fence), worker=other),
        db.fail(Failure(second.id, second.fence + 1, "no")),
        db.complete(Completion(second.id, second.fence - 1)),
    ):
        assert (strays.statuses, len(strays.lost)) == ({}, 1)
    assert db.status(second.id) == "running"
    said = {"exit_code": 3, "stdout_tail": "out", "stderr_tail": "err"}
    ended = db.fail(
        Failure(second.id, second.fence, "boom", delay_ms=0, **said),
        Failure(third.id, third.fence, "boom", delay_ms=5_000),
        Failure(fourth.id, fourth.fence, "boom", retry=False),
        Failure(first.id, first.fence + 1, "stale"),
    )
    assert ended.statuses == {second.id: "queued", third.id: "scheduled", fourth.id: "dead"}
    assert ended.lost == [(first.id, first.fence + 1)]
    assert [db.attempts(second.id)[0].exit_code, db.attempts(second.id)[0].stderr_tail] == [3, "err"]
    # an answer that was lost: the same again, and nothing more is charged
    again = db.fail(Failure(second.id, second.fence, "boom", delay_ms=0))
    assert (again.statuses, again.lost) == ({second.id: "queued"}, [])
    assert db.complete(Completion(first.id, first.fence, "1")).statuses == {first.id: "succeeded"}
    assert (db.job(second.id).tries, len(db.attempts(first.id))) == (1, 1)
    # said otherwise before: what was written stays
    assert db.fail(Failure(first.id, first.fence, "no")).lost == [(first.id, first.fence)]
    assert db.complete(Completion(second.id, second.fence)).lost == [(second.id, second.fence)]
    assert db.settle_all([retry.released(fifth, "stopping")]) == []
    assert db.complete(Completion(fifth.id, fifth.fence)).lost == [(fifth.id, fifth.fence)]
    assert ids == [first.id, second.id, third.id, fourth.id, fifth.id]


def test_sql_completes_fails_and_refuses(db: Any, make: Any) -> None:
    if db.dialect != "postgres":
        return

    def call(what: str, job: Claim, fence: int, *more: str) -> Any:
        values = ", ".join((f"'{db.home()}'", f"'{job.id}'", str(fence), *more))
        try:
            return db.sql(f"select headway.{what}({values})")[0][0]
        except psycopg.Error as error:
            return error.sqlstate

    job = db.start()
    for what, more in (
        ("fail", ("'boom'", "true", "interval '-1 s'")),
        ("fail", ("'boom'", "true", "interval '101 years'")),
        ("fail", ("null",)),
        ("fail", ("'boom'", "true", "null", "'succeeded'")),
        ("complete", ("'[1e999]'",)),
    ):
        assert call(what, job, job.fence, *more) == "HW004"
    assert call("fail", job, job.fence + 1, "'stale'") == call("complete", job, job.fence - 1) == "HW002"
    assert db.status(job.id) == "running"
    assert [call("complete", job, job.fence, f"'[{n}]'") for n in (1, 2)] == ["succeeded", "succeeded"]
    assert db.job(job.id).result == [1]
    assert call("fail", job, job.fence + 1, "'stale'") == "HW002"
    db.run(db.ops.enqueue([make.machine()]))
    machine = db.take()
    assert call("complete", machine, machine.fence) == "HW003"
    assert call("fail", machine, machine.fence, "'boom'", "false") == "dead"
    job = db.start()
    assert call("fail", job, job.fence, "null", "true", "null", "'canceled'") == "canceled"
