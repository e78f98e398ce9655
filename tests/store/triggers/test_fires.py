"""Invariant 8: a schedule's nominal time fires exactly once, with its job and its next time, or not at all."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from headway.errors import Duplicate
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.model.trigger import Firing, NewFire
from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import firing, job_of, new_fire, new_schedule, refused
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


# fire


@ALL_LIBRARIES
def test_every_field_of_a_fire_is_stored(db):
    made = db.schedule(tenant="acme", next_fire_at=db.after(1_000))
    fired_at = db.advance("5s")
    job = job_of(made, payload='{"z": 1, "a": 9007199254740993}', queue="q", template_revision=3, created_by="ann")
    new = new_fire(made, db.after(-4_000), job=job)
    (fire,) = db.fire(firing(made, new, next_fire_at=db.after(60_000)))
    assert msgspec.structs.asdict(fire) == {
        "id": new.id,
        "trigger_id": made.id,
        "tenant_id": ACME,
        "nominal_at": new.nominal_at,
        "event_id": None,
        "fired_at": fired_at,
        "status": "enqueued",
        "job_id": job.id,
        "error": None,
    }
    db.advance("1s")
    assert db.fires() == [fire]
    stored = db.job(job.id)
    assert (stored.tenant_id, stored.queue, stored.payload) == (ACME, "q", {"z": 1, "a": 9007199254740993})
    assert (stored.trigger_id, stored.source, stored.source_ref) == (made.id, "schedule", made.name)
    assert (stored.status, stored.created_by, stored.template_revision) == ("queued", "ann", 3)
    after = db.trigger(made.id)
    assert (after.next_fire_at, after.last_fired_at, after.last_job_id) == (
        fired_at + timedelta(seconds=60),
        new.nominal_at,
        job.id,
    )
    assert (after.error, after.revision, after.enabled) == (None, 1, True)


def test_several_times_of_one_firing_are_fired_in_order(db):
    made = db.schedule(next_fire_at=db.now())
    times = [db.after(n * 1_000) for n in range(5)]
    db.advance("10s")
    fires = db.fire(firing(made, *times, next_fire_at=db.after(60_000)))
    assert [each.nominal_at for each in fires] == times
    assert db.drain() == [each.job_id for each in fires]
    after = db.trigger(made.id)
    assert (after.last_fired_at, after.last_job_id) == (times[-1], fires[-1].job_id)


def test_several_schedules_fire_in_one_call(db):
    made = [db.schedule(tenant=tenant) for tenant in ("acme", "beta", "default")]
    later = db.after(60_000)
    fires = db.fire(*(firing(each, db.now(), next_fire_at=later) for each in reversed(made)))
    assert {each.trigger_id for each in fires} == {each.id for each in made}
    assert {db.job(each.job_id).tenant for each in fires} == {"acme", "beta", "default"}
    assert {each.next_fire_at for each in db.triggers()} == {later}


def test_a_firing_without_fires_only_sets_when_it_is_due(db):
    made = db.schedule()
    db.advance("1h")
    assert db.fire(firing(made, next_fire_at=db.after(1_000))) == []
    after = db.trigger(made.id)
    assert (after.next_fire_at, after.last_fired_at, after.last_job_id) == (db.after(1_000), None, None)
    assert (db.fires(), db.find()) == ([], [])


def test_a_schedule_that_will_not_fire_again_is_due_no_more(db):
    made = db.schedule()
    db.fire_now(made, next_fire_at=None)
    db.advance("9d")
    assert (db.due_ids(), db.trigger(made.id).next_fire_at) == ([], None)


def test_nothing_to_fire_is_nothing(db):
    assert db.fire() == []


# at most once


def test_a_firing_planned_by_what_was_due_before_is_void(db):
    made = db.schedule()
    first = firing(made, db.now(), next_fire_at=db.after(60_000))
    late = firing(made, db.now(), db.after(1), next_fire_at=db.after(90_000))
    assert len(db.fire(first)) == 1
    before = db.trigger(made.id)
    assert db.fire(late) == []
    assert db.trigger(made.id) == before
    assert len(db.find()) == len(db.fires()) == 1


def test_a_repeated_fire_changes_nothing(db):
    """The worker lost the answer and asks again."""
    made = db.schedule()
    plan = firing(made, db.now(), db.after(-1), next_fire_at=db.after(60_000))
    assert len(db.fire(plan)) == 2
    before = db.trigger(made.id), db.fires(), db.find()
    db.advance("1s")
    assert db.fire(plan) == []
    assert (db.trigger(made.id), db.fires(), db.find()) == before


def test_a_firing_planned_by_an_older_revision_is_void(db):
    made = db.schedule()
    plan = firing(made, db.now(), next_fire_at=db.after(60_000))
    changed = db.change_trigger(made.id, payload='{"new": true}')
    assert db.fire(plan) == []
    assert db.trigger(made.id) == changed
    assert (db.fires(), db.find()) == ([], [])
    assert len(db.fire(firing(changed, db.now(), next_fire_at=None))) == 1


@pytest.mark.parametrize("how", ["disabled", "deleted", "unknown"])
def test_a_schedule_that_is_off_or_gone_does_not_fire(db, how):
    made = db.schedule()
    if how == "disabled":
        made = db.change_trigger(made.id, enabled=False)
    elif how == "deleted":
        db.delete_trigger(made.id)
    else:
        made = msgspec.structs.replace(made, id=new_id())
    assert db.fire(firing(made, db.now(), next_fire_at=db.after(1))) == []
    assert (db.fires(), db.find()) == ([], [])


def test_a_void_firing_leaves_the_others_of_its_call(db):
    good, bad = db.schedule(), db.schedule()
    db.change_trigger(bad.id, description="changed")
    fires = db.fire(*(firing(each, db.now(), next_fire_at=db.after(1)) for each in (bad, good)))
    assert [each.trigger_id for each in fires] == [good.id]
    assert len(db.find()) == 1


def test_a_nominal_time_that_was_fired_is_left_as_it_is(db):
    made = db.schedule()
    times = [db.now(), db.after(1_000), db.after(2_000)]
    (first,) = db.fire(firing(made, times[1], next_fire_at=db.now()))
    db.advance("5s")
    again = db.fire(firing(db.trigger(made.id), *times, next_fire_at=db.after(60_000)))
    assert [each.nominal_at for each in again] == [times[0], times[2]]
    assert len(db.find()) == 3
    assert [each for each in db.fires() if each.nominal_at == times[1]] == [first]
    assert db.trigger(made.id).next_fire_at == db.after(60_000)


def test_one_nominal_time_twice_in_one_firing_is_one_fire(db):
    made = db.schedule()
    fires = db.fire(firing(made, db.now(), db.now(), next_fire_at=db.after(1)))
    assert len(fires) == len(db.fires()) == len(db.find()) == 1


def test_the_same_time_of_two_schedules_is_two_fires(db):
    one, two = db.schedule(), db.schedule()
    assert len(db.fire(*(firing(each, db.now(), next_fire_at=None) for each in (one, two)))) == 2


def test_one_firing_twice_in_one_call_is_one(db):
    made = db.schedule()
    plans = [firing(made, db.now(), next_fire_at=db.after(60_000)) for _ in range(2)]
    assert len(db.fire(*plans)) == 1
    assert len(db.fires()) == len(db.find()) == 1
    assert db.trigger(made.id).next_fire_at == db.after(60_000)


# all or none


def test_a_refused_job_takes_everything_of_its_call_back(db):
    db.enqueue(unique_key="taken", queue="other")
    good, bad = db.schedule(), db.schedule()
    before = db.triggers()
    db.advance("1s")
    plan = [
        firing(good, db.now(), next_fire_at=db.after(1)),
        firing(bad, db.now(), refused(new_fire(bad, db.after(1))), next_fire_at=db.after(1)),
    ]
    with pytest.raises(Duplicate):
        db.fire(*plan)
    assert (db.triggers(), db.fires()) == (before, [])
    assert len(db.find()) == 1
    assert len(db.fire(plan[0])) == 1


def test_a_job_that_meets_another_by_its_key_is_that_one(db):
    there = db.enqueue(unique_key="u").id
    made = db.schedule()
    (fire,) = db.fire(firing(made, new_fire(made, db.now(), job=job_of(made, unique_key="u")), next_fire_at=None))
    assert (fire.status, fire.job_id, fire.error) == ("deduped", there, None)
    assert db.fires() == [fire]
    after = db.trigger(made.id)
    assert (after.last_job_id, after.last_fired_at, after.next_fire_at) == (None, None, None)
    by_hand = db.run_trigger(new_fire(made, job=job_of(made, unique_key="u")))
    assert (by_hand.status, by_hand.job_id) == ("deduped", there)
    assert len(db.find()) == 1


# fires that fail


def test_a_fire_without_a_job_has_failed_and_its_error_is_kept(db):
    made = db.schedule()
    new = new_fire(made, db.now(), error="no value at event.x\nmore")
    (fire,) = db.fire(firing(made, new, next_fire_at=db.after(60_000)))
    assert (fire.status, fire.job_id, fire.error) == ("failed", None, "no value at event.x\nmore")
    assert db.fires() == [fire]
    after = db.trigger(made.id)
    assert (after.error, after.next_fire_at, after.enabled) == ("no value at event.x\nmore", db.after(60_000), True)
    assert (after.last_job_id, after.revision, db.find()) == (None, 1, [])


def test_a_fire_that_succeeds_takes_the_error_back(db):
    made = db.schedule()
    db.fire_now(made, error="boom", next_fire_at=db.after(1_000))
    db.advance("1s")
    fire = db.fire_now(made, next_fire_at=db.after(1_000))
    after = db.trigger(made.id)
    assert (after.error, after.last_job_id) == (None, fire.job_id)


def test_a_failed_fire_keeps_the_job_before(db):
    made = db.schedule()
    fire = db.fire_now(made, next_fire_at=db.after(1_000))
    db.advance("1s")
    db.fire_now(made, error="boom", next_fire_at=None)
    after = db.trigger(made.id)
    assert (after.last_job_id, after.error) == (fire.job_id, "boom")


def test_the_last_fire_of_a_firing_says_whether_there_is_an_error(db):
    made = db.schedule(next_fire_at=db.now())
    fires = [new_fire(made, db.now(), error="boom"), new_fire(made, db.after(1))]
    assert [each.status for each in db.fire(firing(made, *fires, next_fire_at=db.now()))] == ["failed", "enqueued"]
    assert db.trigger(made.id).error is None
    fires = [new_fire(made, db.after(2)), new_fire(made, db.after(3), error="again")]
    db.fire(firing(db.trigger(made.id), *fires, next_fire_at=None))
    assert db.trigger(made.id).error == "again"


# by hand


def test_a_trigger_is_run_by_hand_whatever_its_schedule_says(db):
    made = db.schedule(tenant="acme", enabled=False, overlap="skip", next_fire_at=db.after(60_000))
    new = new_fire(made, job=job_of(made, source="manual"))
    fire = db.run_trigger(new, tenant_id=ACME)
    assert msgspec.structs.asdict(fire) == {
        "id": new.id,
        "trigger_id": made.id,
        "tenant_id": ACME,
        "nominal_at": None,
        "event_id": None,
        "fired_at": db.now(),
        "status": "enqueued",
        "job_id": new.job.id,
        "error": None,
    }
    assert db.fires() == [fire]
    assert db.job(fire.job_id).trigger_id == made.id
    db.advance("1s")
    second = db.run_trigger(new_fire(made))
    assert second.status == "enqueued"
    after = db.trigger(made.id)
    assert (after.next_fire_at, after.enabled, after.revision) == (made.next_fire_at, False, 1)
    assert after.last_job_id == second.job_id


def test_an_event_trigger_is_run_by_hand_too(db):
    made = db.listener("paid", enabled=False)
    fires = [db.run_trigger(new_fire(made, dedupe_key="d")) for _ in range(2)]
    assert [(each.status, each.nominal_at, each.event_id) for each in fires] == [("enqueued", None, None)] * 2
    assert len(db.find()) == 2


def test_a_run_by_hand_may_be_repeated(db):
    made = db.schedule()
    new = new_fire(made)
    first = db.run_trigger(new)
    db.advance("1s")
    assert db.run_trigger(new) == first
    assert len(db.find()) == len(db.fires()) == 1


def test_a_run_of_what_is_not_there_is_none(db):
    made = db.schedule()
    db.delete_trigger(made.id)
    assert db.run_trigger(new_fire(made)) is None
    assert (db.find(), db.fires()) == ([], [])


def test_a_run_by_hand_does_not_void_what_was_planned(db):
    made = db.schedule()
    plan = firing(made, db.now(), next_fire_at=db.after(1))
    db.run_trigger(new_fire(made))
    assert len(db.fire(plan)) == 1


def test_a_run_by_hand_that_is_not_over_is_an_overlap(db):
    made = db.schedule(overlap="skip")
    fire = db.run_trigger(new_fire(made))
    assert db.fire_now(made).job_id == fire.job_id
    assert len(db.find()) == 1


def test_of_several_jobs_that_are_not_over_a_skipped_fire_names_the_newest(db):
    made = db.schedule(overlap="skip")
    runs = [db.run_trigger(new_fire(made)) for _ in range(3)]
    assert db.fire_now(made).job_id == runs[-1].job_id


def test_a_run_by_hand_whose_job_is_refused_leaves_nothing(db):
    db.enqueue(unique_key="taken")
    made = db.schedule()
    with pytest.raises(Duplicate):
        db.run_trigger(refused(new_fire(made)), actor="ann")
    assert (db.fires(), db.trigger(made.id), len(db.find())) == ([], made, 1)
    assert db.audited() == [(None, "trigger.created")]


# reads and retention


def test_fires_are_read_by_trigger_tenant_and_in_pages(db):
    one, two = db.schedule(tenant="acme"), db.schedule(tenant="beta")
    first = db.fire(firing(one, *(db.after(n) for n in range(5)), next_fire_at=None))
    second = db.fire(firing(two, db.now(), next_fire_at=None))
    newest = sorted([*first, *second], key=lambda each: each.id, reverse=True)
    assert db.fires() == newest
    assert db.fires(tenant_id=ACME) == db.fires(trigger_id=one.id) == [each for each in newest if each in first]
    assert db.fires(tenant_id=ACME, trigger_id=two.id) == []
    assert db.fires(limit=2) == newest[:2]
    assert db.fires(limit=3, before=newest[1].id) == newest[2:5]
    assert db.fires(tenant_id=ACME, limit=2, before=newest[2].id) == newest[3:5]


def test_fires_of_schedules_are_pruned_by_age(db):
    made = db.schedule()
    old = db.fire_now(made, next_fire_at=db.after(3_600_000))
    by_hand = db.run_trigger(new_fire(made))
    db.advance("1h")
    young = db.fire_now(made)
    assert db.prune_fires(fires_ms=3_600_000) == 0
    db.advance(0.001)
    assert db.prune_fires(fires_ms=3_600_000) == 2
    assert db.fires() == [young]
    assert db.prune_fires(fires_ms=3_600_000) == 0
    assert {db.status(each.job_id) for each in (old, by_hand)} == {"queued"}
    assert db.trigger(made.id).last_job_id == young.job_id


def test_fires_are_pruned_up_to_a_limit(db):
    made = db.schedule()
    fires = db.fire(firing(made, *(db.after(n) for n in range(5)), next_fire_at=None))
    db.advance("1h")
    assert db.prune_fires(fires_ms=0, limit=2) == 2
    assert db.prune_fires(fires_ms=0, limit=2) == 2
    assert len(db.fires()) == 1
    assert db.fires()[0] in fires


def test_a_declared_schedule_fires_like_any_other(db):
    new = new_schedule(name="n", next_fire_at=db.now())
    db.declare(new)
    fire = db.fire_now(db.trigger(new.id), next_fire_at=db.after(60_000))
    assert fire.status == "enqueued"
    db.declare(new)
    assert db.trigger(new.id).next_fire_at == db.after(60_000)


def test_times_that_are_not_caught_up_on_are_one_skipped_fire(db):
    made = db.schedule(next_fire_at=db.now())
    later = db.after(60_000)
    gap = NewFire(id=new_id(), trigger_id=made.id, nominal_at=db.now(), error="skipped: too many", skipped=True)
    fire = NewFire(id=new_id(), trigger_id=made.id, nominal_at=later, job=NewJob(id=new_id(), kind="mail"))
    firing = Firing(
        trigger_id=made.id, revision=made.revision, due_at=made.next_fire_at, next_fire_at=None, fires=(gap, fire)
    )
    written = db.run(db.ops.fire([firing]))
    assert [(each.status, each.job_id is None, each.error) for each in written] == [
        ("skipped", True, "skipped: too many"),
        ("enqueued", False, None),
    ]
    (trigger,) = db.run(db.ops.triggers(tenant_id=None, type=None, name=made.name, events=None, limit=1, after=None))
    assert (trigger.error, trigger.last_fired_at) == (None, later)
