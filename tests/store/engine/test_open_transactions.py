"""Somebody's open transaction holds a row or a key: the others go on, and it is come back to what it was in the way of.

On SQLite a write transaction of the application stops every other writer of its file, which is documented: nothing can
be held there while others write, and these tests show that each verb does its work beside a reader that stays.
"""

from __future__ import annotations

from contextlib import closing, contextmanager

import pytest

from headway.errors import StoreBusy
from headway.model.job import Report
from headway.model.limit import Limit
from tests.store.db import settlement
from tests.tenant_ids import tenant_id

AGAIN = ("queued", "scheduled")
LIMIT = Limit(scope="kind", name="mail", max_running=5)
LIMIT_OF_2 = Limit(scope="kind", name="mail", max_running=2)


@contextmanager
def holding(db, statement: str, *params):
    """A transaction of somebody's own that has run this and stays open; on SQLite it reads."""
    with closing(db.connect()) as user:
        user.execute("begin")
        if db.dialect == "postgres":
            user.execute(statement, params)
        else:
            list(user.execute("select count(*) from jobs"))
        yield user
        user.execute("rollback")


def key_asked_for(db, key: str = "u", scope: str = "{queued,scheduled}"):
    return holding(db, "select headway.enqueue('mail', unique_key => %s, unique_scope => %s)", key, scope)


def row_held(db, job_id: str):
    """As by `begin; select headway.cancel(…)`, or any other look at the row that locks it."""
    return holding(db, "select from headway.jobs where id = %s for update", job_id)


def lost(db, count: int = 1, **options) -> list[str]:
    """The ids of jobs whose worker is gone."""
    worker = db.worker(lease_ms=1_000)
    ids = db.enqueue_ids(count, **options)
    assert len(db.claim(worker)) >= count
    db.advance("2s")
    return ids


def test_a_dead_worker_is_reaped_beside_a_job_whose_unique_key_is_asked_for(db):
    (keyed,) = lost(db, unique_key="u", unique_scope=AGAIN)
    others = lost(db, 5)
    with key_asked_for(db):
        reaped = {each.job_id for each in db.reap()}
        assert reaped >= set(others)
    db.reap()
    assert {db.status(job_id) for job_id in [keyed, *others]} == {"scheduled"}


def test_more_lost_jobs_that_cannot_be_ended_now_than_a_batch_has_do_not_keep_the_others_out(db):
    kept = lost(db, 6)
    others = lost(db, 3)
    with holding(db, "select from headway.jobs where id = any (%s::uuid[]) for update", kept):
        for _ in range(5):
            db.reap(limit=2)
        assert [db.status(job_id) for job_id in others] == ["scheduled"] * 3


def test_more_lost_jobs_whose_keys_are_asked_for_than_a_batch_has_do_not_keep_the_others_out(db):
    kept = [lost(db, unique_key=f"u{n}", unique_scope=AGAIN)[0] for n in range(4)]
    others = lost(db, 3)
    with closing(db.connect()) as user:
        user.execute("begin")
        if db.dialect == "postgres":
            for n in range(4):
                user.execute(
                    "select headway.enqueue('mail', unique_key => %s, unique_scope => %s)", (f"u{n}", [*AGAIN])
                )
        for _ in range(3):
            db.reap(limit=2)
        if db.dialect == "postgres":
            assert {db.status(job_id) for job_id in kept} == {"running"}
            assert [db.status(job_id) for job_id in others] == ["scheduled"] * 3
        user.execute("rollback")
    while db.reap(limit=2):
        pass
    assert {db.status(job_id) for job_id in [*kept, *others]} == {"scheduled"}


def test_jobs_are_given_back_beside_one_whose_unique_key_is_asked_for(db):
    keyed = db.start(unique_key="u", unique_scope=AGAIN)
    other = db.start()
    with key_asked_for(db):
        given = db.release(keyed, other)
        assert db.status(other.id) == "queued"
    if given == 1:  # it stays with its worker, for a later call
        assert db.status(keyed.id) == "running"
        assert db.release(keyed) == 1
    assert db.status(keyed.id) == "queued"


def test_jobs_are_given_back_beside_one_whose_row_is_held(db):
    held, other = db.start(), db.start()
    with row_held(db, held.id):
        db.release(held, other, delay_ms=5)
        assert db.status(other.id) == "scheduled"
    db.release(held, delay_ms=5)
    assert db.status(held.id) == "scheduled"


@pytest.mark.parametrize("fair", [False, True])
def test_a_claim_goes_on_beside_jobs_whose_unique_key_of_running_ones_is_asked_for(db, fair):
    db.set_fair(fair=fair)
    first = db.enqueue_ids(1, unique_key="u", unique_scope=("running",), priority=1)
    others = db.enqueue_ids(3)
    open_scope = "{queued,scheduled,running}"
    with key_asked_for(db, scope=open_scope):
        claimed = [claim.id for claim in db.claim(limit=2)]
        if db.dialect == "postgres":
            assert claimed == others[:2]
        assert set(claimed) <= {*first, *others}
    assert set(claimed) | {claim.id for claim in db.claim()} == {*first, *others}


def test_what_is_said_of_jobs_is_shown_beside_one_whose_row_is_held(db):
    held, other = db.start(), db.start()
    said = [Report(each.id, each.fence, 0.5, "half", "log") for each in (held, other)]
    with row_held(db, held.id):
        db.report(db.home(), *said)
        assert (db.job(other.id).progress, db.job(other.id).log_tail) == (0.5, "log")
    db.report(db.home(), *said)
    assert db.job(held.id).progress == 0.5


@pytest.mark.parametrize("size", [1, 2, 7])
def test_outcomes_are_written_beside_one_whose_row_is_held(db, make, size):
    held, *others = [db.start() for _ in range(size)]
    with row_held(db, held.id):
        settled = db.run(db.ops.settle(db.home(), [make.settlement(each, "succeeded") for each in (held, *others)]))
        assert settled.lost == []
        assert settled.busy == ([(held.id, held.fence)] if db.dialect == "postgres" else [])
        assert {db.status(each.id) for each in others} <= {"succeeded"}
    if settled.busy:
        assert db.status(held.id) == "running"
        db.finish(held)
    assert db.status(held.id) == "succeeded"


def test_outcomes_are_written_beside_one_whose_unique_key_is_asked_for(db, make):
    keyed = db.start(unique_key="u", unique_scope=AGAIN)
    others = [db.start() for _ in range(4)]
    outcomes = [make.settlement(each, "scheduled", charge=1, delay_ms=1_000) for each in (keyed, *others)]
    with key_asked_for(db):
        settled = db.run(db.ops.settle(db.home(), outcomes))
        assert [db.status(each.id) for each in others] == ["scheduled"] * 4
    assert settled.busy == ([(keyed.id, keyed.fence)] if db.dialect == "postgres" else [])
    if settled.busy:
        assert db.settle_all(outcomes[:1]) == []
    assert db.status(keyed.id) == "scheduled"


def test_a_settle_that_claims_too_writes_its_outcomes_where_a_claim_has_to_wait(db, make):
    done = db.start(train="t")
    db.enqueue(train="t")
    op = db.ops.settle_and_claim(db.home(), [make.settlement(done, "succeeded")], "default", 1)
    with holding(db, "select pg_advisory_xact_lock(headway.queue_lock('default'))"):
        settled = db.run(op).settled
        assert (settled.lost, settled.busy) == ([], [])
        assert db.status(done.id) == "succeeded"


def test_what_is_due_is_queued_beside_jobs_whose_unique_key_is_asked_for(db):
    keyed = [db.enqueue(unique_key=f"u{n}", unique_scope=("queued",), scheduled_for=db.after(1)).id for n in range(4)]
    others = db.enqueue_ids(3, scheduled_for=db.after(2))
    db.advance("1s")
    with closing(db.connect()) as user:
        user.execute("begin")
        if db.dialect == "postgres":
            for n in range(4):
                user.execute("select headway.enqueue('mail', unique_key => %s, unique_scope => '{queued}')", (f"u{n}",))
        promoted = db.promote(limit=2)
        for _ in range(3):
            db.promote(limit=2)
        assert [db.status(job_id) for job_id in others] == ["queued"] * 3
        if db.dialect == "postgres":
            # nobody looks again at once, and again
            assert promoted.queued == 2
            assert db.promote(limit=2).next_due_ms > 0
        user.execute("rollback")
    db.promote()
    assert {db.status(job_id) for job_id in keyed} == {"queued"}


def test_what_expired_ends_beside_a_job_whose_unique_key_is_asked_for(db):
    keyed = db.enqueue(unique_key="u", unique_scope=("canceled",), expires_at=db.after(1)).id
    others = db.enqueue_ids(3, expires_at=db.after(2))
    db.advance("1s")
    with holding(db, "select") as user:
        if db.dialect == "postgres":
            other = user.execute(
                "select job_id from headway.enqueue('mail', unique_key => 'u', unique_scope => '{canceled}')"
            ).fetchone()
            user.execute("select headway.cancel(array[%s::uuid])", other)
        db.promote()
        assert [db.status(job_id) for job_id in others] == ["canceled"] * 3
    db.promote()
    assert db.status(keyed) == "canceled"


def test_old_jobs_are_pruned_beside_one_of_which_somebody_holds_something(db):
    held, *others = [db.start() for _ in range(4)]
    db.finish(held, *others)
    db.advance("1h")
    with holding(db, "select from headway.attempts where job_id = %s for update", held.id):
        db.prune("succeeded", older_than_ms=1_000)
        assert {job.id for job in db.find()} <= {held.id}
    db.prune("succeeded", older_than_ms=1_000)
    assert db.find() == []


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("row", "verb"),
    [
        ("select from headway.queues where name = 'default' for update", lambda ops: ops.pause("default", actor=None)),
        (
            "select from headway.reservations for update",
            lambda ops: ops.reserve("default", "01890000-0000-7000-8000-000000000001", holder="h", expires_ms=60_000),
        ),
        ("select from headway.limits for update", lambda ops: ops.set_limit(LIMIT, actor=None)),
    ],
    ids=["pause", "reserve", "limit"],
)
def test_claims_go_on_while_an_operator_waits_for_a_row(db, session, until, row, verb):
    """Who holds the row of a queue, a reservation or a limit holds up the operator, and nobody else."""
    db.pause()
    db.resume()
    db.limit("kind", "mail", max_running=5)
    db.reserve("01890000-0000-7000-8000-000000000001")
    db.unreserve("01890000-0000-7000-8000-000000000001")
    db.sql("insert into {reservations} values ('default', gen_random_uuid(), now(), now(), 'gone')")
    ids = db.enqueue_ids(2)
    with holding(db, row):
        operator = session()
        asked = operator.start(verb(db.ops))
        until(operator.blocked)
        assert [claim.id for claim in db.claim()] == ids
        assert not asked.done()
    asked.result(60)


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_limit_is_refused_rather_than_all_claims_held_up_by_the_row_of_a_running_job(db):
    held = db.start()
    with row_held(db, held.id):
        with pytest.raises(StoreBusy):
            db.limit("kind", "mail", max_running=1)
        assert db.limits() == []
    db.limit("kind", "mail", max_running=1)
    db.enqueue()
    assert db.claim() == []


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_what_arrived_is_looked_at_beside_an_arrival_that_is_held(db):
    """On SQLite nothing arrives: each verb does itself what follows from its change."""
    ids = {}
    for train in ("a", "b"):
        with closing(db.connect()) as user:
            user.execute("begin")
            (row,) = user.execute("select job_id from headway.enqueue('mail', train => %s)", (train,)).fetchall()
            user.execute("commit")
            ids[train] = str(row[0])
    assert db.sql("select count(*) from {arrivals}") == [(2,)]
    with holding(db, "select from headway.arrivals where 'a' = any (trains) for update"):
        assert [claim.id for claim in db.claim()] == [ids["b"]]
    assert [claim.id for claim in db.claim()] == [ids["a"]]


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "verb", ["pause('a', null)", "reserve('a', gen_random_uuid(), 'host:1', 60000)"], ids=["pause", "reserve"]
)
def test_a_pause_that_is_not_committed_yet_holds_up_the_claims_of_no_other_queue(db, verb):
    first, other = db.enqueue(queue="a").id, db.enqueue(queue="b").id
    with holding(db, f"select headway.{verb}"):
        assert db.claim(queue="a") == []
        assert [claim.id for claim in db.claim(queue="b")] == [other]
    assert [claim.id for claim in db.claim(queue="a")] == [first]


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("fair", [False, True], ids=["in order", "fair"])
@pytest.mark.parametrize("scope", ["kind", "tenant"])
def test_a_limit_that_is_not_committed_yet_holds_up_only_the_jobs_that_it_is_about(db, scope, fair):
    acme = tenant_id("acme")
    about = db.enqueue_ids(120, kind="report", tenant_id=acme, tenant="acme")
    plain, keyed = db.enqueue().id, db.enqueue(kind="sync", concurrency=2).id
    db.limit("kind", "sync", max_running=5)
    db.set_fair(fair=fair)
    name = "report" if scope == "kind" else acme
    with holding(db, "select headway.set_limit(%s, %s, 1)", scope, name):
        assert {claim.id for claim in db.claim(limit=5)} == {plain, keyed}
        # nor does a settle that claims wait, or a look at many queues
        third = db.enqueue().id
        settled = db.run(
            db.ops.settle_and_claim(db.home(), [settlement(db.claim(limit=1)[0], "succeeded")], "default", 5)
        )
        assert (settled.settled.busy, settled.claims) == ([], [])
        fourth = db.enqueue().id
        assert db.status(third) == "succeeded"
        assert db.take_job(fourth).id == fourth
    assert [claim.id for claim in db.claim(limit=5)] == about[:5]


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize(("scope", "name"), [("queue", "default"), ("tenant", "*")])
def test_a_limit_of_a_queue_or_of_all_tenants_is_not_waited_for_by_claims(db, scope, name):
    ids, other = db.enqueue_ids(3), db.enqueue(queue="other").id
    with holding(db, "select headway.set_limit(%s, %s, 1)", scope, name):
        assert db.claim() == []
        assert [claim.id for claim in db.claim(queue="other")] == ([other] if scope == "queue" else [])
    assert [claim.id for claim in db.claim()] == ids


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_limit_holds_from_its_commit_on_for_claims_that_went_on_beside_it(db, session, until):
    """The claim beside one open change must still exclude the next one."""
    reports, mails = db.enqueue_ids(3, kind="report"), db.enqueue_ids(3)
    claimer, operator = session(), session()
    with holding(db, "select headway.set_limit('kind', 'report', 1)"):
        claimed = claimer.run(db.ops.claim(db.home(), "default", 2))
        assert [claim.id for claim in claimed] == mails[:2]
    set_ = operator.start(db.ops.set_limit(LIMIT_OF_2, actor=None))
    until(lambda: operator.blocked() or set_.done())
    assert not set_.done()
    claimer.commit()
    set_.result(10)
    assert [claim.id for claim in db.claim()] == reports
    assert db.running_in() == 5
