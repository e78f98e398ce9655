"""Triggers: schedules and event triggers, created, changed and deleted; audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.clock import to_micros
from headway.model import audit, refusals
from headway.model.checks import (
    check_owner,
    check_revision,
    check_trigger,
    check_trigger_change,
    check_whole_trigger,
)
from headway.model.trigger import NewTrigger, Trigger, TriggerChange, TriggerType, trigger_noun
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_trigger
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, given, json_list
from headway.store.sqlite.fleet.tenants import name_tenants
from headway.store.sqlite.jobs.audit import record, record_change
from headway.store.sqlite.jobs.quotas import check_schedules

_SQL = statements("triggers/triggers")
CHANGEABLE = tuple(name for name in TriggerChange.__struct_fields__ if name != "of_revision")


class TriggerVerbs(Verbs):
    def create_trigger(self, trigger: NewTrigger, *, actor: str | None) -> Op[Trigger]:
        def steps() -> Steps[Trigger]:
            check_trigger(trigger)
            now = self._clock.now()
            there = yield from read_triggers([trigger.id])
            if there:
                check_owner("trigger", trigger.id, trigger.tenant_id, there[trigger.id].tenant_id)
                return there[trigger.id]
            yield from name_tenants([trigger], now)
            yield from _check_template(trigger.tenant_id, trigger.template_id)
            yield from _refuse_taken(trigger.tenant_id, trigger.type, trigger.name)
            yield from check_schedules(trigger.tenant_id)
            yield insert_trigger(trigger, "stored", now)
            yield record(now, trigger.tenant_id, None, actor, "trigger.created", trigger.name)
            return (yield from read_triggers([trigger.id]))[trigger.id]

        return SqliteOp(steps, writes=True)

    def change_trigger(
        self, trigger_id: str, change: TriggerChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Trigger | None]:
        def steps() -> Steps[Trigger | None]:
            check_trigger_change(change)
            now = self._clock.now()
            rows = yield Statement(_SQL["changing"], (trigger_id, tenant_id))
            if not rows:
                return None
            tenant, type_, _, revision, *current = rows[0]
            before: dict[str, Any] = dict(zip(CHANGEABLE, current, strict=True))
            after = before | given(change, but=("of_revision",))
            check_revision(trigger_noun(type_), before["name"], change.of_revision, revision)
            if after["template_id"] != before["template_id"]:
                yield from _check_template(tenant, after["template_id"])
            check_whole_trigger(type_, after)
            if after["name"] != before["name"]:
                yield from _refuse_taken(tenant, type_, after["name"])
            yield write_trigger(trigger_id, after, now)
            detail = audit.fields_changed(before["name"], change)
            values = audit.values_changed(before, after)
            yield record_change(now, tenant, None, actor, "trigger.changed", detail, values)
            return (yield from read_triggers([trigger_id]))[trigger_id]

        return SqliteOp(steps, writes=True)

    def delete_trigger(self, trigger_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield Statement(_SQL["delete"], (trigger_id, tenant_id))
            for tenant, _, name in rows:
                yield record(self._clock.now(), tenant, None, actor, "trigger.deleted", name)
            return bool(rows)

        return SqliteOp(steps, writes=True)

    def triggers(
        self,
        *,
        tenant_id: str | None,
        type: TriggerType | None,  # noqa: A002 - the contract's word
        name: str | None,
        events: Sequence[str] | None,
        limit: int,
        after: str | None,
        only: str | None = None,
    ) -> Op[list[Trigger]]:
        def steps() -> Steps[list[Trigger]]:
            if tenant_id and type and name and events is None and not (after or only):
                rows = yield Statement(_SQL["named"], (tenant_id, type, name))
            else:
                wanted = None if events is None else json_list(events)
                rows = yield Statement(_SQL["page"], (tenant_id, type, name, wanted, after or "", limit, only))
            return list((yield from read_triggers([trigger_id for (trigger_id,) in rows])).values())

        return SqliteOp(steps, writes=False)


def read_triggers(ids: Sequence[str]) -> Steps[dict[str, Trigger]]:
    """Those of these triggers that exist, in order of id."""
    if not ids:
        return {}
    rows = yield Statement(_SQL["read"], (json_list(ids),))
    return {row[0]: to_trigger(row) for row in rows}


def find_trigger(tenant_id: str, type_: TriggerType, name: str) -> Steps[str | None]:
    """The id of the trigger with this name."""
    rows = yield Statement(_SQL["named"], (tenant_id, type_, name))
    return rows[0][0] if rows else None


def read_changeable(trigger_id: str) -> Steps[tuple[str, dict[str, Any]]]:
    """A trigger's origin, and its changeable columns as stored."""
    ((_, _, origin, _, *current),) = yield Statement(_SQL["changing"], (trigger_id, None))
    return origin, dict(zip(CHANGEABLE, current, strict=True))


def declared_again(trigger_id: str, now: int) -> Statement:
    """Notes that a worker has declared the schedule again, unchanged."""
    return Statement(_SQL["declared"], (trigger_id, now))


def insert_trigger(trigger: NewTrigger, origin: str, now: int) -> Statement:
    head = (trigger.id, trigger.tenant_id, trigger.type, origin, trigger.created_by, now)
    return Statement(_SQL["insert"], (*head, now if origin == "code" else None, *stored(trigger).values()))


def write_trigger(trigger_id: str, values: Mapping[str, Any], now: int, declared_at: int | None = None) -> Statement:
    """Writes all changeable columns, under a new revision."""
    return Statement(_SQL["change"], (trigger_id, now, declared_at, *(values[name] for name in CHANGEABLE)))


def stored(trigger: NewTrigger) -> dict[str, Any]:
    """What can be changed of a trigger, as it is stored."""
    said = {name: getattr(trigger, name) for name in CHANGEABLE}
    return {name: to_micros(value) if isinstance(value, datetime) else value for name, value in said.items()}


def _check_template(tenant_id: str, template_id: str | None) -> Steps[None]:
    if template_id is not None and not (yield Statement(_SQL["template"], (template_id, tenant_id))):
        raise refusals.no_such_template(template_id)


def _refuse_taken(tenant_id: str, type_: TriggerType, name: str) -> Steps[None]:
    if (yield from find_trigger(tenant_id, type_, name)) is not None:
        raise refusals.name_taken("a schedule" if type_ == "schedule" else "an event trigger", name)
