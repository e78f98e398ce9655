"""What starts jobs: definitions, templates, schedules and event triggers, their fires, and events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headway.model.connector import Connector, ConnectorChange, NewConnector
from headway.model.definition import Definition, DefinitionChange
from headway.model.event import Event, EventStatus, NewEvent
from headway.model.template import NewTemplate, Template, TemplateChange
from headway.model.trigger import (
    Declaration,
    Due,
    Fire,
    Firing,
    Handling,
    NewFire,
    NewTrigger,
    Trigger,
    TriggerChange,
    TriggerType,
)
from headway.store.ops.recipe import Op


class Triggers(Protocol):
    def change_definition(self, kind: str, change: DefinitionChange, *, actor: str | None) -> Op[Definition]:
        """Set what an operator wants of a kind, even before any code has declared it. Fields that were set no longer
        follow the code, until they are reset to what the code said last. Audited (job_id None)."""
        ...

    def delete_definition(self, kind: str, *, actor: str | None) -> Op[bool]:
        """Delete the definition of a kind, with what an operator changed; a worker that has the kind declares it again
        when it starts. Audited."""
        ...

    def declare(self, declaration: Declaration) -> Op[tuple[str, ...]]:
        """Write what a worker's code declares, when it starts. Of a definition: everything but `active` and what an
        operator changed. Of a schedule (origin code, found by tenant and name): everything but `enabled`, and
        `next_fire_at` only if it is new or its cron, every_ms, tz, start_at or end_at changed; then `error` is cleared
        and the revision goes up. Where nothing differs, only declared_at is written. With `run_on_start` it is due at
        once if it is new, or if no live worker that knows its kind was there before: none that registered before its
        last declaration, or more than a minute ago. One that is overdue, disabled, over or not begun stays as it is. A
        name that belongs to a stored schedule is left alone. Gives the ids of the code's schedules as they are stored,
        which may differ from those given."""
        ...

    def definitions(self, kinds: Sequence[str] | None) -> Op[list[Definition]]:
        """The definitions of these kinds, or all, in order of kind."""
        ...

    # names of templates are unique in their tenant

    def create_template(self, template: NewTemplate, *, actor: str | None) -> Op[Template]:
        """Store a template. Raises `Duplicate` where the name is taken. A repeat with the same id is answered with what
        is stored. Audited."""
        ...

    def change_template(
        self, template_id: str, change: TemplateChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Template | None]:
        """Change a template, revision + 1; jobs that were made from it stay as they are. None if there is no such
        template. Raises `Duplicate` where the new name is taken. Audited."""
        ...

    def delete_template(self, template_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """Delete a template. Raises `NotAllowed` while a trigger points at it, naming up to three. Audited."""
        ...

    def templates(
        self, ids: Sequence[str] | None, *, tenant_id: str | None, name: str | None, limit: int, after: str | None
    ) -> Op[list[Template]]:
        """Templates in order of id; `after` is the last id of the previous page."""
        ...

    # names of connectors' configurations are unique in their tenant

    def create_connector(self, connector: NewConnector, *, actor: str | None) -> Op[Connector]:
        """Store a connector's configuration. Raises `Duplicate` where the name is taken. A repeat with the same id is
        answered with what is stored. Audited."""
        ...

    def change_connector(
        self, connector_id: str, change: ConnectorChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Connector | None]:
        """Change a configuration, revision + 1; requests that are under way go on with what they read. None if there is
        no such one. Raises `Duplicate` where the new name is taken, and `NotAllowed` where its revision is not the one
        that the change was made for. Audited."""
        ...

    def delete_connector(self, connector_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """Delete a configuration; jobs that name it fail. Audited."""
        ...

    def connectors(
        self,
        ids: Sequence[str] | None,
        *,
        tenant_id: str | None,
        name: str | None,
        kind: str | None,
        limit: int,
        after: str | None,
    ) -> Op[list[Connector]]:
        """Configurations in order of id; `after` is the last id of the previous page."""
        ...

    # schedules and event triggers; their names are unique in their tenant and type

    def create_trigger(self, trigger: NewTrigger, *, actor: str | None) -> Op[Trigger]:
        """Store a trigger. Raises `Duplicate` where the name is taken, and `NotFound` for a template that is not the
        tenant's. A repeat with the same id is answered with what is stored. Audited."""
        ...

    def change_trigger(
        self, trigger_id: str, change: TriggerChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Trigger | None]:
        """Change a trigger, revision + 1, which makes void any firing planned before; clears its `error`. None if there
        is no such trigger. Raises `Duplicate` and `NotFound` as `create_trigger` does, and `NotAllowed` where its
        revision is not the one that the change was made for. Audited."""
        ...

    def delete_trigger(self, trigger_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """Delete a trigger; its jobs and fires stay. Audited."""
        ...

    def triggers(
        self,
        *,
        tenant_id: str | None,
        type: TriggerType | None,  # noqa: A002
        name: str | None,
        events: Sequence[str] | None,
        limit: int,
        after: str | None,
        only: str | None = None,
    ) -> Op[list[Trigger]]:
        """Triggers in order of id, of one of these events; `after` is the last id of the page before, `only` the id of
        one."""
        ...

    def fire(self, firings: Sequence[Firing]) -> Op[list[Fire]]:
        """Write that schedules fired: their fires, the jobs of these, and when they are due again; all or none. A
        firing is void if somebody has locked its schedule, or if that is not enabled or has another revision or
        next_fire_at than the firing was planned with; a nominal time that has fired already is left as it is. With
        overlap skip, a fire is written as skipped while its trigger has an unfinished job (among those of its last 20
        fires that made one, and the jobs that retry these), even one of the same firing. A fire without a job is
        written as failed, with its error on the trigger; a fire that makes a job clears that error and sets
        last_fired_at and last_job_id; one whose enqueue met an existing job is written as deduped. Gives the fires that
        were written. Waits at most a quarter of a second for a lock (`StoreBusy`). Raises what `enqueue` raises."""
        ...

    def run_trigger(self, fire: NewFire, *, tenant_id: str | None, actor: str | None) -> Op[Fire | None]:
        """Write a fire that somebody asked for, with its job, whatever `enabled`, `overlap` and the schedule say;
        next_fire_at stays. None if there is no such trigger. Audited. Raises what `enqueue` raises."""
        ...

    def backfill(
        self, trigger_id: str, fires: Sequence[NewFire], *, tenant_id: str | None, actor: str | None
    ) -> Op[list[Fire] | None]:
        """Write that a schedule fired for times of its past, with their jobs, all or none, whatever `enabled` and
        `overlap` say; next_fire_at, last_fired_at and last_job_id stay. A nominal time that is there already is left as
        it is. Gives the fires that were written; None if there is no such schedule. Audited. Raises what `enqueue`
        raises, and `InvalidJob` for a time that has not come."""
        ...

    def fired_times(self, trigger_id: str, times: Sequence[datetime]) -> Op[list[datetime]]:
        """Which of these nominal times the schedule has a fire for, in order."""
        ...

    def handle(self, handlings: Sequence[Handling]) -> Op[list[Fire]]:
        """Write what events led to: their fires with their jobs, and that they are handled; all or none. An event that
        is not pending any more is void, and so is one that somebody has locked, or one of its triggers. A fire is not
        written if its trigger is gone, disabled or has fired for the event; it is written as deduped if the trigger
        enqueued a job with its dedupe_key less than its dedupe window ago (even in this call), which is checked after
        the triggers are locked, in order of id. A fire without a job and without an error is written as skipped. An
        event with a failed fire, of this call or before, is failed, with one line for each error, after its trigger's
        name; one that is `left` stays pending. Gives the fires that were written. Waits at most a quarter of a second
        for a lock (`StoreBusy`). Raises what `enqueue` raises."""
        ...

    def prune_fires(self, *, events_ms: int, failed_ms: int, fires_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` each of events handled longer ago, events that failed longer ago, both with their fires,
        and older fires of schedules. Gives how many events and schedules' fires."""
        ...

    def fires(
        self,
        *,
        tenant_id: str | None,
        trigger_id: str | None,
        event_id: str | None,
        limit: int,
        before: str | None,
    ) -> Op[list[Fire]]:
        """The newest fires, newest first (by id); `before` is the last id of the page before."""
        ...

    def due(self, *, kinds: Sequence[str], declared: Sequence[str], limit: int) -> Op[Due]:
        """What to fire now: enabled schedules whose next_fire_at has come (of origin code only those in `declared`),
        and pending events with the enabled triggers of their tenant and name that were created before the event and
        have not fired for it. `kinds` are those that the caller knows. A schedule whose kind (or template's kind) is
        not among them, and whose definition is `computed`, is left to other callers; such a trigger of an event is
        given as `computed`, and an event that has no other is left to others for ten minutes. Up to `limit` of each,
        and of events up to `DUE_BYTES` together, beyond which there are `more`. An event whose payload cannot be read
        is given with its fault. Writes nothing; a few probes where nothing is due.
        """
        ...

    def emit(self, events: Sequence[NewEvent]) -> Op[list[str]]:
        """Store events, all or none; gives the ids. An event whose id exists is left as it is. Locks nothing that
        others wait for, so it may be part of a caller's long transaction. Raises `InvalidJob` for a name that begins
        with `headway.`, which only the engine's own events have."""
        ...

    def retry_events(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        """Make failed events pending again, for the triggers whose fire failed: those fires are deleted. Gives the ids
        of those that had failed. Audited."""
        ...

    def events(
        self,
        ids: Sequence[str] | None,
        *,
        tenant_id: str | None,
        names: Sequence[str] | None,
        statuses: Sequence[EventStatus] | None,
        limit: int,
        before: str | None,
        raw: bool = False,
    ) -> Op[list[Event]]:
        """The newest events of these names and statuses (None: of any), newest first (by id); `before` is the last id
        of the previous page."""
        ...
