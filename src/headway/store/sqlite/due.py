"""Due: which schedules and events are to be fired now, with what a fire of them is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.clock import from_micros
from headway.model.template import Template
from headway.model.trigger import Due, Heard, Met, Trigger
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.events import read_events
from headway.store.sqlite.op import SqliteOp, Verbs, json_list
from headway.store.sqlite.sql import statements
from headway.store.sqlite.templates import read_templates
from headway.store.sqlite.triggers import read_triggers

_SQL = statements("due")


class DueVerbs(Verbs):
    def due(self, *, kinds: Sequence[str], declared: Sequence[str], limit: int) -> Op[Due]:
        known, ours = json_list(kinds), json_list(declared)

        def steps() -> Steps[Due]:
            now = self._clock.now()
            ((next_due, pending, defined_at),) = yield Statement(_SQL["probe"], (known, ours))
            ids: list[str] = []
            if next_due is not None and next_due <= now:
                rows = yield Statement(_SQL["schedules"], (known, ours, now, limit))
                ids = [trigger_id for (trigger_id,) in rows]
            heard = (yield from _hear(known, limit)) if pending else {}
            names = {*ids, *(trigger_id for met in heard.values() for trigger_id in met)}
            triggers = yield from read_triggers(sorted(names))
            templates = yield from _templates(triggers.values())
            events = yield from read_events(list(heard))

            def met(trigger_id: str) -> Met:
                trigger = triggers[trigger_id]
                return Met(trigger=trigger, template=templates.get(trigger.template_id or ""))

            return Due(
                now=from_micros(now),
                schedules=tuple(met(trigger_id) for trigger_id in ids),
                events=tuple(
                    Heard(event=events[event_id], met=tuple(met(trigger_id) for trigger_id in listeners))
                    for event_id, listeners in heard.items()
                ),
                next_due_ms=None if next_due is None else max(0, -((now - next_due) // 1000)),
                defined_at=None if defined_at is None else from_micros(defined_at),
            )

        return SqliteOp(steps, writes=False)


def _hear(kinds: str, limit: int) -> Steps[dict[str, list[str]]]:
    """The oldest events that wait, each with the ids of the triggers that are to fire for it."""
    rows = yield Statement(_SQL["events"], (kinds, limit))
    heard: dict[str, list[str]] = {event_id: [] for (event_id,) in rows}
    for event_id, trigger_id in (yield Statement(_SQL["met"], (json_list(list(heard)),))):
        heard[event_id].append(trigger_id)
    return heard


def _templates(triggers: Iterable[Trigger]) -> Steps[dict[str, Template]]:
    ids = {trigger.template_id for trigger in triggers if trigger.template_id is not None}
    return (yield from read_templates(sorted(ids)))
