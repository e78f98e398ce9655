"""Two that fire or handle at once: each time, each event and each key once; no deadlock, nobody overtaken."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from trigger_words import firing, handling, new_fire, states

from headway.model.trigger import TriggerChange

POSTGRES = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10


@pytest.fixture
def paid(db):
    """A trigger on "paid" that was there before."""
    made = db.listener("paid", name="on paid", dedupe_window_ms=300_000)
    db.advance("1s")
    return made


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
def test_a_change_that_is_not_committed_yet_voids_the_firing_once_it_is(db, session, until):
    made = db.schedule()
    changer, firer = session(), session()
    changer.run(db.ops.change_trigger(made.id, TriggerChange(enabled=False), tenant_id=None, actor=None))
    later = firer.start(db.ops.fire([firing(made, db.now(), next_fire_at=db.after(60_000))]))
    until(lambda: firer.blocked() or later.done())
    changer.commit()
    assert later.result(SOON) == []
    assert (db.fires(), db.find()) == ([], [])


@POSTGRES
def test_a_job_that_ends_meanwhile_is_seen_as_it_is_when_the_row_is_locked(db, make, session, until):
    """Lock before looking: a run by hand that is not committed yet is an overlap for whoever waited for it."""
    made = db.schedule(overlap="skip")
    runner, firer = session(), session()
    by_hand = runner.run(db.ops.run_trigger(new_fire(made), tenant_id=None, actor=None))
    later = firer.start(db.ops.fire([firing(made, db.now(), next_fire_at=None)]))
    until(lambda: firer.blocked() or later.done())
    runner.commit()
    (fire,) = later.result(SOON)
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
def test_two_at_once_dedupe_each_other(db, session, until, paid, end):
    one, two = (db.emit("paid") for _ in range(2))
    first, second = session(), session()
    (fire,) = first.run(db.ops.handle([handling(one, new_fire(paid, dedupe_key="k"))]))
    later = second.start(db.ops.handle([handling(two, new_fire(paid, dedupe_key="k"))]))
    until(lambda: second.blocked() or later.done())
    getattr(first, end)()
    (other,) = later.result(SOON)
    if end == "commit":
        assert (other.status, other.job_id) == ("deduped", fire.job_id)
    else:
        assert other.status == "enqueued"
    assert len(db.find()) == 1


@POSTGRES
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_at_once_handle_an_event_once(db, session, until, paid, end):
    event = db.emit("paid")
    first, second = session(), session()
    assert len(first.run(db.ops.handle([handling(event, paid)]))) == 1
    later = second.start(db.ops.handle([handling(event, paid)]))
    until(lambda: second.blocked() or later.done())
    getattr(first, end)()
    assert len(later.result(SOON)) == (end == "rollback")
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
            for at in range(0, 40, 5):
                db.handle(
                    *(
                        handling(event, *(new_fire(each, dedupe_key="k") for each in mine))
                        for event in order[at : at + 5]
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
@pytest.mark.parametrize("verb", ["handle", "fire"])
def test_triggers_are_locked_in_order_of_id(db, session, until, verb):
    """Whoever waits for the first of them holds none of the others, whatever the order of the call."""
    make = db.schedule if verb == "fire" else lambda: db.listener("paid")
    first, second = make(), make()
    holder, waiter, other = session(), session(), session()
    holder.run(db.ops.run_trigger(new_fire(first), tenant_id=None, actor=None))
    if verb == "fire":
        op = db.ops.fire([firing(each, db.now(), next_fire_at=None) for each in (second, first)])
    else:
        op = db.ops.handle([handling(db.emit("paid"), second, first)])
    later = waiter.start(op)
    until(waiter.blocked)
    assert other.start(db.ops.run_trigger(new_fire(second), tenant_id=None, actor=None)).result(SOON) is not None
    holder.commit()
    assert len(later.result(SOON)) == 2
