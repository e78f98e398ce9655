"""A schedule with run_on_start is due at once when the first worker with its kind declares it, and then no more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import firing, new_schedule


def starting(db, **options):
    """As a worker declares it that starts now; gives the row."""
    base = {"name": "s", "kind": "k", "next_fire_at": db.after(3_600_000), "run_on_start": True}
    (trigger_id,) = db.declare(new_schedule(**base | options))
    return db.trigger(trigger_id)


def fire(db, row):
    """Let it fire, and be due in an hour again."""
    (fired,) = db.fire(firing(row, row.next_fire_at, next_fire_at=db.after(3_600_000)))
    return fired


@ALL_LIBRARIES
def test_a_new_one_is_due_at_once_and_once_for_all_that_start_together(db):
    first, second = db.worker(kinds=("k",)), db.worker(kinds=("k",))
    db.advance("1ms")
    row = starting(db)
    assert row.next_fire_at == db.now()
    assert db.due_ids(kinds=["k"], declared=[row.id]) == [row.id]
    fired = fire(db, row)
    db.advance("1ms")
    assert starting(db).next_fire_at == row.next_fire_at + timedelta(hours=1)  # the second worker's
    assert [each.nominal_at for each in db.fires()] == [fired.nominal_at]
    assert {first, second} <= set(db.workers())


def test_it_is_due_again_when_workers_start_after_none_was_there(db):
    worker = db.worker(kinds=("k",))
    fire(db, starting(db))
    db.advance("5m")
    db.run(db.ops.unregister(worker))
    db.worker(kinds=("k",))
    db.advance("1ms")
    assert starting(db).next_fire_at == db.now()
    db.worker(kinds=("k",))
    db.advance("1ms")
    assert starting(db).next_fire_at < db.now()  # that one starts together with the one before


def test_a_worker_that_joins_others_starts_nothing(db):
    db.worker(kinds=("k",), lease_ms=10**9)
    row = starting(db)
    fire(db, row)
    db.advance("5m")
    db.worker(kinds=("k",))
    assert starting(db).next_fire_at > db.now()


def test_workers_of_other_kinds_and_dead_ones_are_not_there(db):
    db.worker(kinds=("other",), lease_ms=10**9)
    db.worker(kinds=("k",), lease_ms=60_000)
    fire(db, starting(db))
    db.advance("2m")  # the lease of the second is over
    assert starting(db).next_fire_at == db.now()


def test_a_worker_that_registered_again_is_there(db):
    """After a lost lease it has another id, and declares nothing."""
    worker = db.worker(kinds=("k",))
    fire(db, starting(db))
    db.advance("5m")
    db.run(db.ops.unregister(worker))
    db.worker(kinds=("k",), lease_ms=10**9)
    db.advance("5m")
    assert starting(db).next_fire_at > db.now()


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"run_on_start": False}, {}),
        ({}, {"enabled": False, "next_fire_at": None}),
        ({}, {"next_fire_at": None}),
    ],
    ids=["without it", "paused", "over"],
)
def test_what_is_left_as_it_is(db, options, changes):
    row = starting(db, run_on_start=False)
    if changes:
        db.change_trigger(row.id, **changes)
    db.advance("5m")
    before = db.trigger(row.id).next_fire_at
    assert starting(db, next_fire_at=row.next_fire_at, **options).next_fire_at == before


def test_what_is_overdue_keeps_its_time_and_what_has_not_begun_waits(db):
    due = db.after(1_000)
    starting(db, run_on_start=False, next_fire_at=due)
    db.advance("5m")
    assert starting(db, next_fire_at=due).next_fire_at == due
    start_at = db.after(600_000)
    assert starting(db, name="later", start_at=start_at, next_fire_at=start_at).next_fire_at == start_at


def test_the_name_of_a_stored_one_is_left_alone(db):
    stored = db.schedule(name="s", next_fire_at=db.after(3_600_000))
    assert db.declare(new_schedule(name="s", run_on_start=True, next_fire_at=db.after(1_000))) == ()
    assert db.trigger(stored.id) == stored
