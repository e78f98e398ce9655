"""Groups: jobs enqueued together, in a row or side by side, with a policy for failures and a job for their end."""

from __future__ import annotations

import pytest

from headway.errors import InvalidJob
from headway.model.ids import new_id
from headway.model.retry import failed
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


class Built:
    """A group as the application builds it: its members, and the callback that waits for them all."""

    def __init__(self, make, count=3, *, mode="parallel", on_failure="stop", callback=True, **options):
        group_id = new_id()
        policy = "stop" if on_failure == "stop" else "continue"
        members = []
        for _ in range(count):
            after = (members[-1].id,) if members and mode == "sequential" else ()
            members.append(make.job(**options, group_id=group_id, after=after, on_failure=policy))
        self.jobs = list(members)
        self.ids = [job.id for job in members]
        self.callback = None
        if callback:
            last = make.job(
                queue="callbacks",
                after=tuple(self.ids),
                on_failure="continue" if on_failure == "continue" else "stop",
                **{name: options[name] for name in ("tenant",) if name in options},
            )
            self.jobs.append(last)
            self.callback = last.id
        self.group = make.group(
            id=group_id,
            mode=mode,
            on_failure=on_failure,
            callback_id=self.callback,
            **({"tenant": options["tenant"], "tenant_id": tenant_id(options["tenant"])} if "tenant" in options else {}),
        )
        self.id = group_id


@pytest.fixture
def build(db, make):
    def build(*args, **options):
        built = Built(make, *args, **options)
        db.enqueue_all(built.jobs, built.group)
        return built

    return build


def run(db, to="succeeded"):
    claim = db.take()
    assert db.settle(claim, to, error="boom") == []
    return claim.id


# running


def test_a_parallel_group_runs_side_by_side_and_its_callback_at_the_end(db, build):
    group = build(3)
    assert db.statuses(*group.ids, group.callback) == ["queued"] * 3 + ["held"]
    claims = db.claim()
    assert [claim.id for claim in claims] == group.ids
    db.finish(*claims[:2])
    assert db.claim(queue="callbacks") == []
    db.finish(claims[2])
    assert db.statuses(group.callback) == ["queued"]
    assert db.drain("callbacks") == [group.callback]


def test_a_sequential_group_runs_in_a_row(db, build):
    group = build(4, mode="sequential")
    assert db.statuses(*group.ids) == ["queued", "held", "held", "held"]
    assert db.drain() == group.ids
    assert db.drain("callbacks") == [group.callback]


def test_a_group_shows_how_far_it_is(db, build):
    made_at = db.now()
    built = build(4, on_failure="continue")
    db.advance("1m")
    group = db.group(built.id)
    assert (group.id, group.mode, group.on_failure, group.callback_id) == (
        built.id,
        "parallel",
        "continue",
        built.callback,
    )
    assert (group.created_at, group.stopped_at, group.tenant) == (made_at, None, "default")
    assert (group.total, group.done, group.progress, group.status) == (4, 0, 0.0, "running")
    run(db)
    run(db, "dead")
    db.take()
    group = db.group(built.id)
    counts = {status: n for status, n in group.counts.items() if n}
    assert counts == {"succeeded": 1, "dead": 1, "running": 1, "queued": 1}
    assert (group.done, group.failed, group.progress) == (2, 1, 0.5)


def test_a_group_without_a_callback_just_ends(db, build):
    built = build(2, callback=False)
    db.drain()
    assert (db.group(built.id).status, db.group(built.id).progress) == ("succeeded", 1.0)


def test_a_group_is_read_only_by_its_tenant(db, build):
    built = build(2, tenant="acme")
    assert db.group(built.id, tenant_id=ACME).tenant == "acme"
    assert db.group(built.id, tenant_id=tenant_id("beta")) is None
    assert db.group(new_id()) is None


def test_a_repeated_enqueue_of_a_group_adds_nothing(db, build):
    built = build(2)
    again = db.enqueue_all(built.jobs, built.group)
    assert [answer.id for answer in again] == [job.id for job in built.jobs]
    assert db.group(built.id).total == 2
    assert sorted(db.drain()) == sorted(built.ids)
    assert db.drain("callbacks") == [built.callback]


def test_members_are_found_by_their_group(db, build):
    built = build(3)
    db.enqueue()
    assert {job.id for job in db.find(group_id=built.id)} == set(built.ids)


# failures


@pytest.mark.parametrize("to", ["dead", "canceled"])
def test_stop_cancels_the_others_and_the_callback(db, build, to):
    built = build(4, on_failure="stop")
    first, second = db.claim(limit=2)
    now = db.advance("1m")
    db.settle(first, to, error="boom")
    assert db.statuses(*built.ids, built.callback) == [to, "running", "canceled", "canceled", "canceled"]
    assert db.job(second.id).cancel_requested_at == now
    assert db.heartbeat().canceling == [(second.id, 1)]
    assert db.group(built.id).stopped_at == now
    db.settle(second, "canceled")
    assert db.group(built.id).status == ("failed" if to == "dead" else "canceled")
    assert db.claim() == []
    assert db.claim(queue="callbacks") == []


@pytest.mark.parametrize("how", ["cancel", "expire", "lost"])
def test_stop_minds_every_bad_end(db, build, how):
    built = build(3, max_losses=1)
    match how:
        case "cancel":
            db.cancel(built.ids[0])
        case "expire":
            db.change(built.ids[0], expires_at=db.after(1_000))
            db.advance("2s")
            db.promote()
        case "lost":
            worker = db.worker()
            db.take(worker)
            db.reap(worker)
    assert db.statuses(*built.ids[1:], built.callback) == ["canceled"] * 3
    assert db.group(built.id).stopped_at == db.now()


def test_stop_ends_a_sequential_group_where_it_is(db, build):
    built = build(4, mode="sequential", on_failure="stop")
    run(db)
    run(db, "dead")
    assert db.statuses(*built.ids, built.callback) == ["succeeded", "dead", "canceled", "canceled", "canceled"]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_continue_goes_on_and_runs_the_callback_all_the_same(db, build, mode):
    built = build(3, mode=mode, on_failure="continue")
    assert [run(db), run(db, "dead"), run(db)] == built.ids
    assert db.statuses(built.callback) == ["queued"]
    assert (db.group(built.id).stopped_at, db.group(built.id).status) == (None, "failed")


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_skip_goes_on_but_cancels_the_callback(db, build, mode):
    built = build(3, mode=mode, on_failure="skip")
    assert [run(db), run(db, "dead"), run(db)] == built.ids
    assert db.statuses(built.callback) == ["canceled"]
    assert db.group(built.id).stopped_at is None


def test_a_member_that_tries_again_stops_nothing(db, build):
    built = build(2)
    db.settle(db.take(), "scheduled", charge=1, delay_ms=1_000)
    assert db.group(built.id).stopped_at is None
    db.advance("2s")
    db.promote()
    assert db.drain() == built.ids
    assert db.drain("callbacks") == [built.callback]


def test_a_sequential_group_waits_for_the_job_that_retries_an_at_most_once_member(db, build):
    built = build(3, mode="sequential", delivery="at_most_once")
    db.settle(db.take(), "failed", charge=1, delay_ms=0)
    (again,) = db.find(retry_of=built.ids[0])
    assert db.statuses(*built.ids[1:]) == ["held", "held"]
    assert db.drain() == [again.id, *built.ids[1:]]
    assert db.drain("callbacks") == [built.callback]


def test_an_at_most_once_member_is_counted_by_the_job_that_retries_it(db, build):
    built = build(2, delivery="at_most_once")
    db.settle_all([failed(db.take(), "boom")])
    group = db.group(built.id)
    assert (group.total, group.done, group.failed, group.stopped_at) == (2, 0, 0, None)
    (again,) = db.find(retry_of=built.ids[0])
    assert again.group_id == built.id
    db.advance("2h")
    db.promote()
    assert db.drain() == [again.id, built.ids[1]]
    assert db.group(built.id).status == "succeeded"
    assert db.drain("callbacks") == [built.callback]


# cancel


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_group_can_be_canceled(db, build, mode):
    built = build(3, mode=mode, on_failure="continue")
    done = run(db)
    claim = db.take()
    answer = db.cancel_group(built.id, reason="enough", actor="ann")
    assert answer[claim.id] == "running"
    assert {answer[job_id] for job_id in (built.ids[2], built.callback)} == {"canceled"}
    assert answer.get(done, "succeeded") == "succeeded"
    assert db.statuses(*built.ids, built.callback) == ["succeeded", "running", "canceled", "canceled"]
    assert "enough" in db.job(built.ids[2]).error
    assert db.group(built.id).stopped_at == db.now()
    db.settle(claim, "canceled")
    assert db.claim() + db.claim(queue="callbacks") == []


def test_a_cancel_of_an_unknown_group_gives_none(db, build):
    built = build(2)
    assert db.cancel_group(new_id()) is None
    assert db.cancel_group(built.id, tenant_id=ACME) is None
    assert db.statuses(*built.ids) == ["queued", "queued"]


# retry


def test_a_group_can_be_retried(db, build):
    built = build(3, on_failure="stop")
    done = run(db)
    run(db, "dead")
    assert db.statuses(*built.ids, built.callback) == ["succeeded", "dead", "canceled", "canceled"]
    answer = db.retry_group(built.id, actor="ann")
    assert set(built.ids[1:]) <= set(answer) <= {*built.ids[1:], built.callback}
    assert db.statuses(*built.ids, built.callback) == ["succeeded", "queued", "queued", "held"]
    assert db.group(built.id).stopped_at is None
    assert db.job(built.ids[1]).tries == 0
    assert db.drain() == built.ids[1:]
    assert db.drain("callbacks") == [built.callback]
    assert len(db.attempts(done)) == 1


def test_a_sequential_group_goes_on_from_the_first_that_failed(db, build):
    built = build(4, mode="sequential", on_failure="stop")
    run(db)
    run(db, "dead")
    db.process_arrivals()
    db.retry_group(built.id)
    assert db.statuses(*built.ids, built.callback) == ["succeeded", "queued", "held", "held", "held"]
    assert db.drain() == built.ids[1:]
    assert db.drain("callbacks") == [built.callback]


def test_a_canceled_group_can_be_retried(db, build):
    built = build(3, mode="sequential")
    db.cancel_group(built.id)
    db.retry_group(built.id)
    assert db.drain() == built.ids
    assert db.drain("callbacks") == [built.callback]


def test_a_retried_group_can_fail_again(db, build):
    built = build(2)
    run(db, "dead")
    db.process_arrivals()
    db.retry_group(built.id)
    run(db, "dead")
    assert db.statuses(*built.ids, built.callback) == ["dead", "canceled", "canceled"]


def test_a_retry_of_a_group_that_succeeded_runs_nothing(db, build):
    built = build(2)
    db.drain()
    db.drain("callbacks")
    assert db.retry_group(built.id) == []
    assert db.statuses(*built.ids, built.callback) == ["succeeded"] * 3


def test_a_retry_of_a_group_of_at_most_once_members_makes_new_jobs(db, build):
    built = build(2, delivery="at_most_once", max_attempts=1, on_failure="continue")
    run(db, "dead")
    run(db)
    db.drain("callbacks")
    (again,) = set(db.retry_group(built.id)) - {built.callback}
    assert (db.job(again).retry_of, db.job(again).group_id) == (built.ids[0], built.id)
    assert db.drain() == [again]
    assert db.group(built.id).status == "succeeded"


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_callback_that_ran_runs_again_when_the_retried_members_are_over(db, build, mode):
    built = build(3, mode=mode, on_failure="continue")
    run(db)
    run(db, "dead")
    run(db)
    assert db.drain("callbacks") == [built.callback]
    assert db.retry_group(built.id) == [built.ids[1]]
    db.process_arrivals()
    assert db.statuses(*built.ids, built.callback) == ["succeeded", "queued", "succeeded", "held"]
    assert db.drain() == [built.ids[1]]
    assert db.drain("callbacks") == [built.callback]
    assert len(db.attempts(built.callback)) == 2


def test_a_retry_of_an_unknown_group_gives_none(db, build):
    built = build(1)
    assert db.retry_group(new_id()) is None
    assert db.retry_group(built.id, tenant_id=ACME) is None


# members that come later


def test_a_member_can_be_added_while_the_callback_waits(db, build):
    built = build(2)
    first, second = db.claim()
    late = db.enqueue(group_id=built.id).id
    assert db.group(built.id).total == 3
    db.finish(first, second)
    assert db.statuses(built.callback) == ["held"]
    assert db.drain() == [late]
    assert db.drain("callbacks") == [built.callback]


def test_a_member_that_was_added_counts_as_any_other(db, build):
    built = build(2, on_failure="stop")
    late = db.enqueue(group_id=built.id, priority=1).id
    assert run(db, "dead") == late
    assert db.statuses(*built.ids, built.callback) == ["canceled"] * 3


@pytest.mark.parametrize("state", ["stopped", "canceled", "over"])
def test_no_member_is_added_to_a_group_that_is_stopped_or_over(db, build, state):
    built = build(2)
    match state:
        case "stopped":
            run(db, "dead")
        case "canceled":
            db.cancel_group(built.id)
        case "over":
            db.drain()
            db.drain("callbacks")
    db.process_arrivals()
    with pytest.raises(InvalidJob, match=built.id):
        db.enqueue(group_id=built.id)
    assert len(db.find(group_id=built.id)) == 2


def test_no_member_is_added_to_another_tenants_group(db, build):
    built = build(2, tenant="acme")
    with pytest.raises(InvalidJob):
        db.enqueue(group_id=built.id)
    assert db.group(built.id).total == 2


# what stays behind


def test_pruning_the_last_member_and_the_callback_removes_the_group(db, build):
    built = build(2)
    db.drain()
    db.advance("1h")
    db.prune("succeeded", older_than_ms=1_000)
    assert db.group(built.id) is not None  # its callback is still to run
    db.drain("callbacks")
    db.advance("1h")
    db.prune("succeeded", older_than_ms=1_000)
    assert db.group(built.id) is None
    assert db.sql("select count(*) from {groups}") == [(0,)]
    assert db.sql("select count(*) from {edges}") == [(0,)]


def test_a_member_may_be_a_car_and_have_a_partition(db, build):
    built = build(3, train="t", partition="p")
    assert db.statuses(*built.ids) == ["queued", "held", "held"]
    assert db.drain() == built.ids
    assert db.drain("callbacks") == [built.callback]
