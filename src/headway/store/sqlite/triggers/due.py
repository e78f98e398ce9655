"""Due: which schedules and events must fire now, with their triggers and templates."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.clock import from_micros, ms_until
from headway.model.event import Event
from headway.model.trigger import DUE_BYTES, Due, PendingEvent, ResolvedTrigger, resolved
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
            pending, more = (yield from _listeners(known, now, limit)) if has_events else ({}, False)
            found = yield from _resolved_triggers(
                {*ids, *(trigger_id for listeners in pending.values() for trigger_id in listeners)}
            )
            events = yield from read_events(list(pending))
            schedules = tuple(found[trigger_id] for trigger_id in ids if trigger_id in found)
            if ids and not schedules:
                next_due = None  # what is due cannot be read: do not look again at once
            return Due(
                now=from_micros(now),
                schedules=schedules,
                events=tuple(
                    _pending_event(*events[event_id], found, listeners) for event_id, listeners in pending.items()
                ),
                next_due_ms=None if next_due is None else ms_until(next_due, now),
                more=more,
                defined=defined,
            )

        return SqliteOp(steps, writes=False)


def _listeners(kinds: str, now: int, limit: int) -> Steps[tuple[dict[str, dict[str, bool]], bool]]:
    """The oldest pending events, each with the ids of its triggers, and whether the caller cannot fire them; and
    whether there are more than fit."""
    rows = yield Statement(_SQL["events"], (kinds, limit, now - _LEFT_TO_OTHERS_US))
    if len(rows) == limit:
        rows = (yield from _events_in_turn(kinds, now, limit)) or rows
    found = len(rows)
    rows = yield Statement(_SQL["fitting"], (json_list([event_id for (event_id,) in rows]), DUE_BYTES))
    pending: dict[str, dict[str, bool]] = {event_id: {} for (event_id,) in rows}
    for event_id, trigger_id, computed in (yield Statement(_SQL["met"], (json_list(list(pending)), kinds))):
        pending[event_id][trigger_id] = bool(computed)
    return pending, len(rows) < found


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
    return {
        trigger_id: found
        for trigger_id, trigger in triggers.items()
        if (found := resolved(trigger, templates.get(trigger.template_id or ""))) is not None
    }


def _pending_event(
    event: Event, fault: str | None, triggers: Mapping[str, ResolvedTrigger], listeners: Mapping[str, bool]
) -> PendingEvent:
    return PendingEvent(
        event=event if fault is None else msgspec.structs.replace(event, payload=None),
        triggers=tuple(
            msgspec.structs.replace(triggers[trigger_id], computed=computed) if computed else triggers[trigger_id]
            for trigger_id, computed in listeners.items()
            if trigger_id in triggers
        ),
        fault=fault,
    )
