"""Dedupe: a trigger makes one job of a key in its window, whichever events ask for it."""

from __future__ import annotations

from datetime import timedelta

from tests.store.triggers.trigger_calls import handling, new_fire


def fired(db, trigger, key, name="paid"):
    """Emit, and handle by this trigger with that key."""
    (fire,) = db.handle(handling(db.emit(name, tenant=trigger.tenant), new_fire(trigger, dedupe_key=key)))
    return fire


def test_a_key_makes_one_job_in_its_window(db, paid):
    first = fired(db, paid, "k")
    db.advance(timedelta(milliseconds=299_999))
    again = fired(db, paid, "k")
    assert (again.status, again.job_id, again.error) == ("deduped", first.job_id, None)
    assert db.event(again.event_id).status == "handled"
    assert len(db.find()) == 1
    # the window counts from the job, not from what was deduped
    db.advance(0.001)
    third = fired(db, paid, "k")
    assert third.status == "enqueued"
    assert fired(db, paid, "k").job_id == third.job_id


def test_a_deduped_event_leaves_the_last_job_of_its_trigger(db, paid):
    first = fired(db, paid, "k")
    db.advance("1s")
    fired(db, paid, "k")
    row = db.trigger(paid.id)
    assert (row.last_job_id, row.error) == (first.job_id, None)


def test_other_keys_and_other_triggers_are_not_deduped(db, paid):
    other = db.listener("paid")
    fired(db, paid, "k")
    assert fired(db, paid, "l").status == "enqueued"
    assert fired(db, other, "k").status == "enqueued"
    assert fired(db, paid, "K").status == "enqueued"


def test_without_a_key_nothing_is_deduped(db, paid):
    assert [fired(db, paid, None).status for _ in range(3)] == ["enqueued"] * 3


def test_a_window_of_nothing_dedupes_nothing(db):
    made = db.listener("paid", dedupe_window_ms=0)
    assert [fired(db, made, "k").status for _ in range(2)] == ["enqueued"] * 2
    events = [db.emit("paid") for _ in range(2)]
    fires = db.handle(*(handling(each, new_fire(made, dedupe_key="k")) for each in events))
    assert [each.status for each in fires] == ["enqueued"] * 2


def test_a_window_that_is_changed_counts_at_once(db, paid):
    fired(db, paid, "k")
    db.advance("1m")
    db.change_trigger(paid.id, dedupe_window_ms=60_000)
    assert fired(db, paid, "k").status == "enqueued"
    db.advance("2m")
    db.change_trigger(paid.id, dedupe_window_ms=600_000)
    assert fired(db, paid, "k").status == "deduped"


def test_events_of_one_call_are_deduped_too(db, paid):
    events = [db.emit("paid") for _ in range(4)]
    keys = ["a", "b", "a", "a"]
    fires = db.handle(
        *(handling(event, new_fire(paid, dedupe_key=key)) for event, key in zip(events, keys, strict=True))
    )
    assert [each.status for each in fires] == ["enqueued", "enqueued", "deduped", "deduped"]
    assert [each.job_id for each in fires[2:]] == [fires[0].job_id] * 2
    assert len(db.find()) == 2
    assert {db.event(each).status for each in events} == {"handled"}


def test_a_failed_fire_dedupes_nothing(db, paid):
    failed = db.emit("paid")
    db.handle(handling(failed, new_fire(paid, error="boom", dedupe_key="k")))
    assert fired(db, paid, "k").status == "enqueued"


def test_the_job_of_a_deduped_fire_may_be_over(db, paid):
    first = fired(db, paid, "k")
    db.drain()
    assert (fired(db, paid, "k").job_id, len(db.find())) == (first.job_id, 1)
