"""Due: which schedules and events are to be fired now, with their triggers and templates."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.clock import from_micros
from headway.model.event import Event
from headway.model.template import Template
from headway.model.trigger import Due, PendingEvent, ResolvedTrigger, Trigger
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.triggers.events import read_events
from headway.store.sqlite.triggers.templates import read_templates
from headway.store.sqlite.triggers.triggers import read_triggers

_SQL = statements("triggers/due")
_LEFT_TO_OTHERS_US = 600_000_000  # ten minutes: how long an event is left to the workers that can handle it
_PROBED = 10_000  # tenants that one call asks for schedules


class DueVerbs(Verbs):
    def due(self, *, kinds: Sequence[str], declared: Sequence[str], limit: int) -> Op[Due]:
        known, ours = json_list(kinds), json_list(declared)

        def steps() -> Steps[Due]:
            now = self._clock.now()
            ((next_due, has_events, defined),) = yield Statement(_SQL["probe"], (known, ours))
            ids: list[str] = []
            if next_due is not None and next_due <= now:
                rows = yield Statement(_SQL["schedules"], (known, ours, now, limit))
                ids = [trigger_id for (trigger_id,) in rows]
                if len(ids) == limit:
                    ids = (yield from _schedules_in_turn(known, ours, now, limit)) or ids
            pending = (yield from _listeners(known, now, limit)) if has_events else {}
            resolved = yield from _resolved_triggers(
                {*ids, *(trigger_id for listeners in pending.values() for trigger_id in listeners)}
            )
            events = yield from read_events(list(pending))
            schedules = tuple(resolved[trigger_id] for trigger_id in ids if trigger_id in resolved)
            if ids and not schedules:
                next_due = None  # what is due cannot be read: do not look again at once
            return Due(
                now=from_micros(now),
                schedules=schedules,
                events=tuple(
                    _pending_event(*events[event_id], resolved, listeners) for event_id, listeners in pending.items()
                ),
                next_due_ms=None if next_due is None else max(0, -((now - next_due) // 1000)),
                defined=defined,
            )

        return SqliteOp(steps, writes=False)


def _listeners(kinds: str, now: int, limit: int) -> Steps[dict[str, dict[str, bool]]]:
    """The oldest pending events, each with the ids of its triggers, and whether the caller cannot fire them."""
    rows = yield Statement(_SQL["events"], (kinds, limit, now - _LEFT_TO_OTHERS_US))
    if len(rows) == limit:
        rows = (yield from _events_in_turn(kinds, now, limit)) or rows
    pending: dict[str, dict[str, bool]] = {event_id: {} for (event_id,) in rows}
    for event_id, trigger_id, computed in (yield Statement(_SQL["met"], (json_list(list(pending)), kinds))):
        pending[event_id][trigger_id] = bool(computed)
    return pending


# if more is due than one call gives, each tenant gets a share: none waits for another's backlog


def _schedules_in_turn(kinds: str, declared: str, now: int, limit: int) -> Steps[list[str]]:
    owners = yield from _owners("due_owner", now, limit)
    found: list[tuple[int, str]] = []
    for owner in owners:
        part = (kinds, declared, now, -(-limit // len(owners)), owner)
        found += [(due, trigger_id) for trigger_id, due in (yield Statement(_SQL["schedules_of"], part))]
    return [trigger_id for _, trigger_id in sorted(found)]


def _events_in_turn(kinds: str, now: int, limit: int) -> Steps[Rows]:
    owners = yield from _owners("event_owner", now, limit)
    found: Rows = []
    for owner in owners:
        part = (kinds, -(-limit // len(owners)), now - _LEFT_TO_OTHERS_US, owner)
        found += yield Statement(_SQL["events_of"], part)
    return sorted(found)


def _owners(probe: str, now: int, limit: int) -> Steps[list[str]]:
    """Up to `limit` tenants that have something due, beginning with a random one."""
    first = last = str(uuid.uuid4())
    again = False
    owners: list[str] = []
    for _ in range(_PROBED):
        rows = yield Statement(_SQL[probe], (last,))
        if not rows or (again and rows[0][0] > first):
            if again:
                break
            again, last = True, ""
            continue
        last, due = rows[0]
        if due <= now:
            owners.append(last)
            if len(owners) == limit:
                break
    return owners


def _resolved_triggers(ids: Iterable[str]) -> Steps[dict[str, ResolvedTrigger]]:
    """Those of these triggers that can be read, with their templates."""
    triggers = yield from read_triggers(sorted(ids))
    names = {trigger.template_id for trigger in triggers.values() if trigger.template_id is not None}
    templates = yield from read_templates(sorted(names))
    found: dict[str, ResolvedTrigger] = {}
    for trigger_id, trigger in triggers.items():
        template = templates.get(trigger.template_id or "")
        if _legible(trigger, template):
            found[trigger_id] = ResolvedTrigger(trigger=trigger, template=template)
    return found


def _legible(trigger: Trigger, template: Template | None) -> bool:
    """Whether all JSON objects of both could be read; one that could not is text."""
    objects = [trigger.payload, trigger.options, trigger.when]
    if template is not None:
        objects += [template.payload, template.options]
    return all(isinstance(each, dict) for each in objects)


def _pending_event(
    event: Event, fault: str | None, resolved: Mapping[str, ResolvedTrigger], listeners: Mapping[str, bool]
) -> PendingEvent:
    return PendingEvent(
        event=event if fault is None else msgspec.structs.replace(event, payload=None),
        triggers=tuple(
            msgspec.structs.replace(resolved[trigger_id], computed=computed) if computed else resolved[trigger_id]
            for trigger_id, computed in listeners.items()
            if trigger_id in resolved
        ),
        fault=fault,
    )
