"""Invariant 3: at most one locomotive per train, and cars start in order, each after the end of the one before."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def cars(db, count=3, **options):
    return [db.enqueue(**{"train": "t", **options}).id for _ in range(count)]


# order


def test_the_first_car_is_the_locomotive_and_the_others_are_held(db):
    answers = [db.enqueue(train="t") for _ in range(3)]
    assert [answer.status for answer in answers] == ["queued", "held", "held"]
    assert db.statuses(*(answer.id for answer in answers)) == ["queued", "held", "held"]
    assert db.job(answers[0].id).queued_at == db.now()
    assert db.job(answers[1].id).queued_at is None


def test_a_batch_of_cars_has_one_locomotive_the_first_of_the_call(db, make):
    answers = db.enqueue_all([make.job(train="t", priority=priority) for priority in (100, 1, 50)])
    assert [answer.status for answer in answers] == ["queued", "held", "held"]


def test_cars_run_one_at_a_time_in_the_order_of_their_calls(db):
    ids = cars(db, 5)
    for job_id in ids:
        (claim,) = db.claim()
        assert claim.id == job_id
        assert db.claim() == []
        db.finish(claim)
    assert db.claim() == []


def test_the_next_car_is_let_go_in_the_settling_transaction(db):
    first, second, third = cars(db)
    claim = db.take()
    later = db.advance("1m")
    db.settle(claim, "succeeded")
    assert [db.status(job_id) for job_id in (first, second, third)] == ["succeeded", "queued", "held"]
    assert db.job(second).queued_at == later


def test_inside_a_train_only_position_counts(db):
    ids = [db.enqueue(train="t", priority=priority).id for priority in (100, 50, 1, 75)]
    assert db.drain() == ids


def test_ids_decide_between_equal_positions(db, make):
    jobs = [make.job(train="t") for _ in range(6)]
    db.enqueue_all([jobs[0], *reversed(jobs[1:])])
    db.sql("update {jobs} set position = 4096")
    assert db.drain() == [job.id for job in jobs]


def test_trains_of_different_keys_do_not_wait_for_each_other(db, make):
    jobs = [make.job(train=name) for name in "aabbcc"]
    db.enqueue_all(jobs)
    assert [claim.id for claim in db.claim()] == [jobs[n].id for n in (0, 2, 4)]


def test_a_name_is_another_train_for_another_tenant(db):
    db.set_fair(fair=False)
    mine, theirs = db.enqueue(train="t").id, db.enqueue(train="t", tenant="acme").id
    assert [claim.id for claim in db.claim()] == [mine, theirs]


def test_the_cars_of_a_train_may_be_of_any_kind_and_queue(db):
    first = db.enqueue(train="t", kind="a", queue="one").id
    second = db.enqueue(train="t", kind="b", queue="two").id
    assert db.claim(queue="two") == []
    assert db.drain("one") == [first]
    assert db.drain("two") == [second]


def test_a_car_keeps_the_place_in_the_queue_that_it_got_when_it_was_enqueued(db):
    first, second = cars(db, 2)
    plain = db.enqueue().id
    urgent = db.enqueue(priority=1).id
    assert [claim.id for claim in db.claim(limit=1)] == [urgent]
    db.finish(*db.claim(limit=1))
    assert [claim.id for claim in db.claim()] == [second, plain]
    assert db.status(first) == "succeeded"


def test_an_enqueue_into_thousands_of_trains_in_one_call(db, make):
    jobs = [make.job(train=f"t{n % 2_000}") for n in range(6_000)]
    answers = db.enqueue_all(jobs)
    assert [answer.status for answer in answers] == ["queued"] * 2_000 + ["held"] * 4_000
    for part in range(3):
        claims = db.claim(limit=6_000)
        assert [claim.id for claim in claims] == [job.id for job in jobs[part * 2_000 : part * 2_000 + 2_000]]
        db.finish(*claims)
    assert db.trains() == []


def test_a_settle_of_many_trains_lets_the_next_of_each_go(db, make):
    db.enqueue_all([make.job(train=f"t{n % 30}") for n in range(60)])
    claims = db.claim()
    ends = ["succeeded", "dead", "canceled", "scheduled"]
    db.settle_all([make.settlement(claim, ends[n % 4], delay_ms=1_000) for n, claim in enumerate(claims)])
    assert len(db.claim()) == sum(ends[n % 4] != "scheduled" for n in range(30))


def test_a_repeated_enqueue_of_a_car_adds_none(db, make):
    jobs = [make.job(train="t") for _ in range(2)]
    first = db.enqueue_all(jobs)
    assert [(each.id, each.status) for each in db.enqueue_all(jobs)] == [(each.id, each.status) for each in first]
    assert [answer.status for answer in first] == ["queued", "held"]
    assert db.train("t").length == 2
    assert db.drain() == [job.id for job in jobs]


@pytest.mark.parametrize("key", ["idempotency_key", "unique_key"])
def test_a_car_that_met_an_existing_job_takes_no_seat(db, make, key):
    """The first car of the call is not inserted: the second is the locomotive."""
    known = db.enqueue(queue="other", **{key: "k"}).id
    met, new = db.enqueue_all([make.job(train="t", **{key: "k"}), make.job(train="t")])
    assert (met.id, met.created, new.created) == (known, False, True)
    assert db.statuses(new.id) == ["queued"]
    assert db.drain() == [new.id]


@pytest.mark.parametrize("key", ["idempotency_key", "unique_key"])
@pytest.mark.parametrize("trains", [("t", None), (None, "t"), ("u", "t"), ("t", "t")])
def test_a_key_that_comes_twice_in_a_call_is_the_firsts_whatever_the_trains(db, make, key, trains):
    jobs = [make.job(train=train, **{key: "k"}) for train in trains]
    answers = db.enqueue_all(jobs)
    assert [(answer.id, answer.created) for answer in answers] == [(jobs[0].id, True), (jobs[0].id, False)]


def test_a_locomotive_that_would_enter_a_taken_scope_is_answered_with_its_holder(db):
    """Its train is empty, so it would be queued, and that is taken."""
    scope = ("queued",)
    holder = db.enqueue(unique_key="k", unique_scope=scope, queue="other")
    answer = db.enqueue(train="t", unique_key="k", unique_scope=scope)
    assert (answer.id, answer.created) == (holder.id, False)
    assert db.trains() == []


def test_a_held_car_is_in_no_scope_that_leaves_held_out(db):
    scope = ("queued",)
    db.enqueue(unique_key="k", unique_scope=scope, queue="other")
    db.enqueue(train="t")
    answer = db.enqueue(train="t", unique_key="k", unique_scope=scope)
    assert (answer.status, answer.created) == ("held", True)


def test_cars_of_a_users_transaction_exist_exactly_if_it_commits(db, make):
    db.find()  # a file is made by its first op
    lost, kept, plain = [make.job(train="t") for _ in range(2)], [make.job(train="t") for _ in range(2)], make.job()
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.store.run_in(conn, db.ops.enqueue(lost))
        conn.execute("rollback")
        conn.execute("begin")
        db.store.run_in(conn, db.ops.enqueue(kept[:1]))
        db.store.run_in(conn, db.ops.enqueue([*kept[1:], plain]))
        conn.execute("commit")
    later = db.enqueue(train="t").id
    assert db.drain(limit=1) == [kept[0].id, kept[1].id, plain.id, later]
    assert len(db.find()) == 4


# the seat


def start(db, **options):
    """A train whose locomotive runs under a worker that is nobody else's."""
    worker = db.worker(lease_ms=10 * 365 * 86_400_000)
    first, second = cars(db, 2, **options)
    claim = db.take(worker)
    assert claim.id == first
    return worker, claim, second


@pytest.mark.parametrize("how", ["retry", "retry at once", "snooze", "release", "release later", "shutdown", "crash"])
def test_the_locomotive_keeps_the_train(db, how):
    worker, claim, second = start(db)
    match how:
        case "retry":
            db.settle(claim, "scheduled", charge=1, delay_ms=1_000)
        case "retry at once":
            db.settle(claim, "scheduled", charge=1)
        case "snooze":
            db.settle(claim, "scheduled", status="snoozed", delay_ms=1_000)
        case "release":
            db.release(claim)
        case "release later":
            db.release(claim, delay_ms=1_000)
        case "shutdown":
            db.settle(claim, "queued")
        case "crash":
            assert [reaped.to for reaped in db.reap(worker)] == ["scheduled"]
    assert db.statuses(claim.id, second) in (["scheduled", "held"], ["queued", "held"])
    assert db.train("t").head_id == claim.id
    db.advance("1h")
    db.promote()
    assert db.drain() == [claim.id, second]


def test_a_waiting_locomotive_keeps_the_train(db):
    _, claim, second = start(db)
    db.sql("update {jobs} set status = 'waiting', worker_id = null, attempt_started_at = null where id = ?", claim.id)
    third = db.enqueue(train="t")
    assert third.status == "held"
    assert db.statuses(second) == ["held"]
    assert db.claim() == []
    db.sql("update {jobs} set status = 'queued' where id = ?", claim.id)
    assert db.drain() == [claim.id, second, third.id]


def test_a_settle_of_a_lost_execution_moves_no_train(db):
    worker, claim, second = start(db)
    db.reap(worker)
    assert db.settle(claim, "succeeded", worker) == [(claim.id, 1)]
    assert db.statuses(claim.id, second) == ["scheduled", "held"]


def test_a_repeated_settle_lets_no_second_car_go(db):
    worker, claim, second = start(db)
    third = db.enqueue(train="t").id
    for _ in range(2):
        assert db.settle(claim, "succeeded", worker) == []
    assert db.statuses(second, third) == ["queued", "held"]


def test_a_second_locomotive_is_refused_by_the_table_itself(db):
    _, second = cars(db, 2)
    with pytest.raises(Exception, match=r"(?i)unique"):
        db.sql("update {jobs} set status = 'queued' where id = ?", second)
    assert db.status(second) == "held"


def test_a_claim_says_whether_others_wait_for_its_end(db):
    plain = db.start()
    assert not plain.followed
    cars(db, 2)
    assert db.take().followed


# delayed cars


def test_a_delayed_first_car_is_the_locomotive_while_it_waits(db):
    first, second = db.enqueue(train="t", delay_ms=60_000).id, db.enqueue(train="t").id
    assert db.statuses(first, second) == ["scheduled", "held"]
    assert db.claim() == []
    db.advance("2m")
    db.promote()
    assert db.drain() == [first, second]


def test_a_delayed_car_has_its_place_from_the_start(db):
    first, late, last = (db.enqueue(train="t", delay_ms=delay).id for delay in (None, 60_000, None))
    positions = [db.job(job_id).position for job_id in (first, late, last)]
    assert positions == sorted(positions)
    db.finish(db.take())
    assert db.statuses(late, last) == ["scheduled", "held"]
    assert db.claim() == []
    db.advance("2m")
    db.promote()
    assert db.job(late).position == positions[1]
    assert db.drain() == [late, last]


def test_a_delayed_car_whose_time_has_come_meanwhile_is_queued(db):
    first, late = db.enqueue(train="t").id, db.enqueue(train="t", delay_ms=60_000).id
    claim = db.take()
    now = db.advance("2m")
    db.promote()
    assert db.statuses(first, late) == ["running", "held"]
    db.finish(claim)
    assert (db.status(late), db.job(late).queued_at) == ("queued", now)


def test_promote_lets_no_held_car_go(db):
    cars(db, 2, delay_ms=1_000)
    db.advance("2s")
    assert db.promote().queued == 1
    assert len(db.claim()) == 1


# change


def test_a_locomotive_that_is_put_off_keeps_the_seat(db):
    first, second = cars(db, 2)
    assert db.change(first, scheduled_for=db.after(60_000)) == "scheduled"
    assert db.statuses(first, second) == ["scheduled", "held"]
    assert db.claim() == []
    assert db.change(first, scheduled_for=None) == "queued"
    assert db.drain() == [first, second]


def test_a_held_car_that_is_put_off_stays_held_and_waits_when_its_turn_comes(db):
    first, second, third = cars(db)
    assert db.change(second, scheduled_for=db.after(60_000)) == "held"
    db.finish(db.take())
    assert db.statuses(first, second, third) == ["succeeded", "scheduled", "held"]


def test_a_held_car_can_be_changed_otherwise(db):
    first, second = cars(db, 2)
    assert db.change(second, priority=3, queue="slow", payload='{"n": 1}') == "held"
    assert db.drain() == [first]
    claim = db.take(queue="slow")
    assert (claim.id, db.job(second).priority, db.job(second).payload) == (second, 3, {"n": 1})


# what stays behind


def test_a_train_that_becomes_empty_leaves_no_row_behind(db):
    cars(db, 3)
    cars(db, 2, train="u", tenant="acme")
    db.drain()
    db.process_arrivals()
    assert db.trains() == []
    assert db.sql("select count(*) from {holds}") == [(0,)]
    if db.dialect == "postgres":
        assert db.sql("select count(*) from {arrivals}") == [(0,)]


def test_pruning_finished_cars_leaves_a_correct_train(db):
    ids = cars(db, 4)
    db.settle(db.take(), "dead")
    db.finish(db.take())
    db.advance("1h")
    assert db.prune("dead", older_than_ms=1_000) + db.prune("succeeded", older_than_ms=1_000) == 2
    assert (db.train("t").length, db.train("t").head_id) == (2, ids[2])
    assert db.drain() == ids[2:]


def test_a_row_says_which_train_it_is_of_and_what_its_end_means(db):
    job = db.job(db.enqueue(train="t", on_canceled="hold", tenant="acme").id)
    assert (job.train, job.on_canceled, job.on_dead, job.pending, job.tenant_id) == (
        "t",
        "hold",
        "advance",
        False,
        ACME,
    )
    job = db.job(db.enqueue(on_dead="hold").id)
    assert (job.train, job.on_canceled, job.on_dead) == (None, "advance", "hold")
