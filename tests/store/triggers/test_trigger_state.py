"""What a trigger remembers of its fires, and changes that meet each other."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from headway.errors import InvalidJob, NotAllowed
from headway.model.definition import NewDefinition
from headway.model.ids import new_id
from tests.store.triggers.trigger_calls import (
    firing,
    handling,
    job_of,
    new_event,
    new_fire,
)


def test_only_fires_that_made_a_job_move_when_it_fired_last(db):
    made = db.schedule(overlap="skip")
    first = db.fire_now(made, next_fire_at=db.after(1_000))
    moved = db.trigger(made.id)
    assert (moved.last_fired_at, moved.last_job_id) == (first.nominal_at, first.job_id)
    db.advance("1s")
    assert db.fire_now(made, next_fire_at=db.after(1_000)).status == "skipped"
    db.advance("1s")
    assert db.fire_now(made, error="boom", next_fire_at=db.after(1_000)).status == "failed"
    after = db.trigger(made.id)
    assert (after.last_fired_at, after.last_job_id, after.error) == (first.nominal_at, first.job_id, "boom")
    db.drain()
    db.advance("1s")
    fires = [new_fire(made, db.now()), new_fire(made, db.after(1), error="boom")]
    enqueued, _ = db.fire(firing(db.trigger(made.id), *fires, next_fire_at=None))
    after = db.trigger(made.id)
    assert (after.last_fired_at, after.last_job_id, after.error) == (db.now(), enqueued.job_id, "boom")


def test_a_fire_that_met_another_job_made_none(db):
    made = db.schedule()
    there = db.enqueue(unique_key="u").id
    fire = db.fire_now(made, job=job_of(made, unique_key="u"), next_fire_at=db.after(1_000))
    assert (fire.status, fire.job_id) == ("deduped", there)
    after = db.trigger(made.id)
    assert (after.last_fired_at, after.last_job_id) == (None, None)


def test_what_made_no_job_dedupes_and_overlaps_nothing(db):
    there = db.enqueue(unique_key="u").id
    made = db.schedule(overlap="skip")
    plan = firing(
        made,
        new_fire(made, db.now(), job=job_of(made, unique_key="u")),
        new_fire(made, db.after(1)),
        new_fire(made, db.after(2)),
        next_fire_at=None,
    )
    fires = db.fire(plan)
    assert [each.status for each in fires] == ["deduped", "enqueued", "skipped"]
    assert (fires[0].job_id, fires[2].job_id) == (there, fires[1].job_id)
    listener = db.listener("paid")
    events = [db.emit("paid") for _ in range(3)]
    jobs = [job_of(listener, unique_key="u"), job_of(listener), job_of(listener)]
    fires = db.handle(
        *(handling(event, new_fire(listener, job=job, dedupe_key="k")) for event, job in zip(events, jobs, strict=True))
    )
    assert [each.status for each in fires] == ["deduped", "enqueued", "deduped"]
    assert [each.job_id for each in fires] == [there, jobs[1].id, jobs[1].id]


def test_an_overlap_is_seen_past_any_number_of_failed_fires(db):
    made = db.schedule(overlap="skip")
    first = db.fire_now(made, next_fire_at=db.after(1_000))
    db.advance("1s")
    fires = [new_fire(made, db.after(n), error="boom") for n in range(60)]
    db.fire(firing(db.trigger(made.id), *fires, next_fire_at=db.after(1_000)))
    db.advance("1s")
    last = db.fire_now(made)
    assert (last.status, last.job_id) == ("skipped", first.job_id)


def test_a_change_made_for_another_revision_is_refused(db):
    made = db.schedule(name="n")
    changed = db.change_trigger(made.id, of_revision=1, description="first", actor="ann")
    assert (changed.revision, changed.description) == (2, "first")
    with pytest.raises(NotAllowed):
        db.change_trigger(made.id, of_revision=1, description="second")
    with pytest.raises(NotAllowed):
        db.change_trigger(made.id, of_revision=3, description="second")
    assert db.trigger(made.id) == changed
    assert db.change_trigger(made.id, description="whatever it is").revision == 3
    assert db.change_trigger(new_id(), of_revision=1, description="second") is None
    assert "of_revision" not in " ".join(db.audit_details())
    assert len(db.audited()) == 3


def test_a_firing_does_not_void_a_change(db):
    """Only what people and code set counts the revision."""
    made = db.schedule()
    db.fire_now(made, next_fire_at=db.after(1_000))
    assert db.change_trigger(made.id, of_revision=1, description="mine").revision == 2


def test_templates_are_read_by_id(db):
    one, two = db.template(tenant="acme"), db.template()
    assert db.templates([two.id, new_id(), one.id]) == [one, two]
    assert db.templates([one.id], tenant_id=one.tenant_id) == [one]
    assert db.templates([two.id], tenant_id=one.tenant_id) == []
    assert db.templates([]) == []


def test_what_the_engine_says_is_not_for_others_to_say(db):
    db.listener("headway.job.dead")
    for name in ("headway.job.dead", "headway.", "headway.other"):
        with pytest.raises(InvalidJob):
            db.emit_all([new_event("paid"), new_event(name)])
        if db.dialect == "postgres":
            with pytest.raises(psycopg.Error, match="headway"):
                db.sql("select headway.emit(?)", name)
    assert db.events() == []
    db.emit("headwayx")
    db.enqueue()
    db.settle(db.take(), "dead", error="boom")
    assert {each.name for each in db.events()} == {"headwayx", "headway.job.dead"}


def test_a_clock_that_stands_still_does_not_hide_a_definition(db):
    """Two writes in one moment, and one that was deleted: each is another token than the one before."""
    before = db.due().defined
    for write in (
        lambda: db.declare(NewDefinition(kind="a")),
        lambda: db.change_definition("a", queue="q"),
        lambda: db.change_definition("a", queue="r"),
        lambda: db.declare(NewDefinition(kind="b")),
        lambda: db.delete_definition("a"),
    ):
        write()
        after = db.due().defined
        assert after != before
        before = after


def test_a_connection_of_another_session_reads_them_too(db):
    """As on a caller's own connection, whose library decodes JSON by itself."""
    made = db.schedule(payload='{"a": 1}')
    event = db.emit("paid", {"b": 2})
    with closing(db.connect()) as conn:
        conn.execute("begin")
        due = db.store.run_in(conn, db.ops.due(kinds=[], declared=[], limit=10))
        conn.execute("commit")
    assert [met.trigger for met in due.schedules] == [made]
    assert [(each.event.id, each.event.payload) for each in due.events] == [(event, {"b": 2})]
    assert due.now - db.now() == timedelta(0)
