"""Two that fire or handle at once: each time, each event and each key once; no deadlock, nobody waits."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from headway.errors import StoreBusy
from headway.model.trigger import TriggerChange
from tests.store.store_marks import POSTGRES
from tests.store.triggers.trigger_calls import firing, handling, job_of, new_fire, states


@POSTGRES
def test_while_another_fires_nobody_else_does(db, session):
    one, two = db.schedule(), db.schedule()
    open_ = session()
    assert len(open_.run(db.ops.fire([firing(one, db.now(), next_fire_at=db.after(1))]))) == 1
    before = db.triggers()
    other = firing(two, db.now(), next_fire_at=db.after(1))
    assert db.fire(other) == []
    assert db.fire(firing(one, db.now(), next_fire_at=db.after(2))) == []
    assert (db.triggers(), db.fires(), db.find()) == (before, [], [])
    open_.commit()
    assert len(db.fire(other)) == 1
    assert len(db.fires()) == 2


@POSTGRES
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_stale_plan_fires_only_if_the_first_was_rolled_back(db, session, end):
    made = db.schedule()
    open_ = session()
    plans = [firing(made, db.now(), next_fire_at=db.after(60_000)) for _ in range(2)]
    assert len(open_.run(db.ops.fire([plans[0]]))) == 1
    assert db.fire(plans[1]) == []
    getattr(open_, end)()
    assert len(db.fire(plans[1])) == (end == "rollback")
    assert len(db.fires()) == len(db.find()) == 1


@POSTGRES
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_change_that_is_not_committed_yet_voids_the_firing(db, session, end):
    made, other = db.schedule(), db.schedule()
    changer = session()
    changer.run(db.ops.change_trigger(made.id, TriggerChange(enabled=False), tenant_id=None, actor=None))
    plans = [firing(each, db.now(), next_fire_at=db.after(60_000)) for each in (made, other)]
    assert [each.trigger_id for each in db.fire(*plans)] == [other.id]
    assert db.trigger(made.id) == made
    getattr(changer, end)()
    assert len(db.fire(*plans)) == (end == "rollback")


@POSTGRES
def test_a_run_by_hand_that_is_not_committed_yet_is_not_overlooked(db, session):
    """Lock before looking: it is an overlap, so nothing fires before it is known."""
    made = db.schedule(overlap="skip")
    runner = session()
    by_hand = runner.run(db.ops.run_trigger(new_fire(made), tenant_id=None, actor=None))
    plan = firing(made, db.now(), next_fire_at=None)
    assert db.fire(plan) == []
    runner.commit()
    (fire,) = db.fire(plan)
    assert (fire.status, fire.job_id) == ("skipped", by_hand.job_id)


def test_of_many_tickers_at_once_exactly_one_fires_each_time(db):
    made = [db.schedule(name=f"n{n}") for n in range(4)]
    rounds = 10
    barrier = threading.Barrier(4)
    errors: list[BaseException] = []
    origin = db.now()

    def tick() -> None:
        try:
            barrier.wait()
            for _ in range(200):
                rows = [row for row in db.triggers() if row.next_fire_at is not None]
                if not rows:
                    return
                db.fire(
                    *(
                        firing(row, row.next_fire_at, next_fire_at=_next(row.next_fire_at, origin, rounds))
                        for row in rows
                    )
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=tick) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for each in made:
        times = [nominal for nominal, _, _ in states(db, each)]
        assert sorted(times) == [origin + timedelta(seconds=n) for n in range(rounds)]
    assert len(db.find()) == len(made) * rounds


def _next(time, origin, rounds):
    after = time + timedelta(seconds=1)
    return after if after < origin + timedelta(seconds=rounds) else None


@POSTGRES
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_at_once_dedupe_each_other(db, session, paid, end):
    one, two = (db.emit("paid") for _ in range(2))
    first = session()
    (fire,) = first.run(db.ops.handle([handling(one, new_fire(paid, dedupe_key="k"))]))
    plan = handling(two, new_fire(paid, dedupe_key="k"))
    assert (db.handle(plan), db.event(two).status) == ([], "pending")
    getattr(first, end)()
    (other,) = db.handle(plan)
    if end == "commit":
        assert (other.status, other.job_id) == ("deduped", fire.job_id)
    else:
        assert other.status == "enqueued"
    assert len(db.find()) == 1


@POSTGRES
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_at_once_handle_an_event_once(db, session, paid, end):
    event = db.emit("paid")
    first = session()
    assert len(first.run(db.ops.handle([handling(event, paid)]))) == 1
    assert db.handle(handling(event, paid)) == []
    assert db.handle(handling(event)) == []  # the event itself is held too
    getattr(first, end)()
    assert len(db.handle(handling(event, paid))) == (end == "rollback")
    assert len(db.find()) == len(db.fires()) == 1
    assert db.event(event).status == "handled"


@POSTGRES
def test_handlers_of_the_same_triggers_in_another_order_do_not_deadlock(db):
    made = [db.listener("paid", name=f"n{n}") for n in range(5)]
    db.advance("1s")
    events = [db.emit("paid", n) for n in range(40)]
    barrier = threading.Barrier(4)
    errors: list[BaseException] = []

    def work(n: int) -> None:
        mine = made if n % 2 else list(reversed(made))
        order = events if n < 2 else list(reversed(events))
        try:
            barrier.wait()
            while waiting := {each.id for each in db.events(statuses=["pending"])}:
                db.handle(
                    *(
                        handling(event, *(new_fire(each, dedupe_key="k") for each in mine))
                        for event in [each for each in order if each in waiting][:5]
                    )
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {each.status for each in db.events()} == {"handled"}
    assert len(db.find()) == len(made)
    assert len(db.fires()) == len(made) * len(events)
    assert sum(each.status == "enqueued" for each in db.fires()) == len(made)


@POSTGRES
def test_an_event_waits_for_all_its_triggers_and_the_others_do_not(db, session):
    """What is held by somebody is left for the next time, whole, so that no trigger of it is forgotten."""
    first, second = db.listener("paid"), db.listener("paid")
    other = db.listener("shipped")
    paid, shipped = db.emit("paid"), db.emit("shipped")
    holder = session()
    holder.run(db.ops.run_trigger(new_fire(first), tenant_id=None, actor=None))
    plans = [handling(paid, second, first), handling(shipped, other)]
    assert [each.trigger_id for each in db.handle(*plans)] == [other.id]
    assert (db.event(paid).status, db.event(shipped).status) == ("pending", "handled")
    holder.commit()
    assert [each.trigger_id for each in db.handle(*plans)] == [second.id, first.id]
    assert db.event(paid).status == "handled"


@POSTGRES
@pytest.mark.parametrize("verb", ["handle", "fire"])
def test_a_key_that_is_not_committed_yet_is_not_waited_for(db, session, verb):
    """A quarter of a second: then everybody else's triggers have their turn."""
    trigger = db.schedule() if verb == "fire" else db.listener("paid")
    event = db.emit("paid")
    open_ = session()
    open_.run(db.ops.enqueue([job_of(trigger, unique_key="k")]))
    fire = new_fire(trigger, trigger.next_fire_at, job=job_of(trigger, unique_key="k"))

    def run():
        if verb == "fire":
            return db.fire(firing(trigger, fire, next_fire_at=None))
        return db.handle(handling(event, fire))

    with pytest.raises(StoreBusy):
        run()
    assert (db.fires(), db.trigger(trigger.id), db.event(event).status) == ([], trigger, "pending")
    open_.rollback()
    assert [each.status for each in run()] == ["enqueued"]


@POSTGRES
def test_schedules_that_somebody_holds_do_not_hide_the_others(db, session):
    """However many they are: a look goes past them."""
    held = [db.schedule(next_fire_at=db.now()).id for _ in range(12)]
    db.advance("1s")
    free = [db.schedule(next_fire_at=db.now()).id for _ in range(2)]
    db.advance("1s")
    assert set(db.due_ids(limit=4)) < set(held)
    holder = session()
    holder.conn.execute("select from headway.triggers where id = any (%s::uuid[]) for update", (held,))
    assert db.due_ids(limit=4) == free
    holder.rollback()
    assert set(db.due_ids(limit=4)) < set(held)


@POSTGRES
@pytest.mark.parametrize("what", ["trigger", "event"])
def test_events_that_cannot_be_handled_now_do_not_hide_the_others(db, session, what):
    """However many they are: a look goes past those whose trigger, or whose own row, somebody has locked."""
    paid, shipped = db.listener("paid"), db.listener("shipped")
    held = [db.emit("paid") for _ in range(12)]
    free = [db.emit("shipped") for _ in range(2)]
    assert set(db.heard(limit=4)) < set(held)
    holder = session()
    if what == "trigger":
        holder.run(db.ops.change_trigger(paid.id, TriggerChange(description="x"), tenant_id=None, actor=None))
    else:
        holder.conn.execute("select from headway.events where id = any (%s::uuid[]) for update", (held,))
    assert db.heard(limit=4) == {event: [shipped.id] for event in free}
    holder.rollback()
    assert set(db.heard(limit=4)) < set(held)


@POSTGRES
def test_two_that_look_what_is_due_see_the_same(db, session):
    """What a look locks it shares with the others that look."""
    made = [db.schedule(next_fire_at=db.now()).id for _ in range(6)]
    other = session()
    due = other.run(db.ops.due(kinds=[], declared=[], limit=4))
    assert [met.trigger.id for met in due.schedules] == made[:4] == db.due_ids(limit=4)
