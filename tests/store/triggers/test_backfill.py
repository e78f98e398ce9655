"""A backfill writes fires for times of the past, with their jobs, and leaves the schedule's own times alone."""

from __future__ import annotations

import pytest

from headway.errors import Duplicate, InvalidJob
from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import firing, job_of, new_fire
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


@ALL_LIBRARIES
def test_the_times_are_fired_with_their_jobs_and_the_schedule_stays(db):
    made = db.schedule(tenant="acme", name="s", next_fire_at=db.after(1_000), overlap="skip", enabled=False)
    times = [db.after(-3_000), db.after(-2_000), db.after(-1_000)]
    fires = db.backfill(made, *(new_fire(made, time) for time in times), actor="ada")
    assert [(fire.nominal_at, fire.status, fire.tenant_id, fire.fired_at) for fire in fires] == [
        (time, "enqueued", ACME, db.now()) for time in times
    ]
    assert [db.job(fire.job_id).tenant_id for fire in fires] == [ACME] * 3
    assert db.fires() == fires[::-1]
    assert db.trigger(made.id) == made
    (entry,) = db.audit_log(action="trigger.backfilled")
    shown = [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times]
    assert (entry.actor, entry.detail, entry.tenant_id) == ("ada", f"s: 3 from {shown[0]} to {shown[2]}", ACME)


def test_a_time_that_is_there_is_left_as_it_is(db):
    made = db.schedule()
    (fired,) = db.fire(firing(made, new_fire(made, db.now()), next_fire_at=db.after(60_000)))
    past = db.after(-1_000)
    (one,) = db.backfill(made, new_fire(made, past), new_fire(made, past), new_fire(made, db.now()))
    assert db.fired_times(made, db.after(-2_000), past, db.now()) == [past, db.now()]
    assert db.backfill(made, new_fire(made, past), new_fire(made, db.now())) == []
    assert db.fires() == [one, fired]
    assert len(db.find()) == 2
    assert len(db.audit_log(action="trigger.backfilled")) == 1


def test_a_firing_of_a_time_that_was_backfilled_makes_no_second_job(db):
    made = db.schedule(next_fire_at=db.now())
    db.backfill(made, new_fire(made, db.now()))
    assert db.fire(firing(made, new_fire(made, db.now()), next_fire_at=db.after(60_000))) == []
    assert len(db.find()) == 1
    assert db.trigger(made.id).next_fire_at == db.after(60_000)


def test_all_or_none_of_a_piece_is_written(db):
    made = db.schedule()
    jobs = [job_of(made, unique_key="u", on_conflict="raise") for _ in range(2)]
    fires = [new_fire(made, db.after(-1_000 * number), job=job) for number, job in enumerate(jobs, 1)]
    with pytest.raises(Duplicate):
        db.backfill(made, *fires)
    assert (db.fires(), db.find(), db.audit_log()[0].action) == ([], [], "trigger.created")


def test_a_job_that_meets_another_by_its_key_is_that_one(db):
    there = db.enqueue(unique_key="u").id
    made = db.schedule()
    (fire,) = db.backfill(made, new_fire(made, db.after(-1_000), job=job_of(made, unique_key="u")))
    assert (fire.status, fire.job_id) == ("deduped", there)


def test_a_time_that_has_not_come_is_refused(db):
    made = db.schedule()
    for time in (db.after(1_000), None):
        with pytest.raises(InvalidJob, match="a backfill is of times that have come: nothing was written"):
            db.backfill(made, new_fire(made, db.now()), new_fire(made, time))
    assert db.fires() == []


def test_what_is_no_schedule_of_the_tenant_is_none(db):
    made, listener = db.schedule(tenant="acme"), db.listener("paid")
    assert db.backfill(made, new_fire(made, db.now()), tenant_id=BETA) is None
    assert db.backfill(listener, new_fire(listener, db.now())) is None
    assert len(db.backfill(made, new_fire(made, db.now()), tenant_id=ACME)) == 1
    assert db.backfill(made, tenant_id=ACME) == []
