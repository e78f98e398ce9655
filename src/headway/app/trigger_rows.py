"""What schedules and event triggers share: both are rows of one table, found by name, changed, deleted, fired."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from headway.app.base import VerbBase, renamed, then
from headway.define.checks import name as checked_name
from headway.define.trigger_jobs import schedule_job
from headway.define.triggers import changed_trigger
from headway.errors import InvalidJob, NotAllowed, NotFound, RenderError
from headway.model.duration import show_ms, to_ms
from headway.model.ids import given_id, new_id
from headway.model.template import Template
from headway.model.trigger import Fire, NewFire, ResolvedTrigger, Trigger, TriggerType
from headway.store.ops import Op, Steps


class TriggerRows(VerbBase):
    """A name is unique per tenant and type."""

    def fires(
        self,
        *,
        schedule: str | UUID | None = None,
        trigger: str | UUID | None = None,
        event_id: str | UUID | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: str | UUID | None = None,
    ) -> list[Fire]:
        """What fired, newest first: of a schedule, of a trigger, for an event, or all."""
        return self._run(self._fires(schedule, trigger, event_id, tenant, limit, before))

    def _trigger_row(self, type_: TriggerType | None, name: str | UUID, tenant: str | UUID | None) -> Op[Trigger]:
        """A trigger by its name, or by its id in whatever tenant these verbs see."""
        if isinstance(name, UUID):
            seen = self._tenant_to_read(tenant)
            by_id = self._store.ops.triggers(
                tenant_id=seen, type=type_, name=None, events=None, limit=1, after=None, only=str(name)
            )
            return then(by_id, lambda found: found[0] if found else no_such_trigger(name))
        owner = self._named_tenant(tenant)
        op = self._store.ops.triggers(
            tenant_id=self._id_of(owner), type=type_, name=checked_name(name, "name"), events=None, limit=1, after=None
        )
        return then(op, lambda found: found[0] if found else missing_trigger(type_ or "event", name, owner))

    def _trigger_rows(
        self,
        type_: TriggerType | None,
        tenant: str | UUID | None,
        event: str | Collection[str] | None,
        limit: int,
        after: str | UUID | None,
    ) -> Op[list[Trigger]]:
        return self._store.ops.triggers(
            tenant_id=self._tenant_to_read(tenant),
            type=type_,
            name=None,
            events=None if event is None else named(event, "event"),
            limit=limit,
            after=None if after is None else given_id(after, "after"),
        )

    def _default_zone(self, tenant_id: str) -> Steps[str]:
        """The zone of a schedule that names none: its tenant's, else the app's."""
        found = yield from self._store.ops.list_tenants(limit=1, only=tenant_id).steps()
        return (found[0].tz if found else None) or self._tz

    def _change_trigger_row(self, type_: TriggerType, name: str | UUID, changes: Mapping[str, Any]) -> Op[Trigger]:
        given = renamed(changes)
        tenant, actor, template = (given.pop(each, None) for each in ("tenant", "actor", "template"))
        if_match = given.pop("if_match", None)
        only_enabled = set(given) == {"enabled"} and template is None

        def steps() -> Steps[Trigger]:
            found = yield from self._found_to_change(
                "trigger", partial(self._trigger_row, type_), name, tenant, if_match
            )
            if not only_enabled:
                refuse_declared(found)
            now = yield from self._store.ops.now().steps()
            if "tz" in given and given["tz"] is None:
                given["tz"] = yield from self._default_zone(found.tenant_id)
            if template is not None:
                given["template_id"] = yield from self._template_id(template, found.tenant_id)
            self._check_window(given)
            change = changed_trigger(found, given, now=now, limit=self.payload_limit)
            op = self._store.ops.change_trigger(found.id, change, tenant_id=found.tenant_id, actor=actor)
            changed = (yield from op.steps()) or missing_trigger(type_, found.name, found.tenant)
            if not {"payload", "options", "kind", "template_id"}.isdisjoint(given):
                yield from self._check_schedule(changed, now)
            return changed

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)

    def _check_schedule(self, schedule: Trigger, now: datetime) -> Steps[None]:
        """Raise now what its fires would fail with later, except what only a process with the kind's code can tell."""
        if schedule.type != "schedule":
            return
        template = yield from self._template_of(schedule)
        kind = schedule.kind or schedule.template_kind or ""
        definition = self._definitions.get(kind)
        if kind not in self._registry and definition is not None and definition.needs_code:
            return
        resolved = ResolvedTrigger(trigger=schedule, template=template)
        try:
            schedule_job(resolved, now, self._definitions, now=now, limit=self.payload_limit)
        except RenderError as error:
            raise InvalidJob(f"{schedule.name}: {error}") from None

    def _check_window(self, given: Mapping[str, Any]) -> None:
        window = given.get("dedupe_window")
        kept_ms = self._retention_ms["events"]
        if window is not None and to_ms(window, "dedupe_window") > kept_ms:
            raise InvalidJob(
                f"dedupe_window={window!r} is longer than events are kept, {show_ms(kept_ms)}: give a shorter one, or "
                "a longer retention of events"
            )

    def _delete_trigger_row(
        self,
        type_: TriggerType | None,
        name: str | UUID,
        tenant: str | UUID | None,
        actor: str | None,
        if_match: Collection[str] | None,
    ) -> Op[bool]:
        def steps() -> Steps[bool]:
            found = yield from self._found_to_change(
                "trigger", partial(self._trigger_row, type_), name, tenant, if_match
            )
            op = self._store.ops.delete_trigger(found.id, tenant_id=found.tenant_id, actor=actor)
            return (yield from op.steps())

        return Op(steps, writes=True, atomic=True)

    def _fires(
        self,
        schedule: str | UUID | None,
        trigger: str | UUID | None,
        event_id: str | UUID | None,
        tenant: str | UUID | None,
        limit: int,
        before: str | UUID | None,
    ) -> Op[list[Fire]]:
        def steps() -> Steps[list[Fire]]:
            trigger_id = None
            if schedule is not None:
                trigger_id = (yield from self._trigger_row("schedule", schedule, tenant).steps()).id
            elif trigger is not None:
                type_: TriggerType | None = None if isinstance(trigger, UUID) else "event"
                trigger_id = (yield from self._trigger_row(type_, trigger, tenant).steps()).id
            op = self._store.ops.fires(
                tenant_id=self._tenant_to_read(tenant),
                trigger_id=trigger_id,
                event_id=None if event_id is None else given_id(event_id, "event_id"),
                limit=limit,
                before=None if before is None else given_id(before, "before"),
            )
            return (yield from op.steps())

        return Op(steps, writes=False)

    def _fire_now(
        self, trigger: Trigger, payload: Mapping[str, Any] | None, trace_id: str | None, actor: str | None
    ) -> Steps[tuple[Fire, str]]:
        """Fire a schedule by hand; returns the fire and its job's queue."""
        now = yield from self._store.ops.now().steps()
        trigger = overlaid(trigger, payload)
        resolved = ResolvedTrigger(trigger=trigger, template=(yield from self._template_of(trigger)))
        job = schedule_job(resolved, now, self._definitions, now=now, limit=self.payload_limit)
        traced = {} if trace_id is None else {"trace_id": trace_id}
        job = msgspec.structs.replace(job, created_by=actor and str(actor), scheduled_for=None, **traced)
        # without a nominal time: it must not replace a regular fire of this very moment
        fire = NewFire(id=new_id(), trigger_id=trigger.id, job=job)
        op = self._store.ops.run_trigger(fire, tenant_id=trigger.tenant_id, actor=actor)
        written = yield from op.steps()
        return written or missing_trigger(trigger.type, trigger.name, trigger.tenant), job.queue

    def _template_of(self, trigger: Trigger) -> Steps[Template | None]:
        if trigger.template_id is None:
            return None
        ids = [trigger.template_id]
        op = self._store.ops.templates(ids, tenant_id=trigger.tenant_id, name=None, limit=1, after=None)
        return next(iter((yield from op.steps())), None)

    def _template_id(self, name: str, tenant: str) -> Steps[str]:
        op = self._store.ops.templates(
            None, tenant_id=self._id_of(tenant), name=checked_name(name, "template"), limit=1, after=None
        )
        found = yield from op.steps()
        if not found:
            raise NotFound(f'there is no template "{name}": headway templates list shows what there is')
        return found[0].id


def named(given: str | Collection[str], what: str) -> list[str]:
    """One value or several; raises `InvalidJob` for none."""
    found = [given] if isinstance(given, str) else list(given)
    if not found:
        raise InvalidJob(f"{what} has no value: leave it out for any")
    return found


def overlaid(trigger: Trigger, payload: Mapping[str, Any] | None) -> Trigger:
    """The schedule with these fields over its payload."""
    if payload is None:
        return trigger
    if not isinstance(payload, Mapping):
        raise InvalidJob(f"the payload is a mapping of what goes over the schedule's, not {type(payload).__name__}")
    return msgspec.structs.replace(trigger, payload={**trigger.payload, **payload})


def refuse_declared(trigger: Trigger) -> None:
    """Raise `NotAllowed` for a schedule that follows the code."""
    if trigger.origin == "code":
        raise NotAllowed(
            f'schedule "{trigger.name}" is declared in the code and follows it: change it there; it can be paused, '
            "resumed and run by hand"
        )


def missing_trigger(type_: TriggerType, name: str, tenant: str) -> Any:
    word = "schedule" if type_ == "schedule" else "trigger"
    raise NotFound(f'tenant {tenant} has no {word} "{name}": headway {word}s list shows what there is')


def no_such_trigger(trigger_id: UUID) -> Any:
    raise NotFound(f"there is no schedule or trigger {trigger_id} (or it is another tenant's)")
