"""Declare: writes what a worker's code says of its kinds and schedules, under what operators changed."""

from __future__ import annotations

from typing import Any

from headway.model.trigger import Declaration, NewTrigger, identified
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.fleet.tenants import name_tenants, named
from headway.store.sqlite.triggers.definitions import declare_definitions
from headway.store.sqlite.triggers.triggers import CHANGEABLE, find_trigger, insert_trigger, stored, write_trigger

_SQL = statements("triggers/triggers")
_TIMING = ("cron", "every_ms", "tz", "start_at", "end_at")


class DeclareVerbs(Verbs):
    def declare(self, declaration: Declaration) -> Op[tuple[str, ...]]:
        def steps() -> Steps[tuple[str, ...]]:
            now = self._clock.now()
            yield from declare_definitions(declaration.definitions, now)
            schedules = declaration.schedules
            if names := {each.tenant for each in schedules if not each.tenant_id}:
                schedules = identified(schedules, (yield from named(names, now)))
            yield from name_tenants(schedules, now)
            ours: list[str] = []
            for schedule in schedules:
                declared = yield from _declare(schedule, now)
                if declared is not None:
                    ours.append(declared)
            return tuple(ours)

        return SqliteOp(steps, writes=True)


def _declare(schedule: NewTrigger, now: int) -> Steps[str | None]:
    """Write one schedule; gives the id of its row, None if the name belongs to a stored one."""
    trigger_id = yield from find_trigger(schedule.tenant_id, schedule.type, schedule.name)
    if trigger_id is None:
        yield insert_trigger(schedule, "code", now)
        return schedule.id
    ((_, _, origin, _, *current),) = yield Statement(_SQL["changing"], (trigger_id, None))
    if origin != "code":
        return None
    before: dict[str, Any] = dict(zip(CHANGEABLE, current, strict=True))
    said = stored(schedule)
    after = said | {"enabled": before["enabled"], "next_fire_at": before["next_fire_at"]}
    if any(before[name] != after[name] for name in _TIMING):
        # one that is off is due when it is switched on, and not before
        after["next_fire_at"] = said["next_fire_at"] if before["enabled"] else None
    if after == before:
        yield Statement(_SQL["declared"], (trigger_id, now))
    else:
        yield write_trigger(trigger_id, after, now, declared_at=now)
    return trigger_id
