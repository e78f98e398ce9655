"""The verbs for events and for the triggers that make jobs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from headway import secrets
from headway.app.base import then
from headway.app.tenants import found
from headway.app.trigger_rows import TriggerRows
from headway.define.trigger_jobs import event_job, meets
from headway.define.triggers import event_name, new_trigger
from headway.errors import HeadwayError, InvalidJob, NotAllowed, NotFound
from headway.model.codec import check_batch, check_text, decode, encode
from headway.model.duration import Duration
from headway.model.event import Event, EventStatus, NewEvent
from headway.model.ids import as_id, given_id, new_id
from headway.model.trigger import ResolvedTrigger, Trigger
from headway.store.ops import Op, Steps

_OWN = "headway."


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger would make of an event: nothing is stored."""

    met: bool  # whether the event is its own, and fulfils its `when`
    kind: str | None = None
    queue: str | None = None
    payload: Any = None
    dedupe_key: str | None = None
    error: str | None = None


class EventVerbs(TriggerRows):
    """An event is stored when it is emitted, and handled by any worker."""

    def emit(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str | UUID | None = None,
        correlation_id: str | None = None,
        created_by: str | None = None,
        conn: Any = None,
    ) -> str:
        """Publish a fact: it is stored, and each trigger on it makes a job; gives the event's id.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits. Raises
        `InvalidJob`, `InvalidPayload`.
        """
        event = self.build_event(name, payload, tenant=tenant, correlation_id=correlation_id, created_by=created_by)
        return self.emit_many([event], conn=conn)[0]

    async def aemit(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str | UUID | None = None,
        correlation_id: str | None = None,
        created_by: str | None = None,
        conn: Any = None,
    ) -> str:
        event = self.build_event(name, payload, tenant=tenant, correlation_id=correlation_id, created_by=created_by)
        return (await self.aemit_many([event], conn=conn))[0]

    def emit_many(self, events: Iterable[NewEvent], *, conn: Any = None) -> list[str]:
        """Publish what `app.build_event(…)` made: one transaction, all or none; gives the ids."""
        batch = [self._my_event(event) for event in events]
        if refs := {event.tenant for event in batch if not event.tenant_id and event.tenant is not None}:
            batch = _identified(batch, self._look_up(refs, create=True, conn=conn))
        op = self._emitting(batch)
        ids = self._run(op) if conn is None else self._store.run_in(conn, op)
        if conn is None:
            self._emitted.poke(None)
        return ids

    async def aemit_many(self, events: Iterable[NewEvent], *, conn: Any = None) -> list[str]:
        batch = [self._my_event(event) for event in events]
        if refs := {event.tenant for event in batch if not event.tenant_id and event.tenant is not None}:
            batch = _identified(batch, await self._alook_up(refs, create=True, conn=conn))
        op = self._emitting(batch)
        ids = await (self._arun(op) if conn is None else self._store.arun_in(conn, op))
        if conn is None:
            self._emitted.poke(None)
        return ids

    def _emitting(self, events: list[NewEvent]) -> Op[list[str]]:
        check_batch((event.payload for event in events), "events")
        return self._store.ops.emit(events)

    def build_event(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str | UUID | None = None,
        correlation_id: str | None = None,
        created_by: str | None = None,
    ) -> NewEvent:
        """What `emit` would store, for `emit_many`."""
        if event_name(name, "name").startswith(_OWN):
            raise InvalidJob(f"events named {_OWN}… are the engine's own: choose another name than {name}")
        owner = self._whose(tenant)
        return NewEvent(
            id=new_id(),
            tenant=owner,
            tenant_id=self._tenants.get(owner),  # if it is known; emit_many looks it up
            name=name,
            payload=_payload(payload, self.payload_limit),
            correlation_id=None if correlation_id is None else check_text(correlation_id, "correlation_id"),
            created_by=None if created_by is None else check_text(created_by, "created_by"),
        )

    def events(
        self,
        *,
        name: str | None = None,
        status: EventStatus | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: str | UUID | None = None,
    ) -> list[Event]:
        """The newest events that match, newest first; `status` is pending, handled or failed."""
        return self._read(self._events(name, status, tenant, limit, before))

    async def aevents(
        self,
        *,
        name: str | None = None,
        status: EventStatus | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: str | UUID | None = None,
    ) -> list[Event]:
        return await self._aread(self._events(name, status, tenant, limit, before))

    def get_event(self, event_id: str | UUID) -> Event:
        """One event, with the error of a trigger that could not fire; raises `NotFound`."""
        return self._read(self._event(event_id))

    async def aget_event(self, event_id: str | UUID) -> Event:
        return await self._aread(self._event(event_id))

    def retry_event(self, event_id: str | UUID, *, actor: str | None = None) -> None:
        """Handle a failed event again, by the triggers that failed; raises `NotFound`, `NotAllowed` (not failed)."""
        self._run(self._retry_event(event_id, actor))
        self._emitted.poke(None)

    async def aretry_event(self, event_id: str | UUID, *, actor: str | None = None) -> None:
        await self._arun(self._retry_event(event_id, actor))
        self._emitted.poke(None)

    def retry_events(self, ids: Sequence[str | UUID], *, actor: str | None = None) -> list[str]:
        """Handle those of these events again that failed; gives their ids."""
        done = self._run(self._store.ops.retry_events([as_id(each) for each in ids], tenant_id=self._seen, actor=actor))
        self._emitted.poke(None)
        return done

    async def aretry_events(self, ids: Sequence[str | UUID], *, actor: str | None = None) -> list[str]:
        op = self._store.ops.retry_events([as_id(each) for each in ids], tenant_id=self._seen, actor=actor)
        done = await self._arun(op)
        self._emitted.poke(None)
        return done

    # triggers

    def create_trigger(
        self,
        name: str,
        event: str,
        *,
        kind: str | None = None,
        template: str | None = None,
        payload: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        when: Mapping[str, Any] | None = None,
        dedupe_window: Duration = "5m",
        dedupe_key: str | None = None,
        enabled: bool = True,
        description: str = "",
        tenant: str | UUID | None = None,
        actor: str | None = None,
    ) -> Trigger:
        """Store a trigger: which event it waits for, and what it enqueues, a kind or a template.

        `payload` is a template: `{"folder": "{{event.folder.id}}"}`. `when` says which events it means:
        `{"event.kind": ["checkout"]}`. The same payload is enqueued once in `dedupe_window`: the same `dedupe_key`
        where there is one, and the same event where nothing of it is in the payload. Raises `Duplicate`, `InvalidJob`,
        `NotFound` (the template).
        """
        given = _given(locals())
        return self._read(self._create_trigger(given, template, tenant, actor))

    async def acreate_trigger(
        self,
        name: str,
        event: str,
        *,
        kind: str | None = None,
        template: str | None = None,
        payload: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        when: Mapping[str, Any] | None = None,
        dedupe_window: Duration = "5m",
        dedupe_key: str | None = None,
        enabled: bool = True,
        description: str = "",
        tenant: str | UUID | None = None,
        actor: str | None = None,
    ) -> Trigger:
        given = _given(locals())
        return await self._aread(self._create_trigger(given, template, tenant, actor))

    def get_trigger(self, name: str, *, tenant: str | UUID | None = None) -> Trigger:
        """One trigger as it is now; raises `NotFound`."""
        return self._read(self._rule("event", name, tenant))

    async def aget_trigger(self, name: str, *, tenant: str | UUID | None = None) -> Trigger:
        return await self._aread(self._rule("event", name, tenant))

    def triggers(
        self,
        *,
        event: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 100,
        after: str | UUID | None = None,
    ) -> list[Trigger]:
        """The event triggers, oldest first."""
        return self._read(self._rules("event", tenant, event, limit, after))

    async def atriggers(
        self,
        *,
        event: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 100,
        after: str | UUID | None = None,
    ) -> list[Trigger]:
        return await self._aread(self._rules("event", tenant, event, limit, after))

    def change_trigger(
        self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None, **changes: Any
    ) -> Trigger:
        """Change what `create_trigger` takes (`new_name=` for the name)."""
        return self._read(self._change_rule("event", name, tenant, actor, changes))

    async def achange_trigger(
        self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None, **changes: Any
    ) -> Trigger:
        return await self._aread(self._change_rule("event", name, tenant, actor, changes))

    def enable_trigger(self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None) -> Trigger:
        """Let it fire, also for events that were emitted before and are pending still."""
        return self.change_trigger(name, tenant=tenant, actor=actor, enabled=True)

    async def aenable_trigger(
        self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None
    ) -> Trigger:
        return await self.achange_trigger(name, tenant=tenant, actor=actor, enabled=True)

    def disable_trigger(self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None) -> Trigger:
        """Let it fire no more, also for events that are pending; what is handled meanwhile is not made up for."""
        return self.change_trigger(name, tenant=tenant, actor=actor, enabled=False)

    async def adisable_trigger(
        self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None
    ) -> Trigger:
        return await self.achange_trigger(name, tenant=tenant, actor=actor, enabled=False)

    def delete_trigger(self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None) -> None:
        """Delete a trigger; its jobs stay."""
        self._run(self._delete_rule("event", name, tenant, actor))

    async def adelete_trigger(self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None) -> None:
        await self._arun(self._delete_rule("event", name, tenant, actor))

    def test_trigger(
        self, name: str, payload: Any = None, *, event: str | None = None, tenant: str | UUID | None = None
    ) -> Rehearsal:
        """What the trigger would make of an event with this payload: the rendered payload, or the error. A dry run."""
        self.learn(None)
        return self._run(self._rehearse(name, payload, event, tenant))

    async def atest_trigger(
        self, name: str, payload: Any = None, *, event: str | None = None, tenant: str | UUID | None = None
    ) -> Rehearsal:
        await self.alearn(None)
        return await self._arun(self._rehearse(name, payload, event, tenant))

    # how

    def _my_event(self, event: NewEvent) -> NewEvent:
        if not isinstance(event, NewEvent):
            raise InvalidJob(f"emit_many takes what build_event(…) gives, not {type(event).__name__}")
        if self._is_narrow and event.tenant != self._own and event.tenant != self._seen:
            raise NotAllowed(f"this app acts for tenant {self._own} only, not for {event.tenant}")
        return event

    def _events(
        self,
        name: str | None,
        status: EventStatus | None,
        tenant: str | UUID | None,
        limit: int,
        before: str | UUID | None,
    ) -> Op[list[Event]]:
        if status not in (None, "pending", "handled", "failed"):
            raise InvalidJob(f"status={status!r} does not exist: use pending, handled or failed")
        return self._store.ops.events(
            None,
            tenant_id=self._narrowed(tenant),
            name=name,
            status=status,
            limit=limit,
            before=None if before is None else given_id(before, "before"),
        )

    def _event(self, event_id: str | UUID) -> Op[Event]:
        key = as_id(event_id)
        op = self._store.ops.events([key], tenant_id=self._seen, name=None, status=None, limit=1, before=None)
        return then(op, lambda found: found[0] if found else _missing(key))

    def _retry_event(self, event_id: str | UUID, actor: str | None) -> Op[None]:
        key = as_id(event_id)

        def steps() -> Steps[None]:
            event = yield from self._event(key).steps()
            done = yield from self._store.ops.retry_events([key], tenant_id=self._seen, actor=actor).steps()
            if not done:
                raise NotAllowed(f"event {key} is {event.status}: only a failed event can be retried")

        return Op(steps, writes=True)

    def _create_trigger(
        self, given: Mapping[str, Any], template: str | None, tenant: str | UUID | None, actor: str | None
    ) -> Op[Trigger]:
        owner = self._whose(tenant)
        owner_id = self._id_for(owner)

        def steps() -> Steps[Trigger]:
            fields = dict(given)
            self._check_window(fields)
            if template is not None:
                fields["template_id"] = yield from self._template_id(template, owner)
            row = new_trigger(fields, tenant=owner, tenant_id=owner_id, limit=self.payload_limit, created_by=actor)
            return (yield from self._store.ops.create_trigger(row, actor=actor).steps())

        return Op(steps, writes=True, refusable=True)

    def _rehearse(self, name: str, payload: Any, event: str | None, tenant: str | UUID | None) -> Op[Rehearsal]:
        text = _payload(payload, self.payload_limit)

        def steps() -> Steps[Rehearsal]:
            trigger = yield from self._rule("event", name, tenant).steps()
            now = yield from self._store.ops.now().steps()
            template = yield from self._template_of(trigger)
            sample = Event(
                id=new_id(),
                tenant_id=trigger.tenant_id,
                tenant=trigger.tenant,
                name=event or trigger.event or "",
                payload=decode(text),
                status="pending",
                emitted_at=now,
                handled_at=None,
                correlation_id=None,
                created_by=None,
                job_id=None,
                error=None,
            )
            if sample.name != trigger.event or not meets(trigger, sample):
                return Rehearsal(met=False)
            try:
                job, dedupe_key = event_job(
                    ResolvedTrigger(trigger=trigger, template=template),
                    sample,
                    self._definitions,
                    now=now,
                    limit=self.payload_limit,
                )
            except HeadwayError as error:
                reason = secrets.redact(str(error), secrets.own())
                return Rehearsal(met=True, kind=trigger.kind or trigger.template_kind, error=reason)
            shown = secrets.mask(decode(job.payload), self._definitions.schema_of(job.kind))
            return Rehearsal(met=True, kind=job.kind, queue=job.queue, payload=shown, dedupe_key=dedupe_key)

        return Op(steps, writes=False)


def _payload(payload: Any, limit: int) -> str:
    text = encode(payload, limit=limit, what="event")
    secrets.check_none(text, "event")
    return text


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("self", "template", "tenant", "actor")}


def _identified(events: list[NewEvent], ids: Mapping[str, str]) -> list[NewEvent]:
    return [
        event if event.tenant_id else msgspec.structs.replace(event, tenant_id=found(str(event.tenant), ids))
        for event in events
    ]


def _missing(event_id: str) -> Any:
    raise NotFound(f"there is no event {event_id} (or it is another tenant's, or it was pruned)")
