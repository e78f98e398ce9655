"""Words that the stores write by themselves: the errors of jobs, and the details of the audit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headway.model.definition import NewDefinition
from tests.store.conftest import new_group, new_job
from tests.store.machines.machine_calls import new_signal
from tests.store.refusal_cases import GROUP, A, B, C, D, E
from tests.store.triggers.trigger_calls import handling, new_event, new_fire


def a_claim_of_an_unknown_worker_where_there_is_nothing_to_take(db: Any) -> str:
    return str(db.claim(A))


def the_error_of_a_job_that_was_lost(db: Any) -> str:
    worker = db.worker(id=E, hostname="host", pid=7)
    db.start(worker, id=A)
    db.advance("2m")
    db.reap()
    return f"{db.attempts(A)[0].error} / {db.job(A).error}"


def the_error_of_a_job_that_was_lost_too_often(db: Any) -> str:
    worker = db.worker(id=E, hostname="host", pid=7)
    db.start(worker, id=A, max_losses=1)
    db.advance("2m")
    db.reap()
    return f"{db.status(A)} {db.attempts(A)[0].error} / {db.job(A).error}"


def the_error_of_a_job_whose_worker_is_not_registered(db: Any) -> str:
    db.start(db.worker(id=E), id=A)
    db.unregister(E)
    db.reap()
    return f"{db.attempts(A)[0].error} / {db.job(A).error}"


def the_error_of_a_job_that_was_lost_while_it_was_canceled(db: Any) -> str:
    db.start(db.worker(id=E), id=A, max_losses=1)
    db.cancel(A, reason="enough")
    db.unregister(E)
    db.reap()
    return f"{db.status(A)} {db.attempts(A)[0].error} / {db.job(A).error}"


def the_error_of_a_job_over_at_most_once_that_was_lost(db: Any) -> str:
    db.start(db.worker(id=E), id=A, delivery="at_most_once")
    db.unregister(E)
    db.reap()
    return f"{db.status(A)} {db.attempts(A)[0].error} / {db.job(A).error}"


def the_error_of_a_job_that_expired(db: Any) -> str:
    db.enqueue(id=A, expires_at=db.now() + timedelta(seconds=1))
    db.advance("2s")
    db.promote()
    return f"{db.status(A)} {db.job(A).error}"


def the_reason_that_a_running_job_which_expired_is_told(db: Any) -> str:
    claim = db.start(id=A, expires_at=db.now() + timedelta(seconds=1))
    db.advance("2s")
    db.promote()
    db.settle(claim, "scheduled", delay_ms=1)
    return f"{db.status(A)} {db.job(A).error}"


def the_error_of_a_job_that_was_canceled_without_a_reason(db: Any) -> str:
    db.enqueue(id=A)
    db.cancel(A)
    return str(db.job(A).error)


def the_error_of_a_job_whose_key_was_taken_meanwhile(db: Any) -> str:
    claim = db.start(id=A, unique_key="k", unique_scope=("queued", "scheduled"))
    db.enqueue(id=B, unique_key="k", unique_scope=("queued", "scheduled"))
    db.settle(claim, "scheduled", delay_ms=1000, error="boom")
    return f"{db.status(A)} {db.job(A).error}"


def the_audit_of_jobs(db: Any) -> str:
    db.enqueue_all([new_job(id=A), new_job(id=B), new_job(id=C)])
    for where in ({"first": True}, {"last": True}, {"before": B}, {"after": B}):
        db.move(A, **where, actor="ann")
    db.change(A, actor="ann", priority=7, timeout_ms=None, delay_ms=1000)
    db.change(A, actor="ann", payload='{"a":  1}', queue="other", scheduled_for=db.now())
    db.cancel(A, actor="ann", reason="enough")
    db.cancel(B)
    db.retry(A, actor="bob")
    db.enqueue_all([new_job(id=D, kind="report"), new_job(id=E)])
    db.cancel(B, D, E)
    db.delete(D, actor="ann")
    db.delete(B, E, A, actor="ann", reason="enough")
    return _log(db)


def the_audit_of_retentions(db: Any) -> str:
    db.run(db.ops.set_retention("mail", {"dead": 7, "succeeded": 5}, actor="ann"))
    db.run(db.ops.set_retention("mail", None, actor="bob"))
    return _log(db)


def the_audit_of_a_worker_that_was_declared_dead(db: Any) -> str:
    db.worker(id=E, hostname="host", pid=7)
    db.start(E, id=A)
    db.declare_dead(E, actor="ann")
    return f"{_log(db)} {db.job(A).error}"


def the_errors_of_cars(db: Any) -> str:
    db.enqueue_all([new_job(id=A, train="t", on_dead="hold"), new_job(id=B, train="t"), new_job(id=C, train="t")])
    db.skip(C, actor="ann")
    db.settle(db.take(), "dead", error="boom")
    db.process_arrivals()
    train = db.train("t")
    db.clear_train("t", actor="ann")
    return f"{[db.job(id_).error for id_ in (A, B, C)]} {train.hold.reason} {train.hold.job_id}"


def the_error_of_a_job_whose_parent_failed(db: Any) -> str:
    db.enqueue_all([new_job(id=A), new_job(id=B, after=(A,)), new_job(id=C, after=(B,))])
    db.settle(db.take(), "dead")
    db.process_arrivals()
    return f"{db.job(B).error} / {db.job(C).error}"


def the_error_of_a_job_whose_parent_is_gone(db: Any) -> str:
    db.enqueue_all([new_job(id=A), new_job(id=B, after=(A,))])
    db.sql("delete from {jobs} where id = ?", A)
    db.sweep()
    db.process_arrivals()
    return str(db.job(B).error)


def the_errors_of_a_group_that_stops(db: Any) -> str:
    db.enqueue_all([new_job(id=A, group_id=GROUP), new_job(id=B, group_id=GROUP)], new_group(id=GROUP))
    db.settle(db.take(), "dead")
    db.process_arrivals()
    return str(db.job(B).error)


def the_errors_of_a_group_that_is_canceled(db: Any) -> str:
    db.enqueue_all([new_job(id=A, group_id=GROUP)], new_group(id=GROUP))
    db.cancel_group(GROUP)
    db.process_arrivals()
    return str(db.job(A).error)


def the_errors_of_a_group_that_is_canceled_for_a_reason(db: Any) -> str:
    db.enqueue_all([new_job(id=A, group_id=GROUP)], new_group(id=GROUP))
    db.cancel_group(GROUP, reason="enough")
    db.process_arrivals()
    return str(db.job(A).error)


def a_group_that_is_not_there(db: Any) -> str:
    return f"{db.cancel_group(GROUP)} {db.retry_group(GROUP)}"


def the_audit_of_order(db: Any) -> str:
    db.enqueue_all([new_job(id=A, train="t"), new_job(id=B, train="t")])
    db.hold_train("t", reason="enough", actor="ann")
    db.resume_train("t", actor="ann")
    db.skip(B, actor="ann")
    db.clear_train("t", actor="ann")
    db.limit("queue", "default", max_running=3, actor="ann")
    db.limit("kind", "mail", max_running=3, rate_count=5, rate_period_ms=1000, actor="ann")
    db.limit("tenant", "*", max_pending=7, actor="ann")
    db.limit("kind", "mail", actor="ann")
    db.set_fair("default", actor="ann")
    db.set_fair("default", False, actor="ann")
    db.enqueue_all([new_job(id=C, group_id=GROUP)], new_group(id=GROUP))
    db.cancel_group(GROUP, actor="ann")
    db.retry_group(GROUP, actor="ann")
    return _log(db)


def the_errors_of_children_that_stop(db: Any) -> str:
    claim = db.begin(id=A)
    db.spawn(claim, new_job(id=B, queue="first"), new_job(id=C, queue="second"), on_failure="stop")
    db.settle(db.take(queue="first"), "dead", error="boom")
    db.process_arrivals()
    return f"{db.job(C).error} {db.status(A)}"


def a_repeated_signal_that_the_job_which_retries_its_job_has(db: Any) -> str:
    claim = db.begin(id=A, delivery="at_most_once")
    signal = new_signal(A, "go", id=C)
    db.signal_all([signal])
    db.settle(claim, "failed", error="boom")
    (answer,) = db.signal_all([signal])
    return f"{answer.id} {answer.created} {db.job(answer.job_id).retry_of}"


def a_repeated_signal_by_a_key_that_another_job_has_by_now(db: Any) -> str:
    db.machine(id=A, unique_key="k")
    signal = new_signal(None, "go", id=C, kind="checkout", unique_key="k")
    db.signal_all([signal])
    db.cancel(A)
    db.machine(id=B, unique_key="k")
    return f"{db.signal_all([signal])} {db.inboxes(B)}"


def a_repeated_signal_to_a_job_that_is_over(db: Any) -> str:
    db.machine(id=A)
    signal = new_signal(A, "go", id=C)
    first = db.signal_all([signal])
    db.cancel(A)
    return f"{first} {db.signal_all([signal])}"


def a_repeated_event_at_max_events(db: Any) -> str:
    db.limit("tenant", "*", max_events=2)
    events = [new_event("paid", id=A), new_event("paid", id=B)]
    first = db.emit_all(events)
    db.limit("tenant", "*", max_events=1)
    return f"{first} {db.emit_all(events)} {db.emit_all(events[:1])}"


def the_audit_of_definitions(db: Any) -> str:
    db.change_definition("mail", actor="ann", timeout_ms=7, description="d")
    db.change_definition("mail", actor="ann", active=False)
    db.change_definition("mail", actor="ann", active=True, queue="other")
    db.change_definition("mail", actor="ann", reset=("timeout_ms", "description"))
    db.change_definition("mail", actor="ann", active=False, max_attempts=3, reset=("queue",))
    db.change_definition("mail", actor="ann")
    db.delete_definition("mail", actor="ann")
    return _log(db)


def the_audit_of_templates(db: Any) -> str:
    db.template(id=A, name="nightly", actor="ann")
    db.change_template(A, actor="ann", options="{}", payload="{}")
    db.change_template(A, actor="ann", name="weekly")
    db.change_template(A, actor="ann")
    db.delete_template(A, actor="ann")
    return _log(db)


def the_audit_of_triggers(db: Any) -> str:
    made = db.schedule(id=A, name="nightly", actor="ann")
    db.change_trigger(A, actor="ann", cron=None, every_ms=60_000, tz="Europe/Berlin")
    db.change_trigger(A, actor="ann", of_revision=2, enabled=False, next_fire_at=None)
    db.change_trigger(A, actor="ann", name="weekly")
    db.change_trigger(A, actor="ann", of_revision=4)
    db.run_trigger(new_fire(made), actor="ann")
    db.delete_trigger(A, actor="ann")
    return _log(db)


def the_audit_of_events(db: Any) -> str:
    listener = db.listener("paid", id=A, name="on-paid", actor="ann")
    event = db.emit("paid", id=B)
    db.handle(handling(event, new_fire(listener, error="boom")))
    failed = db.event(event).error
    db.retry_events(event, actor="ann")
    return f"{failed}\n{_log(db)}"


def what_a_declaration_leaves_of_a_changed_definition(db: Any) -> str:
    db.declare(NewDefinition(kind="mail", timeout_ms=5, description="d"))
    db.change_definition("mail", timeout_ms=7)
    db.declare(NewDefinition(kind="mail", timeout_ms=6, description="e"))
    return str(db.definitions())


def the_audit_of_queues(db: Any) -> str:
    db.pause("default", actor="ann")
    db.resume("default", actor="ann")
    return _log(db)


def _log(db: Any) -> str:
    """The audit, oldest first; what one call writes has no order."""
    return "\n".join(
        f"{each.at} {each.actor} {each.action} {each.job_id} {each.detail}" for each in reversed(db.audit_log())
    )
