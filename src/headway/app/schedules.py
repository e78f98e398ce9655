"""The verbs of schedules, which enqueue jobs by the clock: created at run time, or declared in the code."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Unpack
from uuid import UUID

import msgspec

from headway.app.trigger_rows import TriggerRows, missing_trigger, refuse_declared
from headway.clock import from_micros
from headway.define.checks import moment
from headway.define.checks import name as checked_name
from headway.define.option_types import ScheduleChanges, ScheduleOptions
from headway.define.triggers import ensured_schedule, new_schedule
from headway.errors import Duplicate, InvalidJob, NotAllowed
from headway.model.codec import check_text
from headway.model.cron import zone
from headway.model.duration import Duration
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.request import Request
from headway.model.schedule import upcoming
from headway.model.trigger import Fire, NewTrigger, Trigger
from headway.store.ops import Op, Steps

_MOST_TIMES = 10_000
_ENSURE_TRIES = 5
"""Another process may change the schedule between the look and the change, but hardly this often in a row."""


class ScheduleVerbs(TriggerRows):
    """Name a schedule by its name, in this app's tenant or the given one; or by its id, a `UUID`."""

    def create_schedule(self, name: str, cron: str | None = None, **options: Unpack[ScheduleOptions]) -> Trigger:
        """Store a schedule: cron (`"0 2 * * *"`, `@daily`) or `every`, and what to enqueue, a kind or a template.

        `payload` may have placeholders such as `{{schedule.nominal_at}}`; it overrides the template's. `tz` is
        the tenant's by default, else the app's. Raises `Duplicate`, `InvalidJob`, `NotFound` (the template).
        """
        conn = options.pop("conn", None)
        return self._read(self._create_schedule(name, cron, options), conn)

    def ensure_schedule(self, name: str, cron: str | None = None, **options: Unpack[ScheduleOptions]) -> Trigger:
        """Create the schedule, or change the one of this name to be so; options that are not given have their default.

        If nothing differs, nothing is written: call it at every start, in any number of processes. `enabled` stays as
        it is unless given, so that a pause survives. Raises `InvalidJob`, `NotFound` (the template) and `NotAllowed`
        (it is declared in the code).
        """
        conn = options.pop("conn", None)
        for _ in range(_ENSURE_TRIES - 1):
            try:
                return self._read(self._ensure_schedule(name, cron, options), conn)
            except (Duplicate, NotAllowed):
                continue  # another process created or changed it in between
        return self._read(self._ensure_schedule(name, cron, options), conn)

    def get_schedule(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Trigger:
        """One schedule as it is now, with `next_fire_at`, `last_fired_at` and `error`; raises `NotFound`."""
        return self._read(self._trigger_row("schedule", name, tenant))

    def schedules(
        self, *, tenant: str | UUID | None = None, limit: int = 100, after: str | UUID | None = None
    ) -> list[Trigger]:
        """The schedules, oldest first; `origin` is "code" for those that the code declares."""
        return self._read(self._trigger_rows("schedule", tenant, None, limit, after))

    def change_schedule(self, name: str | UUID, **changes: Unpack[ScheduleChanges]) -> Trigger:
        """Change what `create_schedule` takes (`new_name=` for the name). Of a schedule declared in the code, only
        `enabled` can be changed (`NotAllowed`): the rest follows the code."""
        conn = changes.pop("conn", None)
        return self._read(self._change_trigger_row("schedule", name, changes), conn)

    def pause_schedule(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Stop firing it until it is resumed. Times that are due but have not fired yet are dropped, and so are those
        that come due meanwhile."""
        return self.change_schedule(name, tenant=tenant, actor=actor, conn=conn, enabled=False)

    def resume_schedule(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Fire it again, from its next time on."""
        return self.change_schedule(name, tenant=tenant, actor=actor, conn=conn, enabled=True)

    def delete_schedule(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a schedule; its jobs stay. One declared in the code comes back when a worker of it starts."""
        self._run(self._delete_trigger_row("schedule", name, tenant, actor, if_match), conn)

    def run_schedule(
        self,
        name: str | UUID,
        payload: Mapping[str, Any] | None = None,
        *,
        tenant: str | UUID | None = None,
        trace_id: str | None = None,
        actor: str | None = None,
        conn: Any = None,
        request: Request | None = None,
    ) -> Fire:
        """Fire it once, now, with these fields over its payload; returns the fire, with its `job_id`.

        Its next time does not change. The job belongs to the trace `trace_id`, if that is given. A
        `request` that was done before raises `Replayed`.
        """
        self.learn(conn)
        running = self._run_schedule(name, payload, tenant, trace_id, actor)
        fire, queue = self._run(self._creating_once(request, running, lambda made: made[0].id), conn)
        self._wake_up(queue, conn)
        return fire

    def preview_schedule(
        self,
        name: str | UUID | None = None,
        count: int = 5,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        after: datetime | None = None,
        tenant: str | UUID | None = None,
    ) -> list[datetime]:
        """The next times, in its zone, of a stored schedule, or of a cron expression or interval.

        Each carries its zone: `.astimezone(UTC)` gives it in UTC.
        """
        if name is not None:
            return times_of(self.get_schedule(name, tenant=tenant), count, after or from_micros(self.clock.now()))
        return times_of(self._not_stored(cron, every, tz), count, after or from_micros(self.clock.now()))

    def _not_stored(self, cron: str | None, every: Duration | None, tz: str | None) -> Any:
        given = {"name": "preview", "kind": "preview", "cron": cron, "every": every, "tz": tz or self._tz}
        now = from_micros(self.clock.now())
        return new_schedule(given, tenant="default", tenant_id=DEFAULT_TENANT_ID, now=now, limit=self.payload_limit)

    def _create_schedule(self, name: str, cron: str | None, options: ScheduleOptions) -> Op[Trigger]:
        given: dict[str, Any] = {**options, "name": name, "cron": cron}
        tenant, actor, template = (given.pop(each, None) for each in ("tenant", "actor", "template"))
        owner = self._named_tenant(tenant)
        owner_id = self._id_for(owner)

        def steps() -> Steps[Trigger]:
            now = yield from self._store.ops.now().steps()
            row = yield from self._new_schedule(given, template, owner, owner_id, now)
            row = msgspec.structs.replace(row, created_by=actor and str(actor))
            made = yield from self._store.ops.create_trigger(row, actor=actor).steps()
            yield from self._check_schedule(made, now)
            return made

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)

    def _ensure_schedule(self, name: str, cron: str | None, options: ScheduleOptions) -> Op[Trigger]:
        create = self._create_schedule(name, cron, options)
        given: dict[str, Any] = {**options, "name": name, "cron": cron}
        tenant, actor, template = (given.pop(each, None) for each in ("tenant", "actor", "template"))
        owner = self._named_tenant(tenant)
        owner_id = self._id_for(owner)
        named = checked_name(name, "name")
        stored = self._store.ops.triggers(
            tenant_id=owner_id, type="schedule", name=named, events=None, limit=1, after=None
        )

        def steps() -> Steps[Trigger]:
            found = next(iter((yield from stored.steps())), None)
            if found is None:
                return (yield from create.steps())
            refuse_declared(found)
            now = yield from self._store.ops.now().steps()
            row = yield from self._new_schedule(given, template, owner, owner_id, now)
            change = ensured_schedule(found, row, enabled=given.get("enabled"))
            if change is None:
                return found
            op = self._store.ops.change_trigger(found.id, change, tenant_id=owner_id, actor=actor)
            changed = (yield from op.steps()) or missing_trigger("schedule", found.name, found.tenant)
            yield from self._check_schedule(changed, now)
            return changed

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)

    def _new_schedule(
        self, given: Mapping[str, Any], template: str | None, owner: str, owner_id: str, now: datetime
    ) -> Steps[NewTrigger]:
        fields = {**given, "tz": given.get("tz") or (yield from self._default_zone(owner_id))}
        if template is not None:
            fields["template_id"] = yield from self._template_id(template, owner)
        return new_schedule(fields, tenant=owner, tenant_id=owner_id, now=now, limit=self.payload_limit)

    def _run_schedule(
        self,
        name: str | UUID,
        payload: Mapping[str, Any] | None,
        tenant: str | UUID | None,
        trace_id: str | None,
        actor: str | None,
    ) -> Op[tuple[Fire, str]]:
        trace = None if trace_id is None else check_text(trace_id, "trace_id")

        def steps() -> Steps[tuple[Fire, str]]:
            trigger = yield from self._trigger_row("schedule", name, tenant).steps()
            return (yield from self._fire_now(trigger, payload, trace, actor))

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)


def times_of(timing: Any, count: int, after: datetime) -> list[datetime]:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_TIMES:
        raise InvalidJob(f"count={count!r} must be a whole number from 1 to {_MOST_TIMES:,}")
    if after.tzinfo is None:
        raise InvalidJob(f"after={after!r} carries no zone: use datetime.now(UTC)")
    moment(after, "after")
    return [time.astimezone(zone(timing.tz)) for time in islice(upcoming(timing, after.astimezone(UTC)), count)]
