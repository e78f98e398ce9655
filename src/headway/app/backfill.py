"""Backfill: a schedule fires for times of its past, each that it has not fired for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from headway.app.masking import mask_payload
from headway.app.trigger_rows import TriggerRows, missing_trigger, overlaid
from headway.define.checks import moment
from headway.define.trigger_jobs import schedule_job
from headway.errors import InvalidJob
from headway.model.duration import show_ms
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.model.schedule import CATCH_UP, past_times, time_before
from headway.model.trigger import Backfilled, NewFire, ResolvedTrigger, Trigger
from headway.store.ops import Op, Steps

_PIECE = 200
"""How many jobs one transaction makes: others wait for a piece, never for all of it."""


class BackfillVerbs(TriggerRows):
    def backfill_schedule(
        self,
        name: str,
        start: datetime,
        end: datetime,
        payload: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> list[Backfilled]:
        """Fire a schedule for each of its times from `start` to `end`, both included, that it has not fired for, with
        these fields over its payload; gives every time, oldest first, with the job that it made.

        `dry_run=True` makes nothing, and gives what would be made. Whether it is paused, and its `overlap` and
        `jitter`, do not matter. At most 10,000 times, in pieces: after an error, call it again for the rest. Raises
        `InvalidJob` (also for times so old that their fires are pruned), `NotFound`, and what an enqueue raises.
        """
        self.learn(conn)
        resolved, now = self._run(self._resolved(name, payload, tenant), conn)
        trigger = resolved.trigger
        times = _checked_times(trigger, start, end, now, self._retention_ms["fires"])
        before: list[datetime | None] = [time_before(trigger, times[0]) if times else None, *times]
        found: list[Backfilled] = []
        for first in range(0, len(times), _PIECE):
            piece = list(zip(times, before, strict=False))[first : first + _PIECE]
            made = self._run(self._backfill(resolved, piece, now, dry_run, actor), conn)
            found.extend(made)
        for queue in {each.queue for each in found if each.status == "enqueued"}:
            self._wake_up(queue, conn)
        return found

    def _resolved(
        self, name: str, payload: Mapping[str, Any] | None, tenant: str | UUID | None
    ) -> Op[tuple[ResolvedTrigger, datetime]]:
        rule = self._trigger_row("schedule", name, tenant)

        def steps() -> Steps[tuple[ResolvedTrigger, datetime]]:
            trigger = overlaid((yield from rule.steps()), payload)
            template = yield from self._template_of(trigger)
            now = yield from self._store.ops.now().steps()
            return ResolvedTrigger(trigger=trigger, template=template), now

        return Op(steps, writes=False)

    def _backfill(
        self,
        resolved: ResolvedTrigger,
        times: list[tuple[datetime, datetime | None]],
        now: datetime,
        dry_run: bool,
        actor: str | None,
    ) -> Op[list[Backfilled]]:
        """One piece: these times, each with the one before it."""
        trigger = resolved.trigger

        def steps() -> Steps[list[Backfilled]]:
            op = self._store.ops.fired_times(trigger.id, [time for time, _ in times])
            fired = set((yield from op.steps()))
            jobs = {time: self._job_at(resolved, time, last, now, actor) for time, last in times if time not in fired}
            made: dict[datetime, Backfilled] = {time: self._planned(time, job) for time, job in jobs.items() if dry_run}
            if jobs and not dry_run:
                fires = [
                    NewFire(id=new_id(), trigger_id=trigger.id, nominal_at=time, job=job) for time, job in jobs.items()
                ]
                write = self._store.ops.backfill(trigger.id, fires, tenant_id=trigger.tenant_id, actor=actor)
                written = yield from write.steps()
                if written is None:
                    missing_trigger("schedule", trigger.name, trigger.tenant)
                for fire in written or ():
                    assert fire.nominal_at is not None
                    planned = self._planned(fire.nominal_at, jobs[fire.nominal_at])
                    made[fire.nominal_at] = msgspec.structs.replace(planned, status=fire.status, job_id=fire.job_id)
            return [made.get(time) or Backfilled(nominal_at=time, status="fired") for time, _ in times]

        return Op(steps, writes=not dry_run, refusable=True, atomic=True)

    def _job_at(
        self, resolved: ResolvedTrigger, time: datetime, last: datetime | None, now: datetime, actor: str | None
    ) -> NewJob:
        """The job of this time; its span begins where that of the time before ends."""
        trigger = msgspec.structs.replace(resolved.trigger, last_fired_at=last)
        resolved = msgspec.structs.replace(resolved, trigger=trigger)
        job = schedule_job(resolved, time, self._definitions, now=now, limit=self.payload_limit)
        return msgspec.structs.replace(job, created_by=actor and str(actor), scheduled_for=None)

    def _planned(self, time: datetime, job: NewJob) -> Backfilled:
        payload = mask_payload(msgspec.json.decode(job.payload), job.kind, self._definitions)
        return Backfilled(nominal_at=time, status="planned", queue=job.queue, payload=payload)


def _checked_times(trigger: Trigger, start: datetime, end: datetime, now: datetime, kept_ms: int) -> list[datetime]:
    moment(start, "start")
    moment(end, "end")
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    if end < start:
        raise InvalidJob(f"end={end.isoformat()} is before start={start.isoformat()}")
    if end > now:
        raise InvalidJob(
            f"end={end.isoformat()} has not come yet: a backfill is of the past, what comes is fired by itself"
        )
    times = past_times(trigger, start, end)
    if len(times) > CATCH_UP:
        raise InvalidJob(
            f"{trigger.name} has more than {CATCH_UP:,} times from {start.isoformat()} to {end.isoformat()}: backfill "
            "it in parts"
        )
    pruned = now - timedelta(milliseconds=kept_ms)
    unknown = [time for time in times if trigger.created_at < time < pruned]
    if unknown:
        raise InvalidJob(
            f"{trigger.name} may have fired for {unknown[0].isoformat()}: it was there, and fires are kept for "
            f"{show_ms(kept_ms)}; no time fires twice, so begin after {pruned.isoformat(timespec='seconds')}, or end "
            f"before {trigger.created_at.isoformat(timespec='seconds')}, when it was made"
        )
    return times
