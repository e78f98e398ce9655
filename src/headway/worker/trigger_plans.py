"""Plans what due schedules and pending events fire: jobs, skips and errors, decided without writing.

One broken row must not stop the others, wherever it came from: whatever it raises becomes a fire with an error.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from headway import secrets
from headway.define.definitions import Definitions
from headway.define.trigger_jobs import event_job, event_signal, matches, schedule_job
from headway.errors import HeadwayError, RenderError
from headway.model.ids import new_id
from headway.model.schedule import CATCH_UP, Plan, plan
from headway.model.trigger import Firing, Handling, NewFire, PendingEvent, ResolvedTrigger
from headway.worker.error_text import storable

T = TypeVar("T", Firing, Handling)

LEFT_FOR = timedelta(minutes=10)
"""How long an event waits for a worker that knows the kind of a trigger on it."""
_REASON_LIMIT = 2_000


def plan_firing(resolved: ResolvedTrigger, now: datetime, definitions: Definitions, limit: int, most: int) -> Firing:
    trigger = resolved.trigger
    assert trigger.next_fire_at is not None
    try:
        planned = plan(trigger, now, most)
    except Exception as error:
        # only a row written by hand can be wrong: stop it from firing, and record why
        fires: tuple[NewFire, ...] = (_failed(trigger.id, error, nominal_at=trigger.next_fire_at),)
        planned = Plan((), None)
    else:
        before = (trigger.last_fired_at, *planned.times)
        skipped: tuple[NewFire, ...] = ()
        if planned.skipped_from is not None and planned.skipped_until is not None:
            skipped = (_skipped(trigger.id, planned.skipped_from, planned.skipped_until),)
        fires = (
            *skipped,
            *(
                _fire_at(resolved, time, last, definitions, now, limit)
                for time, last in zip(planned.times, before, strict=False)
            ),
        )
    return Firing(
        trigger_id=trigger.id,
        revision=trigger.revision,
        due_at=trigger.next_fire_at,
        next_fire_at=planned.next_fire_at,
        fires=fires,
    )


def plan_handling(
    pending: PendingEvent, now: datetime, definitions: Definitions, limit: int, room: int
) -> tuple[Handling, int]:
    """A fire for each trigger that the event matches; a trigger whose kind only other workers know is left to them, and
    so are, to the next round, triggers after this many bytes of payloads. Gives how much room is left."""
    fires: list[NewFire] = []
    unwanted: list[NewFire] = []
    left = False
    late = now - pending.event.emitted_at >= LEFT_FOR
    for resolved in pending.triggers:
        trigger = resolved.trigger
        if room <= 0:
            left = True
            break
        try:
            if pending.fault is not None:
                raise RenderError(pending.fault)
            if not matches(trigger, pending.event):
                unwanted.append(NewFire(id=new_id(), trigger_id=trigger.id))
            elif trigger.signal is not None:
                signal = event_signal(trigger, pending.event, limit=limit)
                fires.append(NewFire(id=new_id(), trigger_id=trigger.id, signal=signal))
            elif resolved.computed and not late:
                left = True
            else:
                job, dedupe_key = event_job(resolved, pending.event, definitions, now=now, limit=limit)
                fires.append(NewFire(id=new_id(), trigger_id=trigger.id, job=job, dedupe_key=dedupe_key))
        except Exception as error:
            fires.append(_failed(trigger.id, error))
        else:
            room -= size_of(fires[-1]) if fires and fires[-1].trigger_id == trigger.id else 0
    # a trigger that does not match needs a row only if the event stays pending and comes up again
    handling = Handling(event_id=pending.event.id, fires=(*fires, *unwanted) if left else tuple(fires), left=left)
    return handling, room


def size_of(fire: NewFire) -> int:
    """How large the payload of its job or signal is."""
    made = fire.job or fire.signal
    return 0 if made is None or made.payload is None else len(made.payload)


def size_of_payload(resolved: ResolvedTrigger) -> int:
    """About how large the payload of each of its jobs will be."""
    parts = (resolved.trigger.payload, None if resolved.template is None else resolved.template.payload)
    return 1 + sum(len(msgspec.json.encode(each)) for each in parts if each)


def refused(one: T, error: HeadwayError) -> T:
    """The same with errors instead of jobs and signals, after the store refused one of them."""
    reason = reason_of(error)
    fires = tuple(
        fire
        if fire.job is None and fire.signal is None
        else msgspec.structs.replace(fire, job=None, signal=None, dedupe_key=None, error=reason)
        for fire in one.fires
    )
    return msgspec.structs.replace(one, fires=fires)


def each_time(firing: Firing) -> list[Firing]:
    """One firing for each of its times, to write them one by one."""
    parts = []
    due_at = firing.due_at
    for fire, following in zip(firing.fires, [*firing.fires[1:], None], strict=True):
        then = firing.next_fire_at if following is None else following.nominal_at
        parts.append(msgspec.structs.replace(firing, due_at=due_at, next_fire_at=then, fires=(fire,)))
        due_at = then or due_at
    return parts or [firing]


def each_fire(handling: Handling) -> list[Handling]:
    """One handling for each of its fires; only the last one ends the event."""
    if len(handling.fires) < 2:
        return [handling]
    parts = [msgspec.structs.replace(handling, fires=(fire,), left=True) for fire in handling.fires]
    return [*parts, msgspec.structs.replace(handling, fires=())]


def reason_of(error: Exception) -> str:
    """The text of an error, without secrets: it may quote the event."""
    text = str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"
    text = storable(secrets.redact_head(text, _REASON_LIMIT, secrets.own()))
    return text if len(text) < _REASON_LIMIT else text + " …"


def _fire_at(
    resolved: ResolvedTrigger,
    nominal_at: datetime,
    last: datetime | None,
    definitions: Definitions,
    now: datetime,
    limit: int,
) -> NewFire:
    try:
        trigger = msgspec.structs.replace(resolved.trigger, last_fired_at=last)
        resolved = msgspec.structs.replace(resolved, trigger=trigger)
        job = schedule_job(resolved, nominal_at, definitions, now=now, limit=limit)
    except Exception as error:
        return _failed(resolved.trigger.id, error, nominal_at=nominal_at)
    return NewFire(id=new_id(), trigger_id=resolved.trigger.id, nominal_at=nominal_at, job=job)


def _skipped(trigger_id: str, first: datetime, until: datetime) -> NewFire:
    """One fire that stands for all times that are too many to catch up on."""
    reason = (
        f"skipped: all times from {first.isoformat()} to before {until.isoformat()}; a schedule catches up on its last "
        f"{CATCH_UP:,} times"
    )
    return NewFire(id=new_id(), trigger_id=trigger_id, nominal_at=first, error=reason, skipped=True)


def _failed(trigger_id: str, error: Exception, nominal_at: datetime | None = None) -> NewFire:
    return NewFire(id=new_id(), trigger_id=trigger_id, nominal_at=nominal_at, error=reason_of(error))
