"""Every way in which a job can come to its end, by name, with how many jobs then ended how."""

from __future__ import annotations

from tests.store.triggers.trigger_calls import handling


def _settled(to):
    def way(db, make):
        db.settle(db.start(), to, error="boom")

    return way


def _failed(db, make):
    db.settle(db.start(delivery="at_most_once"), "failed", charge=1, error="boom")


def _out_of_attempts_at_most_once(db, make):
    db.settle(db.start(delivery="at_most_once"), "dead", charge=1, error="boom")


def _batch(db, make):
    ids = db.enqueue_ids(5)
    claims = db.claim()
    assert [claim.id for claim in claims] == ids
    tos = ["succeeded", "dead", "scheduled", "canceled", "succeeded"]
    db.settle_all(
        [make.settlement(claim, to, error="boom", delay_ms=10**9) for claim, to in zip(claims, tos, strict=True)]
    )


def _settle_and_claim(db, make):
    db.enqueue_ids(2, train="t")
    claim = db.take()
    answer = db.run(db.ops.settle_and_claim(db.home(), [make.settlement(claim, "dead", error="boom")], "default", 5))
    assert (answer.settled.lost, len(answer.claims)) == ([], 1)
    db.run(db.ops.settle_and_claim(db.home(), [make.settlement(answer.claims[0], "succeeded")], "default", 5))


def _asked_to_cancel(db, make):
    claim = db.start()
    db.cancel(claim.id)
    db.settle(claim, "scheduled", charge=1, error="boom")


def _lost(db, **options):
    worker = db.worker()
    claim = db.start(worker, **options)
    return worker, claim


def _reaped_dead(db, make):
    worker, _ = _lost(db, max_losses=1)
    db.unregister(worker)
    db.reap()


def _reaped_failed(db, make):
    worker, _ = _lost(db, delivery="at_most_once")
    db.unregister(worker)
    db.reap()


def _reaped_canceled(db, make):
    worker, claim = _lost(db)
    db.cancel(claim.id)
    db.unregister(worker)
    db.reap()


def _canceled_queued(db, make):
    db.cancel(db.enqueue().id, db.enqueue(delay_ms=60_000).id)


def _canceled_held(db, make):
    db.enqueue(train="t")
    db.cancel(db.enqueue(train="t").id)


def _canceled_waiting(db, make):
    db.cancel(db.parked("paid"))


def _skipped(db, make):
    db.enqueue(train="t")
    db.skip(db.enqueue(train="t").id)


def _cleared(db, make):
    db.enqueue_ids(4, train="t")
    db.take()
    assert len(db.clear_train("t")) == 3


def _expired(db, make):
    db.enqueue(expires_at=db.after(1_000))
    db.enqueue(expires_at=db.after(1_000), delay_ms=10**9)
    db.advance("5s")
    assert db.promote().expired == 2


def _expired_running(db, make):
    claim = db.start(expires_at=db.after(1_000))
    db.advance("5s")
    db.promote()
    db.settle(claim, "scheduled", delay_ms=1_000)


def _superseded(db, make):
    """A retry that would re-enter a unique scope that is taken by now."""
    claim = db.start(unique_key="u", unique_scope=("queued", "scheduled"))
    db.enqueue(unique_key="u", unique_scope=("queued", "scheduled"))
    db.settle(claim, "scheduled", charge=1, error="boom", delay_ms=1_000)
    assert db.status(claim.id) == "canceled"


def _superseded_by_reap(db, make):
    worker, claim = _lost(db, unique_key="u", unique_scope=("queued", "scheduled"))
    db.enqueue(unique_key="u", unique_scope=("queued", "scheduled"))
    db.unregister(worker)
    db.reap()
    assert db.status(claim.id) == "canceled"


def _superseded_at_claim(db, make):
    scope = ("running",)
    db.enqueue(unique_key="u", unique_scope=scope)
    db.enqueue(unique_key="u", unique_scope=scope)
    db.claim(limit=1)
    db.claim(limit=1)
    db.claim(limit=1)


def _group_stop(db, make):
    group = make.group(on_failure="stop")
    db.enqueue_all([make.job(group_id=group.id) for _ in range(4)], group)
    db.settle(db.take(), "dead", error="boom")
    db.process_arrivals()


def _group_canceled(db, make):
    group = make.group()
    db.enqueue_all([make.job(group_id=group.id) for _ in range(3)], group)
    db.cancel_group(group.id, tenant_id=None)


def _after_stop(db, make):
    first = make.job()
    second = make.job(after=(first.id,), on_failure="stop")
    third = make.job(after=(second.id,), on_failure="stop")
    db.enqueue_all([first, second, third])
    db.settle(db.take(), "dead", error="boom")
    assert db.statuses(second.id, third.id) == ["canceled", "canceled"]


def _machine_done(db, make):
    db.turn(db.begin(), "done")


def _machine_stop(db, make):
    db.turn(db.begin(), "stop", error="boom")


def _siblings(db, make):
    claim = db.begin()
    db.spawn(claim, *(make.job(queue="kids") for _ in range(3)), on_failure="stop")
    db.settle(db.take(queue="kids"), "dead", error="boom")
    db.process_arrivals()


def _orphans(db, make):
    claim = db.begin()
    db.spawn(claim, *(make.job(queue="kids") for _ in range(2)))
    db.cancel(claim.id)
    db.process_arrivals()


def _orphans_of_a_group(db, make):
    """A machine that is canceled with its group takes its children along."""
    group = make.group(on_failure="stop")
    machine = make.machine(group_id=group.id)
    db.enqueue_all([machine, make.job(group_id=group.id)], group)
    claim = db.take()
    db.spawn(claim, make.job(queue="kids"))
    db.settle(db.take(), "dead", error="boom")
    db.process_arrivals()


def _swept(db, make):
    """A job whose `after` an outside hand deleted is ended by the sweep."""
    first = make.job()
    second = make.job(after=(first.id,), on_failure="stop")
    db.enqueue_all([first, second])
    db.sql("delete from {jobs} where id = ?", first.id)
    db.process_arrivals()
    db.sweep()
    db.sweep()
    db.settle(db.start(queue="other"), "succeeded")


def _by_a_trigger(db, make):
    schedule = db.schedule()
    db.fire_now(schedule)
    db.settle(db.take(), "dead", error="boom")


def _by_an_event(db, make):
    trigger = db.listener("paid")
    db.advance("1s")
    event = db.emit("paid")
    db.handle(handling(event, trigger))
    db.finish(db.take())
    db.sql("delete from {events} where id = ?", event)


WAYS = {
    "settled succeeded": (_settled("succeeded"), {"succeeded": 1}),
    "settled dead": (_settled("dead"), {"dead": 1}),
    "settled canceled": (_settled("canceled"), {"canceled": 1}),
    "at_most_once failed": (_failed, {"failed": 1}),
    "at_most_once dead": (_out_of_attempts_at_most_once, {"dead": 1}),
    "a batch": (_batch, {"succeeded": 2, "dead": 1, "canceled": 1}),
    "settle and claim": (_settle_and_claim, {"dead": 1, "succeeded": 1}),
    "asked to cancel": (_asked_to_cancel, {"canceled": 1}),
    "reaped dead": (_reaped_dead, {"dead": 1}),
    "reaped failed": (_reaped_failed, {"failed": 1}),
    "reaped canceled": (_reaped_canceled, {"canceled": 1}),
    "canceled": (_canceled_queued, {"canceled": 2}),
    "canceled held": (_canceled_held, {"canceled": 1}),
    "canceled waiting": (_canceled_waiting, {"canceled": 1}),
    "skipped": (_skipped, {"canceled": 1}),
    "cleared": (_cleared, {"canceled": 3}),
    "expired": (_expired, {"canceled": 2}),
    "expired running": (_expired_running, {"canceled": 1}),
    "superseded": (_superseded, {"canceled": 1}),
    "superseded by reap": (_superseded_by_reap, {"canceled": 1}),
    "superseded at claim": (_superseded_at_claim, {"canceled": 1}),
    "group stop": (_group_stop, {"dead": 1, "canceled": 3}),
    "group canceled": (_group_canceled, {"canceled": 3}),
    "after stop": (_after_stop, {"dead": 1, "canceled": 2}),
    "machine done": (_machine_done, {"succeeded": 1}),
    "machine stop": (_machine_stop, {"dead": 1}),
    "siblings": (_siblings, {"dead": 1, "canceled": 2}),
    "orphans": (_orphans, {"canceled": 3}),
    "orphans of a group": (_orphans_of_a_group, {"dead": 1, "canceled": 2}),
    "swept": (_swept, {"succeeded": 1, "canceled": 1}),
    "by a schedule": (_by_a_trigger, {"dead": 1}),
    "by an event": (_by_an_event, {"succeeded": 1}),
}
