"""Triggers: schedules make jobs by time, event triggers make jobs or send signals; and what each fired."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from headway.model.definition import NewDefinition
from headway.model.event import Event
from headway.model.job import NewJob
from headway.model.signal import NewSignal
from headway.model.template import Template

TriggerType = Literal["schedule", "event"]
CatchUp = Literal["none", "latest", "all"]
Overlap = Literal["allow", "skip"]
FireStatus = Literal["enqueued", "signaled", "undelivered", "skipped", "deduped", "failed"]
MADE = ("enqueued", "signaled")
"""The statuses of fires that did what their trigger is for."""


def trigger_noun(type_: str) -> str:
    return "schedule" if type_ == "schedule" else "event trigger"


class NewTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule or an event trigger to be stored: a row's worth of values, already checked."""

    id: str
    tenant: str = "default"
    tenant_id: str
    type: TriggerType
    name: str
    kind: str | None = None  # exactly one of kind, template_id and signal
    template_id: str | None = None
    payload: str = "{}"  # JSON text with {{placeholders}}: the payload, or what is laid over the template's
    options: str = "{}"  # JSON text: options of `using()`, as people write them
    description: str = ""
    enabled: bool = True
    created_by: str | None = None
    # a schedule's: exactly one of cron and every_ms
    cron: str | None = None
    every_ms: int | None = None
    tz: str = "UTC"
    catch_up: CatchUp = "latest"
    catch_up_window_ms: int = 86_400_000
    overlap: Overlap = "allow"
    jitter_ms: int = 0
    start_at: datetime | None = None
    end_at: datetime | None = None
    next_fire_at: datetime | None = None
    run_on_start: bool = False  # of a declaration: due at once when the first worker with its kind starts; not stored
    # an event's
    event: str | None = None
    when: str = "{}"  # JSON text: paths into the event, and the value or the list of values that each must have
    dedupe_window_ms: int = 300_000
    dedupe_key: str | None = None  # text with {{placeholders}}; None: the rendered payload itself
    signal: str | None = None  # the name of the signal that it sends, instead of making a job
    signal_to: str | None = None  # with it: "kind:unique key" or a job's id, with {{placeholders}}
    label: str | None = None  # for people: any text


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule or an event trigger as it is stored."""

    id: str
    tenant_id: str
    tenant: str
    type: TriggerType
    name: str
    kind: str | None
    template_id: str | None
    template_kind: str | None  # the kind of the template that it points at
    payload: Any
    options: dict[str, Any]
    description: str
    enabled: bool
    origin: Literal["code", "stored"]
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    declared_at: datetime | None  # when a worker's code last declared it
    revision: int
    cron: str | None
    every_ms: int | None
    tz: str
    catch_up: CatchUp
    catch_up_window_ms: int
    overlap: Overlap
    jitter_ms: int
    start_at: datetime | None
    end_at: datetime | None
    next_fire_at: datetime | None  # None: it is not enabled, or will not fire again
    event: str | None
    when: dict[str, Any]
    dedupe_window_ms: int
    dedupe_key: str | None
    signal: str | None
    signal_to: str | None
    last_fired_at: datetime | None  # when it last made a job (a schedule: the nominal time) or sent a signal
    last_job_id: str | None  # that job, or the machine that got the signal
    error: str | None  # why its last fire made no job, if it failed
    label: str | None = None  # for people: any text


class TriggerChange(msgspec.Struct, frozen=True, kw_only=True):
    """What `change_trigger` sets; UNSET leaves it as it is. Every change counts the revision up."""

    of_revision: int | msgspec.UnsetType = msgspec.UNSET  # refused where the row has another one by now
    name: str | msgspec.UnsetType = msgspec.UNSET
    kind: str | msgspec.UnsetType | None = msgspec.UNSET
    template_id: str | msgspec.UnsetType | None = msgspec.UNSET
    payload: str | msgspec.UnsetType = msgspec.UNSET
    options: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET
    cron: str | msgspec.UnsetType | None = msgspec.UNSET
    every_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    tz: str | msgspec.UnsetType = msgspec.UNSET
    catch_up: CatchUp | msgspec.UnsetType = msgspec.UNSET
    catch_up_window_ms: int | msgspec.UnsetType = msgspec.UNSET
    overlap: Overlap | msgspec.UnsetType = msgspec.UNSET
    jitter_ms: int | msgspec.UnsetType = msgspec.UNSET
    start_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    end_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    next_fire_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    event: str | msgspec.UnsetType = msgspec.UNSET
    when: str | msgspec.UnsetType = msgspec.UNSET
    dedupe_window_ms: int | msgspec.UnsetType = msgspec.UNSET
    dedupe_key: str | msgspec.UnsetType | None = msgspec.UNSET
    signal: str | msgspec.UnsetType | None = msgspec.UNSET
    signal_to: str | msgspec.UnsetType | None = msgspec.UNSET
    label: str | msgspec.UnsetType | None = msgspec.UNSET


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker's code declares at its start."""

    definitions: tuple[NewDefinition, ...] = ()
    schedules: tuple[NewTrigger, ...] = ()


def identified(schedules: tuple[NewTrigger, ...], ids: Mapping[str, str]) -> tuple[NewTrigger, ...]:
    """The schedules with their tenants' ids; those of a name that is not among them are left out."""
    return tuple(
        each if each.tenant_id else msgspec.structs.replace(each, tenant_id=ids[each.tenant])
        for each in schedules
        if each.tenant_id or each.tenant in ids
    )


_TIMING = ("cron", "every_ms", "tz", "start_at", "end_at")


def redeclared(before: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a stored schedule after a worker declared it: as it said, but operators decide whether it is
    enabled, and its next time stays unless the timing changed. A disabled one gets its next time when it is enabled."""
    after = {**said, "enabled": before["enabled"], "next_fire_at": before["next_fire_at"]}
    if any(before[name] != after[name] for name in _TIMING):
        after["next_fire_at"] = said["next_fire_at"] if before["enabled"] else None
    return after


class NewFire(msgspec.Struct, frozen=True, kw_only=True):
    """One fire of a trigger: the job that it makes or the signal that it sends, or why it does neither."""

    id: str
    trigger_id: str
    nominal_at: datetime | None = None  # a schedule's, unless it is fired by hand; with the trigger, it is unique
    # neither job nor signal: with an error it failed; without, its trigger does not want the event
    job: NewJob | None = None
    signal: NewSignal | None = None  # an event's
    dedupe_key: str | None = None  # an event's: its digest
    error: str | None = None  # why there is no job
    skipped: bool = False  # with an error: a schedule's times that are not caught up on


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is due: what it fires, and when it is due again. Void if the row changed since it was read."""

    trigger_id: str
    revision: int
    due_at: datetime  # its next_fire_at, as it was read
    next_fire_at: datetime | None
    fires: tuple[NewFire, ...] = ()


class Handling(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an event: a fire for each trigger that it meets; none where nobody listens."""

    event_id: str
    fires: tuple[NewFire, ...] = ()
    left: bool = False  # a trigger is left to a worker that knows its kind: the event stays pending


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """A fire as it is stored."""

    id: str
    trigger_id: str
    tenant_id: str
    nominal_at: datetime | None
    event_id: str | None
    fired_at: datetime
    status: FireStatus
    # enqueued: its job. signaled: who got the signal. deduped: the job of the fire before, or who has the signal.
    # skipped: the one that is not over
    job_id: str | None
    error: str | None  # failed or undelivered: why


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """A time of a schedule's past, and what a backfill made from it."""

    nominal_at: datetime
    status: Literal["planned", "enqueued", "deduped", "fired"]  # planned: a dry run. fired: it had fired before
    job_id: str | None = None
    queue: str | None = None
    payload: Any = None  # of the job; None where it had fired before


class ResolvedTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger with the template that it points at: all that it takes to fire it."""

    trigger: Trigger
    template: Template | None
    computed: bool = False  # its kind's keys are made by code, which the caller does not have


def resolved(trigger: Trigger, template: Template | None, *, computed: bool = False) -> ResolvedTrigger | None:
    """A trigger with its template; None if a JSON object of either cannot be read (it is text then): it must not stop
    the others."""
    objects = [trigger.payload, trigger.options, trigger.when]
    if template is not None:
        objects += [template.payload, template.options]
    if not all(isinstance(each, dict) for each in objects):
        return None
    return ResolvedTrigger(trigger=trigger, template=template, computed=computed)


class PendingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to be handled, with the enabled triggers on it that have no fire for it yet."""

    event: Event
    triggers: tuple[ResolvedTrigger, ...]
    fault: str | None = None  # why its payload (None then) cannot be read


DUE_BYTES = 2**20
"""How much of events' payloads one look gives, one event at least; every tenant's first comes before any's second."""


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What must fire now."""

    now: datetime  # by the clock that judges due times
    schedules: tuple[ResolvedTrigger, ...]  # soonest first
    events: tuple[PendingEvent, ...]  # oldest first
    next_due_ms: int | None  # until the next schedule is due (one of those that the caller may fire)
    more: bool = False  # events are pending that were too much for this look
    defined: str  # differs when a definition was written or deleted: how many there are, and the sum of their revisions
