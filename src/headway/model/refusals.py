"""Every refusal of the stores: its type and its words, once. The SQL functions of PostgreSQL say the same.

`tests/store/test_refusals.py` compares both stores, and finds a refusal that no case of it asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.errors import (
    Duplicate,
    InvalidJob,
    InvalidPayload,
    LeaseLost,
    NotAllowed,
    NotFound,
    QueueFull,
    TenantSuspended,
    UnknownKind,
)
from headway.model.status import FINISHED, Status
from headway.shell import command

# a new job, event, template or trigger


def id_taken(what: str, id_: str) -> InvalidJob:
    """Says nothing of whose it is: a tenant learns nothing about another's rows."""
    return InvalidJob(f"{what} id {id_} is taken: give a new {what} an id of its own")


def kind_inactive(kind: str) -> NotAllowed:
    return NotAllowed(f'kind "{kind}" is not active: nothing was enqueued; {command("definitions activate", kind)}')


def kind_unknown(kind: str) -> UnknownKind:
    """Also for one that is not for the tenant, which does not learn that others have it."""
    return UnknownKind(
        f'kind "{kind}" has no definition: nothing was enqueued; start a worker that has it, which declares it'
    )


def unique_key_taken(key: str, kind: str, holder: str, status: Status) -> Duplicate:
    return Duplicate(
        f'unique key "{key}" of kind {kind} is taken by job {holder} ({status}): nothing was enqueued; '
        "on_conflict='return' gives that job instead",
        holder,
    )


def no_such_parent(job_id: str) -> InvalidJob:
    return InvalidJob(f"after names job {job_id}, which does not exist (or is another tenant's): nothing was enqueued")


def no_such_group(group_id: str) -> InvalidJob:
    return InvalidJob(f"group {group_id} does not exist (or is another tenant's): nothing was enqueued")


def group_stopped(group_id: str) -> InvalidJob:
    return InvalidJob(f"group {group_id} was stopped: nothing was enqueued; retry the group, or make a new one")


def group_over(group_id: str, callback_id: str, status: Status | None) -> InvalidJob:
    return InvalidJob(
        f"group {group_id} is over, its callback {callback_id} is {status or 'gone'}: nothing was enqueued; "
        "make a new group"
    )


# quotas

_QUOTAS = {
    "max_pending": "{has} jobs waiting, and {more} more would be over its max_pending of {most}: nothing was enqueued; "
    "let workers catch up, or raise the limit",
    "max_bytes": "{has} bytes of payloads waiting, and {more} more would be over its max_bytes of {most}: nothing was "
    "enqueued; let workers catch up, or raise the limit",
    "max_events": "{has} events to be handled, and {more} more would be over its max_events of {most}: nothing was "
    "emitted; let workers catch up, or raise the limit",
    "max_schedules": "{has} schedules and triggers, and {more} more would be over its max_schedules of {most}: nothing "
    "was made; delete some, or raise the limit",
}


def over_quota(quota: str, tenant: str, *, has: int, more: int, most: int) -> QueueFull:
    return QueueFull(f"tenant {tenant} has {_QUOTAS[quota].format(has=has, more=more, most=most)}")


def group_too_large(group_id: str, tenant: str, most: int) -> QueueFull:
    return QueueFull(
        f"group {group_id} would have more members than tenant {tenant}'s max_group of {most}: nothing was enqueued"
    )


def too_many_followers(job_id: str, tenant: str, most: int) -> QueueFull:
    return QueueFull(
        f"job {job_id} would have more children or followers than tenant {tenant}'s max_fan_out of {most}: "
        "nothing was enqueued"
    )


# tenants and workers


def tenant_name_retired(name: str) -> InvalidJob:
    return InvalidJob(
        f'tenant name "{name}" belonged to a tenant that was renamed or deleted: names are never used again'
    )


def tenant_name_taken(name: str) -> InvalidJob:
    return InvalidJob(f'tenant name "{name}" is another tenant\'s: nothing was written')


def tenant_deleted(tenant_id: str) -> InvalidJob:
    return InvalidJob(f"tenant {tenant_id} was deleted: its id is never used again")


def tenant_suspended(name: str) -> TenantSuspended:
    return TenantSuspended(f"tenant {name} is suspended: nothing was written; {command('tenants resume', name)}")


def no_such_tenant(ref: str) -> NotFound:
    return NotFound(f"there is no tenant {ref}: headway tenants list")


def default_tenant_stays() -> NotAllowed:
    return NotAllowed("the default tenant keeps its name, and cannot be deleted")


def tenant_busy(name: str, running: int) -> NotAllowed:
    return NotAllowed(
        f"tenant {name} has {running} running jobs: nothing was deleted; suspend it, and cancel them or wait for their "
        "end"
    )


def not_registered(worker_id: str) -> LeaseLost:
    return LeaseLost(
        f"worker {worker_id} is not registered (any more): its lease ran out and it was reaped; "
        "register again under a new id"
    )


def worker_is_gone(worker_id: str) -> LeaseLost:
    return LeaseLost(f"worker {worker_id} is gone, and its id is not used again: register under a new one")


def no_such_worker(worker_id: str) -> NotFound:
    return NotFound(f"there is no worker {worker_id} (any more): nothing was changed; headway workers lists them")


# outcomes that handlers commit with their own rows


def claim_lost(job_id: str, fence: int) -> LeaseLost:
    return LeaseLost(
        f"job {job_id} does not run under fence {fence} any more: this worker lost its claim, and the job may run "
        "elsewhere; nothing was written: roll back"
    )


def artifact_name_taken(name: str, job_id: str, fence: int) -> NotAllowed:
    return NotAllowed(
        f'attempt {fence} of job {job_id} has an artifact "{name}" already: nothing was stored; give each a name of '
        "its own"
    )


def payload_swept(job_id: str) -> NotAllowed:
    return NotAllowed(
        f"the payload of job {job_id}, which is too large for its row, was written more than an hour ago and may be "
        "deleted already: nothing was enqueued; enqueue it again"
    )


def outcome_given(job_id: str) -> NotAllowed:
    return NotAllowed(
        f"job {job_id} has its outcome already, from this transaction or from one that was committed: nothing was "
        "written; settle once"
    )


def not_in_this_database(job_id: str) -> NotFound:
    return NotFound(
        f"the database of conn= has no job {job_id}: nothing was written; pass a connection to the database that "
        "Headway's URL names"
    )


# what operators do to jobs


def not_changeable(job_id: str, status: Status) -> NotAllowed:
    hint = "retry it" if status in FINISHED else "cancel it, or wait until it is done"
    return NotAllowed(f"job {job_id} is {status} and cannot be changed: {hint}")


def payload_fixed(job_id: str, fence: int) -> NotAllowed:
    return NotAllowed(
        f"job {job_id} has run (fence {fence}), so its payload stays as it is: "
        "cancel it and enqueue a new one with the other payload"
    )


def payload_of_machine(job_id: str, fence: int) -> NotAllowed:
    return NotAllowed(
        f"job {job_id} is a machine that has run (fence {fence}), so its payload stays as it is: "
        "retry it without one, or fork it with another state"
    )


def key_taken(job_id: str, key: str, holder: str) -> Duplicate:
    return Duplicate(
        f'job {job_id} cannot be queued: its unique key "{key}" is taken by job {holder}; '
        "nothing was changed. Cancel that job, or let it finish first",
        holder,
    )


def retried_already(job_id: str, kind: str, by: str) -> Duplicate:
    return Duplicate(f"job {job_id} ({kind}) was retried already, by job {by}: retry that one", by)


def not_one_place() -> InvalidJob:
    return InvalidJob("give exactly one of before, after, first and last")


def not_movable(job_id: str, why: str) -> NotAllowed:
    return NotAllowed(f"job {job_id} cannot be moved: {why}")


def no_such_neighbour(job_id: str) -> NotAllowed:
    return NotAllowed(f"there is no job {job_id} to move it to (or it is another tenant's)")


def moved_to_itself(job_id: str) -> NotAllowed:
    return NotAllowed(f"job {job_id} cannot be moved to itself")


def in_another_line(neighbour: str, line: str, job_id: str) -> NotAllowed:
    return NotAllowed(f"job {neighbour} is not in the same {line} as job {job_id}")


def has_no_place(neighbour: str, what: str) -> NotAllowed:
    return NotAllowed(f"job {neighbour} is {what} and has no place to move another to")


# trains


def not_a_car(job_id: str) -> NotAllowed:
    return NotAllowed(f"job {job_id} is no car of a train: cancel it instead")


def car_is_running(job_id: str) -> NotAllowed:
    return NotAllowed(f"job {job_id} is running and cannot be skipped: cancel it, or let it finish")


def car_is_over(job_id: str, status: Status, train: str) -> NotAllowed:
    return NotAllowed(f"job {job_id} is {status} already, and train {train} does not wait for it")


# machines


def signal_to_nobody(job_id: str) -> NotFound:
    return NotFound(
        f"there is no job {job_id} to signal (or it is another tenant's, or it was pruned): nothing was sent"
    )


def cancel_of_nobody(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id} to cancel (or it is another tenant's, or it was pruned)")


def signal_to_no_key(kind: str | None, key: str | None) -> NotFound:
    return NotFound(
        f'no unfinished job of kind {kind} has unique key "{key}": nothing was sent; '
        "enqueue it first, or signal a job by its id"
    )


def not_signalable(job_id: str, kind: str, status: Status) -> NotAllowed:
    if status in FINISHED:
        return NotAllowed(
            f"job {job_id} ({kind}) is {status} and takes no signals any more: nothing was sent; "
            "retry it first, or enqueue a new one"
        )
    return NotAllowed(
        f"job {job_id} ({kind}) is a plain job that has run, and only machines receive signals: nothing was sent"
    )


def secret_in_signal() -> InvalidPayload:
    return InvalidPayload(
        'the data of a signal holds a reference to a secret ("$secret"), which only payloads of jobs, '
        "templates and triggers may: nothing was sent"
    )


def waits_for_itself(job_id: str) -> InvalidJob:
    return InvalidJob(
        f"job {job_id} would wait for itself: a child met it by its unique or idempotency key; nothing was written: "
        "give the child another key"
    )


def signal_of_engine(name: str) -> InvalidJob:
    return InvalidJob(
        f'signal name "{name}" begins with $, as only names of the engine do: nothing was sent; give it another name'
    )


def not_a_flow(job_id: str, kind: str) -> NotAllowed:
    return NotAllowed(f"job {job_id} ({kind}) is not a flow, and has no journal: nothing was changed")


def flow_not_set_aside(job_id: str, status: Status) -> NotAllowed:
    hint = "retry it" if status in FINISHED else "wait until it is set aside, or cancel it"
    return NotAllowed(f"flow {job_id} is {status}, so nothing of its journal was taken back: {hint}")


def step_settled(place: str, job_id: str) -> NotAllowed:
    return NotAllowed(
        f"step {place} of job {job_id} is settled already, by this transaction or by one that was committed: nothing "
        "was written; settle once"
    )


# events, templates and triggers


def secret_in_event() -> InvalidPayload:
    return InvalidPayload(
        'the data of an event holds a reference to a secret ("$secret"), which only payloads of jobs, '
        "templates and triggers may: nothing was emitted"
    )


def event_of_the_engine(name: str) -> InvalidJob:
    return InvalidJob(
        f'event name "{name}" begins with "headway.", which only the engine\'s own events do: nothing was emitted'
    )


def name_taken(what: str, name: str) -> Duplicate:
    """`what` is "a template", "a schedule" or "an event trigger"."""
    return Duplicate(f'there is {what} "{name}" already: nothing was stored; change that one, or choose another name')


def template_used(name: str, users: Sequence[str]) -> NotAllowed:
    """`users` are the triggers that point at it, up to four of them: three are named."""
    named = ", ".join(users[:3]) + (" and others" if len(users) > 3 else "")
    return NotAllowed(
        f'template "{name}" is used by {named}: nothing was deleted; delete these first, or let them use another one'
    )


def no_such_template(template_id: str) -> NotFound:
    return NotFound(f"there is no template {template_id} (or it is another tenant's): nothing was stored")


def changed_meanwhile(what: str, name: str, *, revision: int, expected: int) -> NotAllowed:
    return NotAllowed(
        f'{what} "{name}" was changed meanwhile (it has revision {revision}, not {expected}): nothing was stored; '
        "read it again, then change it"
    )


def not_valid(what: str, fault: str) -> InvalidJob:
    """`what` is the thing with its name, as in: trigger "nightly"."""
    return InvalidJob(f"{what}: {fault}; nothing was stored")


def backfill_time_to_come() -> InvalidJob:
    return InvalidJob("a backfill is of times that have come: nothing was written")


def fire_time_out_of_range() -> InvalidJob:
    return InvalidJob("a nominal time and next_fire_at are from 1970 to 9000: nothing was written")
