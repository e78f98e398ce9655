"""What starts jobs: definitions, templates, schedules and event triggers, their fires, and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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
        """Set what an operator wants of a kind, also of one that no code has written yet; the fields that were set no
        longer follow the code, until they are reset (to what the code said last). Audited (job_id None)."""
        ...

    def delete_definition(self, kind: str, *, actor: str | None) -> Op[bool]:
        """Forget a kind, with what an operator changed; a worker that has it writes it anew at its start. Audited."""
        ...

    def declare(self, declaration: Declaration) -> Op[tuple[str, ...]]:
        """Write what a worker's code declares, at its start. A definition: all but what an operator changed, and
        `active` stays. A schedule (origin code, found by tenant and name): all but `enabled`, and its `next_fire_at`
        only where it is new or its cron, every_ms, tz, start_at or end_at is another one than before; then `error`
        goes, revision + 1; where nothing differs only declared_at is written. A name that belongs to a stored schedule
        is left alone. Gives the ids of the schedules that are the code's: their rows', which may differ from those
        given."""
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
        """Change a template, revision + 1; jobs that were made of it stay as they are. None if there is no such one.
        Raises `Duplicate` where the new name is taken. Audited."""
        ...

    def delete_template(self, template_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """Delete a template. Raises `NotAllowed` while a trigger points at it, naming up to three. Audited."""
        ...

    def templates(
        self, ids: Sequence[str] | None, *, tenant_id: str | None, name: str | None, limit: int, after: str | None
    ) -> Op[list[Template]]:
        """Templates in order of id; `after` is the last id of the page before."""
        ...

    # schedules and event triggers; their names are unique in their tenant and type

    def create_trigger(self, trigger: NewTrigger, *, actor: str | None) -> Op[Trigger]:
        """Store a trigger. Raises `Duplicate` where the name is taken, `NotFound` for a template that is not the
        tenant's. A repeat with the same id is answered with what is stored. Audited."""
        ...

    def change_trigger(
        self, trigger_id: str, change: TriggerChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Trigger | None]:
        """Change a trigger, revision + 1: a firing that was planned before is void. Sets `error` back. None if there is
        no such trigger. Raises `Duplicate` and `NotFound` as `create_trigger`, and `NotAllowed` where it has another
        revision than the change was made for. Audited."""
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
        event: str | None,
        limit: int,
        after: str | None,
    ) -> Op[list[Trigger]]:
        """Triggers in order of id; `after` is the last id of the page before."""
        ...

    def fire(self, firings: Sequence[Firing]) -> Op[list[Fire]]:
        """Write that schedules fired: their fires, the jobs of these, and when they are due again; all or none.
        A firing whose row is locked by somebody, is not enabled, or has another revision or next_fire_at than it was
        planned by, is void; a nominal time that is there already is left as it is. With overlap skip, a fire whose
        trigger still has an unfinished job (of its last 20 fires that made one, or the job that retries one of those)
        is written as skipped, also where that job is of the same firing. A fire without a job is written as failed, and
        its error kept on the trigger; a fire that makes a job takes the error back, and moves last_fired_at and
        last_job_id; one whose enqueue met an existing job is written as deduped. Gives the fires that were written.
        Waits for nobody longer than a quarter of a second (`StoreBusy`). Raises what `enqueue` raises."""
        ...

    def run_trigger(self, fire: NewFire, *, tenant_id: str | None, actor: str | None) -> Op[Fire | None]:
        """Write a fire that somebody asked for by hand, with its job, whatever `enabled`, `overlap` and the schedule
        say; next_fire_at stays. None if there is no such trigger. Audited. Raises what `enqueue` raises."""
        ...

    def handle(self, handlings: Sequence[Handling]) -> Op[list[Fire]]:
        """Write what events came to: their fires with their jobs, and that they are handled; all or none. An event that
        is not pending any more is void. A fire whose trigger is gone, disabled or has fired for the event is not
        written; one whose dedupe_key the trigger enqueued a job by, less than its dedupe window ago (also in this
        call), is written as deduped (trigger rows are locked, in order of id, before this is looked at). An event with
        a fire that failed, in this call or before, is failed, with the errors, one a line, each after its trigger's
        name; one that is `left` stays pending. A fire without a job and without an error is written as skipped. Gives
        the fires that were written. An event with a trigger that somebody has locked is void. Waits for nobody longer
        than a quarter of a second (`StoreBusy`). Raises what `enqueue` raises."""
        ...

    def prune_fires(self, *, events_ms: int, failed_ms: int, fires_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` of each: events that were handled, or failed, longer ago, with their fires, and fires of
        schedules that are older. Gives how many rows of events and of schedules' fires."""
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
        """What is to be fired now: enabled schedules whose next_fire_at has come, those of origin code only if they are
        among `declared`; and events that are pending, with the enabled triggers of their tenant on their name that were
        created before they were emitted and have no fire for them. `kinds` are those that the caller knows: a schedule
        whose kind (or template's kind) is not among them and whose definition is `computed` is left to others; such a
        trigger of an event is given as `computed`, and an event that has no other is left to others for ten minutes.
        Up to `limit` of each. An event whose payload cannot be read is given with the fault. Writes nothing; finding
        nothing is a few probes."""
        ...

    def emit(self, events: Sequence[NewEvent]) -> Op[list[str]]:
        """Store events, all or none; gives the ids. One whose id is there already is left as it is. Takes no lock
        that others wait for, so it may be part of a caller's long transaction. Raises `InvalidJob` for a name that
        begins with `headway.`: these are the engine's own."""
        ...

    def retry_events(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        """Let failed events be handled again, by the triggers whose fire failed: those fires are deleted. Gives the ids
        of those that were failed. Audited."""
        ...

    def events(
        self,
        ids: Sequence[str] | None,
        *,
        tenant_id: str | None,
        name: str | None,
        status: EventStatus | None,
        limit: int,
        before: str | None,
    ) -> Op[list[Event]]:
        """The newest events that match, newest first (by id); `before` is the last id of the page before."""
        ...
