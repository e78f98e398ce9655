"""The verbs of event triggers, which enqueue jobs or send signals when events arrive."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Literal, Unpack, get_args
from uuid import UUID

import msgspec

from headway import secrets
from headway.app.events import payload_of
from headway.app.trigger_rows import TriggerRows, named, overlaid
from headway.define.option_types import TriggerChanges, TriggerOptions
from headway.define.trigger_jobs import event_job, event_signal, matches, schedule_job
from headway.define.triggers import new_trigger, unsaved
from headway.errors import HeadwayError, InvalidJob
from headway.model.codec import decode
from headway.model.event import Event, covers
from headway.model.ids import new_id
from headway.model.signal import NewSignal
from headway.model.trigger import NewTrigger, ResolvedTrigger, Trigger, TriggerType
from headway.store.ops import Op, Steps


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger would do with an event; nothing is stored."""

    met: bool  # whether the event has its name and meets its `when`
    kind: str | None = None
    queue: str | None = None
    payload: Any = None
    signal: str | None = None  # what it would send, instead of making a job
    to: str | None = None  # to whom: "kind:unique key", or a job's id
    dedupe_key: str | None = None
    error: str | None = None


class TriggerVerbs(TriggerRows):
    """Name a trigger by its name, in this app's tenant or the given one; or by its id, a `UUID`."""

    def create_trigger(self, name: str, event: str, **options: Unpack[TriggerOptions]) -> Trigger:
        """Store a trigger: which event it waits for, and what it enqueues, a kind or a template.

        Or which signal it sends, and to which machine: `signal="payment", to="checkout:{{event.order}}"`, a kind and a
        unique key; without a kind, the id of a job. The signal's data are the event's, or the `payload`.

        `payload` may have placeholders: `{"folder": "{{event.folder.id}}"}`. `when` selects events:
        `{"event.kind": ["checkout"]}`. Within `dedupe_window`, events with the same `dedupe_key` enqueue one job;
        without a key, events with the same rendered payload do, unless the payload uses nothing of the event. Raises
        `Duplicate`, `InvalidJob`, `NotFound` (the template).
        """
        conn = options.pop("conn", None)
        return self._read(self._create_trigger(name, event, options), conn)

    def get_trigger(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Trigger:
        """One trigger as it is now; by its id, a schedule too. Raises `NotFound`."""
        return self._read(self._trigger_row(None if isinstance(name, UUID) else "event", name, tenant))

    def triggers(
        self,
        *,
        event: str | Collection[str] | None = None,
        type: TriggerType | Literal["any"] | Collection[TriggerType] = "event",  # noqa: A002
        tenant: str | UUID | None = None,
        limit: int = 100,
        after: str | UUID | None = None,
    ) -> list[Trigger]:
        """The event triggers, oldest first, on this event or one of these; `type="any"`, or both types, gives the
        schedules too. Raises `InvalidJob`."""
        return self._read(self._trigger_rows(_only_type(type), tenant, event, limit, after))

    def change_trigger(self, name: str | UUID, **changes: Unpack[TriggerChanges]) -> Trigger:
        """Change what `create_trigger` takes (`new_name=` for the name)."""
        conn = changes.pop("conn", None)
        return self._read(self._change_trigger_row("event", name, changes), conn)

    def enable_trigger(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Let it fire again, including for events that are still pending."""
        return self.change_trigger(name, tenant=tenant, actor=actor, conn=conn, enabled=True)

    def disable_trigger(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Stop firing it, including for pending events. Events handled meanwhile are not made up for."""
        return self.change_trigger(name, tenant=tenant, actor=actor, conn=conn, enabled=False)

    def delete_trigger(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a trigger; its jobs stay."""
        self._run(self._delete_trigger_row("event", name, tenant, actor, if_match), conn)

    def test_trigger(
        self, name: str | UUID, payload: Any = None, *, event: str | None = None, tenant: str | UUID | None = None
    ) -> Rehearsal:
        """A dry run: what the trigger would enqueue for an event with this payload, or the error."""
        self.learn(None)
        return self._run(self._rehearse(name, payload, event, tenant))

    def preview_trigger(
        self, name: str, event: str, sample: Any = None, **options: Unpack[TriggerOptions]
    ) -> Rehearsal:
        """A dry run before it is stored: what a trigger with these options would do with an event whose payload is
        `sample`, or the error. Raises `InvalidJob`, `NotFound` (the template)."""
        conn = options.pop("conn", None)
        self.learn(conn)
        return self._run(self._preview_trigger(name, event, sample, options), conn)

    def test_schedule(
        self, name: str | UUID, payload: Mapping[str, Any] | None = None, *, tenant: str | UUID | None = None
    ) -> Rehearsal:
        """A dry run: what the schedule would enqueue now, with these fields over its payload, or the error."""
        self.learn(None)
        return self._run(self._rehearse_schedule(name, payload, tenant))

    # as ops

    def _create_trigger(self, name: str, event: str, options: TriggerOptions) -> Op[Trigger]:
        given: dict[str, Any] = {**options, "name": name, "event": event}
        tenant, actor, template = (given.pop(each, None) for each in ("tenant", "actor", "template"))
        owner = self._named_tenant(tenant)
        owner_id = self._id_for(owner)

        def steps() -> Steps[Trigger]:
            row = yield from self._new_trigger(given, owner, owner_id, actor, template)
            return (yield from self._store.ops.create_trigger(row, actor=actor).steps())

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)

    def _new_trigger(
        self, given: dict[str, Any], owner: str, owner_id: str, actor: str | None, template: str | None
    ) -> Steps[NewTrigger]:
        self._check_window(given)
        if template is not None:
            given["template_id"] = yield from self._template_id(template, owner)
        return new_trigger(
            given, tenant=owner, tenant_id=owner_id, limit=self.payload_limit, created_by=actor and str(actor)
        )

    def _rehearse(self, name: str | UUID, payload: Any, event: str | None, tenant: str | UUID | None) -> Op[Rehearsal]:
        text = payload_of(payload, self.payload_limit)

        def steps() -> Steps[Rehearsal]:
            trigger = yield from self._trigger_row("event", name, tenant).steps()
            now = yield from self._store.ops.now().steps()
            return (yield from self._rehearsal(trigger, event, text, now))

        return Op(steps, writes=False, computes=True)

    def _preview_trigger(self, name: str, event: str, sample: Any, options: TriggerOptions) -> Op[Rehearsal]:
        given: dict[str, Any] = {**options, "name": name, "event": event}
        tenant, actor, template = (given.pop(each, None) for each in ("tenant", "actor", "template"))
        owner = self._named_tenant(tenant)
        text = payload_of(sample, self.payload_limit)

        def steps() -> Steps[Rehearsal]:
            row = yield from self._new_trigger(given, owner, self._id_of(owner), actor, template)
            now = yield from self._store.ops.now().steps()
            return (yield from self._rehearsal(unsaved(row, now), None, text, now))

        return Op(steps, writes=False, computes=True)

    def _rehearsal(self, trigger: Trigger, event: str | None, text: str, now: datetime) -> Steps[Rehearsal]:
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
            trace_id=None,
            created_by=None,
            job_id=None,
            error=None,
        )
        if not covers(trigger.event or "", sample.name) or not matches(trigger, sample):
            return Rehearsal(met=False)
        try:
            if trigger.signal is not None:
                return _rehearsed(event_signal(trigger, sample, limit=self.payload_limit))
            job, dedupe_key = event_job(
                ResolvedTrigger(trigger=trigger, template=template),
                sample,
                self._definitions,
                now=now,
                limit=self.payload_limit,
            )
        except HeadwayError as error:
            reason = secrets.redact(str(error), secrets.own())
            kind = trigger.kind or (template.kind if template is not None else None)
            return Rehearsal(met=True, kind=kind, signal=trigger.signal, to=trigger.signal_to, error=reason)
        shown = secrets.mask(decode(job.payload), self._definitions.schema_of(job.kind))
        return Rehearsal(met=True, kind=job.kind, queue=job.queue, payload=shown, dedupe_key=dedupe_key)

    def _rehearse_schedule(
        self, name: str | UUID, payload: Mapping[str, Any] | None, tenant: str | UUID | None
    ) -> Op[Rehearsal]:
        def steps() -> Steps[Rehearsal]:
            trigger = overlaid((yield from self._trigger_row("schedule", name, tenant).steps()), payload)
            now = yield from self._store.ops.now().steps()
            resolved = ResolvedTrigger(trigger=trigger, template=(yield from self._template_of(trigger)))
            try:
                job = schedule_job(resolved, now, self._definitions, now=now, limit=self.payload_limit)
            except HeadwayError as error:
                reason = secrets.redact(str(error), secrets.own())
                return Rehearsal(met=True, kind=trigger.kind or trigger.template_kind, error=reason)
            shown = secrets.mask(decode(job.payload), self._definitions.schema_of(job.kind))
            return Rehearsal(met=True, kind=job.kind, queue=job.queue, payload=shown)

        return Op(steps, writes=False, computes=True)


def _only_type(given: TriggerType | Literal["any"] | Collection[TriggerType]) -> TriggerType | None:
    """The type that is meant, None for both; raises `InvalidJob`."""
    if given == "any":
        return None
    types: list[Any] = sorted(set(named(given, "type")))
    for each in types:
        if each not in get_args(TriggerType):
            raise InvalidJob(f"type={each!r} does not exist: use event, schedule or any")
    return None if len(types) > 1 else types[0]


def _rehearsed(signal: NewSignal) -> Rehearsal:
    to = signal.job_id or f"{signal.kind}:{signal.unique_key}"
    shown = secrets.mask(decode(signal.payload), None)
    return Rehearsal(met=True, payload=shown, signal=signal.name, to=to, dedupe_key=signal.dedup_key)
