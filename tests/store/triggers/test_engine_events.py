"""The engine's own events: whatever ends a job is heard once by who listens in its tenant; else nothing is written."""

from __future__ import annotations

from collections import Counter

import pytest

from headway.model.event import ENGINE_EVENTS
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.status import FINISHED
from tests.store.triggers.trigger_calls import firing, handling, job_of, new_fire
from tests.store.triggers.ways_to_end import WAYS
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def listen(db, *statuses, **options):
    """Triggers on the ends of jobs; all of them without statuses."""
    names = [f"headway.job.{status}" for status in statuses] or ENGINE_EVENTS
    return [db.listener(name, **options) for name in names]


def ended(db):
    """Each (event, job) that was emitted, and how often."""
    return Counter((each.name, each.job_id) for each in db.events())


def over(db):
    """Each (event, job) that there should be: one for each job that is over."""
    return Counter((f"headway.job.{job.status}", job.id) for job in db.find() if job.status in FINISHED)


# the event itself


def test_an_event_says_what_ended_and_how(db):
    listen(db, "dead", tenant="acme")
    job_id = db.enqueue(
        tenant="acme",
        kind="invoice",
        queue="billing",
        correlation_id="corr-1",
        source="schedule",
        trigger_id="0190a6e0-0000-7000-8000-000000000042",
        max_attempts=3,
    ).id
    worker = db.worker()
    claim = db.take(worker, queue="billing")
    db.unregister(worker)
    db.reap()
    db.advance("1h")
    db.promote()
    claim = db.take(queue="billing")
    ended_at = db.advance("1s")
    db.settle(claim, "dead", error="boom: \u2603\nTraceback\n  line", charge=1)
    (event,) = db.events()
    assert (event.name, event.job_id, event.tenant_id, event.tenant) == ("headway.job.dead", job_id, ACME, "acme")
    assert (event.status, event.emitted_at, event.handled_at) == ("pending", ended_at, None)
    assert (event.correlation_id, event.error) == ("corr-1", None)
    assert event.payload == {
        "job_id": job_id,
        "kind": "invoice",
        "queue": "billing",
        "status": "dead",
        "error": "boom: \u2603",
        "tries": 1,
        "losses": 1,
        "correlation_id": "corr-1",
        "source": "schedule",
        "trigger_id": "0190a6e0-0000-7000-8000-000000000042",
    }


def test_an_event_of_a_success_has_no_error(db):
    listen(db, "succeeded")
    claim = db.start()
    db.finish(claim)
    (event,) = db.events()
    assert event.payload == {
        "job_id": claim.id,
        "kind": "mail",
        "queue": "default",
        "status": "succeeded",
        "error": None,
        "tries": 0,
        "losses": 0,
        "correlation_id": None,
        "source": "manual",
        "trigger_id": None,
    }
    assert event.correlation_id is None


@pytest.mark.parametrize("error", ["", "one", "one\n", "\n", "one\r\ntwo", "a\tb \u2028 c"])
def test_the_error_is_its_first_line(db, error):
    listen(db, "dead")
    claim = db.start()
    db.settle(claim, "dead", error=error)
    (event,) = db.events()
    first = event.payload["error"]
    assert first is None or first.rstrip("\r") == error.split("\n")[0].rstrip("\r")
    assert (first or "") == "" or error.startswith(first)


def test_an_event_is_heard_and_handled_like_any_other(db):
    (trigger,) = listen(db, "dead")
    db.advance("1s")
    db.settle(db.start(), "dead", error="boom")
    (event,) = db.events()
    assert db.heard() == {event.id: [trigger.id]}
    (fire,) = db.handle(handling(event.id, trigger))
    assert db.job(fire.job_id).trigger_id == trigger.id
    assert db.event(event.id).status == "handled"


def test_ids_of_events_come_after_those_of_before(db):
    """They are read and handled in order of id."""
    listen(db, "dead")
    earlier = db.emit("paid")
    for claim in (db.start(queue=queue) for queue in "abc"):
        db.settle(claim, "dead", error="boom")
    ids = [each.id for each in db.events()]
    assert len(set(ids)) == 4
    assert ids[-1] == earlier
    assert list(db.heard()) == list(reversed(ids))


# every way to end


@pytest.mark.parametrize("way", WAYS)
def test_whatever_ends_a_job_is_heard_once(db, make, way):
    go, expected = WAYS[way]
    listen(db)
    go(db, make)
    db.process_arrivals()
    jobs = Counter(job.status for job in db.find() if job.status in FINISHED)
    assert jobs == expected
    assert ended(db) == over(db)


@pytest.mark.parametrize("way", WAYS)
def test_without_listeners_nothing_is_written(db, make, way):
    db.listener("headway.job.dead", enabled=False)
    db.listener("headway.job.dead", tenant="acme")
    db.listener("paid")
    listening = db.listener("headway.job.dead")
    db.delete_trigger(listening.id)
    WAYS[way][0](db, make)
    db.process_arrivals()
    assert over(db)
    assert db.events() == []


def test_each_status_has_its_own_listeners(db, make):
    listen(db, "canceled")
    for way in ("a batch", "at_most_once failed"):
        WAYS[way][0](db, make)
    assert {each.name for each in db.events()} == {"headway.job.canceled"}


def test_several_listeners_hear_one_event(db):
    one, two = listen(db, "dead") + listen(db, "dead")
    db.advance("1s")
    db.settle(db.start(), "dead", error="boom")
    (event,) = db.events()
    assert sorted(db.heard()[event.id]) == sorted([one.id, two.id])


def test_tenants_hear_only_of_their_own(db):
    listen(db, "dead", tenant="acme")
    ids = [db.enqueue(tenant=tenant).id for tenant in ("acme", "beta", "default", "acme")]
    claims = db.claim()
    assert len(claims) == 4
    for claim in claims:
        db.settle(claim, "dead", error="boom")
    assert ended(db) == Counter(("headway.job.dead", job_id) for job_id in (ids[0], ids[3]))
    assert {each.tenant_id for each in db.events()} == {ACME}


def test_tenants_of_one_batch_hear_only_of_their_own(db, make):
    listen(db, "dead", tenant="acme")
    listen(db, "succeeded")
    for tenant in ("acme", "beta", "default"):
        db.enqueue(tenant=tenant)
        db.enqueue(tenant=tenant)
    claims = db.claim()
    db.settle_all([make.settlement(c, "dead" if n % 2 else "succeeded", error="e") for n, c in enumerate(claims)])
    assert {(each.name, each.tenant_id) for each in db.events()} == {
        ("headway.job.dead", ACME),
        ("headway.job.succeeded", DEFAULT_TENANT_ID),
    }
    assert len(db.events()) == 2


def test_a_job_that_ends_again_is_heard_again(db):
    listen(db, "dead")
    claim = db.start()
    db.settle(claim, "dead", error="one")
    db.retry(claim.id)
    db.settle(db.take(), "dead", error="two")
    assert [each.payload["error"] for each in reversed(db.events())] == ["one", "two"]


def test_a_repeated_settle_is_not_heard_again(db):
    listen(db)
    claim = db.start()
    for _ in range(3):
        db.settle(claim, "dead", error="boom")
    assert sum(ended(db).values()) == 1


def test_a_stale_settle_is_not_heard(db):
    listen(db)
    claim = db.start()
    db.release(claim)
    assert db.settle(claim, "dead", error="boom") == [(claim.id, 1)]
    assert db.events() == []


def test_a_job_that_is_not_over_is_not_heard(db):
    listen(db)
    db.settle(db.start(), "scheduled", delay_ms=1_000, charge=1, error="boom")
    db.settle(db.start(queue="q"), "queued")
    db.park(db.begin(queue="m"), "paid")
    worker = db.worker()
    db.start(worker, queue="r")
    db.unregister(worker)
    db.reap()
    assert db.cancel(db.start(queue="c").id)
    assert db.events() == []


# no end of it


@pytest.mark.parametrize("to", ["dead", "succeeded", "canceled", "failed"])
def test_a_reaction_to_an_end_is_not_heard_itself(db, to):
    triggers = listen(db)
    delivery = "at_most_once" if to == "failed" else "at_least_once"
    for trigger in triggers:
        db.enqueue_all([job_of(trigger, delivery=delivery)])
        db.settle(db.take(), to, error="boom", delay_ms=10**9)
    assert db.events() == []


def test_a_retry_of_a_reaction_is_not_heard_either(db):
    (trigger,) = listen(db, "failed")
    db.enqueue_all([job_of(trigger, delivery="at_most_once")])
    for _ in range(3):
        db.settle(db.take(), "failed", charge=1, error="boom")
    assert db.events() == []


def test_a_disabled_reaction_is_a_reaction_too(db):
    reacting, other = db.listener("headway.job.dead"), db.listener("headway.job.dead")
    db.enqueue_all([job_of(reacting)])
    db.change_trigger(reacting.id, enabled=False)
    db.settle(db.take(), "dead", error="boom")
    assert db.events() == []
    # one whose trigger is gone is a job like any other
    db.enqueue_all([job_of(reacting)])
    db.delete_trigger(reacting.id)
    db.settle(db.take(), "dead", error="boom")
    assert len(db.events()) == 1
    assert other.enabled


def test_reactions_and_others_end_in_one_batch(db, make):
    (trigger,) = listen(db, "dead")
    plain = db.enqueue().id
    db.enqueue_all([job_of(trigger)])
    of_schedule = job_of(db.schedule())
    db.enqueue_all([of_schedule])
    db.settle_all([make.settlement(claim, "dead", error="e") for claim in db.claim()])
    assert {job_id for _, job_id in ended(db)} == {plain, of_schedule.id}


# with the transaction


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_event_comes_with_the_end_or_not_at_all(db, make, session, end):
    listen(db)
    claim = db.start()
    waiting = db.enqueue().id
    open_ = session()
    open_.run(db.ops.settle(db.home(), [make.settlement(claim, "dead", error="boom")]))
    open_.run(db.ops.cancel([waiting], tenant_id=None, reason=None, actor=None))
    assert db.events() == []
    getattr(open_, end)()
    assert len(db.events()) == (2 if end == "commit" else 0)


def test_a_fire_whose_job_ends_is_heard_of_a_schedule(db):
    """A schedule is no reaction."""
    listen(db, "succeeded")
    schedule = db.schedule()
    (fire,) = db.fire(firing(schedule, new_fire(schedule, db.now()), next_fire_at=None))
    db.drain()
    (event,) = db.events()
    assert (event.payload["trigger_id"], event.payload["source"]) == (schedule.id, "schedule")
    assert event.job_id == fire.job_id
