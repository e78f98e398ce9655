"""Definitions: workers declare their kinds and schedules; what operators changed stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.model import audit
from headway.model.checks import check_declaration, check_definition_change
from headway.model.definition import Definition, DefinitionChange, NewDefinition
from headway.model.definition_merge import CHANGEABLE, COLUMNS, changed, declared, unwritten
from headway.model.trigger import Declaration, NewTrigger, identified, redeclared
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_definition
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, given, json_list
from headway.store.sqlite.fleet.tenants import name_tenants, named
from headway.store.sqlite.jobs.audit import record, record_change
from headway.store.sqlite.triggers.triggers import (
    declared_again,
    find_trigger,
    insert_trigger,
    read_changeable,
    stored,
    write_trigger,
)

_SQL = statements("triggers/definitions")
_STARTING_US = 60_000_000  # how long after it registered a worker may not have declared its schedules yet


class DefinitionVerbs(Verbs):
    def change_definition(self, kind: str, change: DefinitionChange, *, actor: str | None) -> Op[Definition]:
        def steps() -> Steps[Definition]:
            check_definition_change(kind, change)
            now = self._clock.now()
            before = (yield from _rows([kind])).get(kind)
            row = changed(before, kind, given(change, but=("reset",)), change.reset, now)
            yield from _write(row, now)
            values = audit.values_changed(before or unwritten(kind, now), {name: row[name] for name in CHANGEABLE})
            detail = audit.fields_changed(kind, change)
            yield record_change(now, None, None, actor, "definition.changed", detail, values)
            return (yield from _stored([kind]))[0]

        return SqliteOp(steps, writes=True)

    def delete_definition(self, kind: str, *, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield Statement(_SQL["delete"], (kind,))
            if rows:
                yield record(self._clock.now(), None, None, actor, "definition.deleted", kind)
            return bool(rows)

        return SqliteOp(steps, writes=True)

    def declare(self, declaration: Declaration) -> Op[tuple[str, ...]]:
        def steps() -> Steps[tuple[str, ...]]:
            check_declaration(declaration)
            now = self._clock.now()
            yield from _declare_definitions(declaration.definitions, now)
            schedules = declaration.schedules
            if names := {each.tenant for each in schedules if not each.tenant_id}:
                schedules = identified(schedules, (yield from named(names, now)))
            yield from name_tenants(schedules, now)
            ours: list[str] = []
            for schedule in schedules:
                ours_id = yield from _declare_and_start(schedule, now)
                if ours_id is not None:
                    ours.append(ours_id)
            return tuple(ours)

        return SqliteOp(steps, writes=True)

    def definitions(self, kinds: Sequence[str] | None) -> Op[list[Definition]]:
        def steps() -> Steps[list[Definition]]:
            return (yield from _stored(kinds))

        return SqliteOp(steps, writes=False)


def _declare_definitions(definitions: Sequence[NewDefinition], now: int) -> Steps[None]:
    """Write the declared values, except those that an operator changed; nothing if nothing differs."""
    rows = (yield from _rows([each.kind for each in definitions])) if definitions else {}
    for said in definitions:
        before = rows.get(said.kind)
        row = declared(before, said, now)
        if row != before:
            rows[said.kind] = yield from _write(row, now)


def _declare_and_start(schedule: NewTrigger, now: int) -> Steps[str | None]:
    """Write one declared schedule; with run_on_start it is due at once, unless a worker runs it already."""
    if not schedule.run_on_start:
        return (yield from _declare_schedule(schedule, now))
    before = yield from find_trigger(schedule.tenant_id, schedule.type, schedule.name)
    running = before is not None and (yield Statement(_SQL["running"], (before, now, now - _STARTING_US)))
    trigger_id = yield from _declare_schedule(schedule, now)
    if trigger_id is not None and not running:
        yield Statement(_SQL["start"], (trigger_id, now))
    return trigger_id


def _declare_schedule(schedule: NewTrigger, now: int) -> Steps[str | None]:
    """Write one declared schedule; gives its row's id, None if a stored schedule has the name."""
    trigger_id = yield from find_trigger(schedule.tenant_id, schedule.type, schedule.name)
    if trigger_id is None:
        yield insert_trigger(schedule, "code", now)
        return schedule.id
    origin, before = yield from read_changeable(trigger_id)
    if origin != "code":
        return None
    after = redeclared(before, stored(schedule))
    if after == before:
        yield declared_again(trigger_id, now)
    else:
        yield write_trigger(trigger_id, after, now, declared_at=now)
    return trigger_id


def _stored(kinds: Sequence[str] | None) -> Steps[list[Definition]]:
    rows = yield Statement(_SQL["read"], (None if kinds is None else json_list(kinds),))
    return [to_definition((*row[:-2], row[-1])) for row in rows]


def _rows(kinds: Sequence[str] | None) -> Steps[dict[str, dict[str, Any]]]:
    """The stored rows by kind, in order."""
    rows = yield Statement(_SQL["read"], (None if kinds is None else json_list(kinds),))
    return {row[0]: dict(zip(COLUMNS, row[:-1], strict=True)) for row in rows}


def _write(row: dict[str, Any], now: int) -> Steps[dict[str, Any]]:
    """Write the row under a new revision; gives it as stored."""
    row = row | {"revision": row["revision"] + 1, "updated_at": now}
    yield Statement(_SQL["put"], tuple(row.values()))
    return row
