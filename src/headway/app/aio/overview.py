"""Generated from app/overview.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

import time
from datetime import timedelta

import msgspec

from headway.app.aio.error_groups import AsyncErrorVerbs
from headway.app.aio.events import AsyncEventVerbs
from headway.app.aio.queues import AsyncQueueVerbs
from headway.app.aio.schedules import AsyncScheduleVerbs
from headway.app.aio.stats import AsyncStatVerbs
from headway.app.aio.trains import AsyncTrainVerbs
from headway.app.overview import _MOST, _MOST_ERRORS, OverviewVerbs, free_bytes
from headway.clock import from_micros
from headway.model.duration import Duration, to_ms
from headway.model.fleet import MOST_QUEUED
from headway.model.ids import is_id
from headway.model.overview import (
    LATELY,
    SAMPLED,
    Overview,
    TenantPulse,
    of_database,
    of_events,
    of_kinds,
    of_queues,
    of_schedules,
    of_starving,
    of_trains,
    of_workers,
    pulse,
    sampled,
    side_by_side,
    urgent_first,
)


class AsyncOverviewVerbs(
    OverviewVerbs,
    AsyncTrainVerbs,
    AsyncQueueVerbs,
    AsyncScheduleVerbs,
    AsyncEventVerbs,
    AsyncStatVerbs,
    AsyncErrorVerbs,
):
    """The async twins of the verbs of `OverviewVerbs`."""

    async def aoverview(self, since: Duration = "1h") -> Overview:
        """What needs a person, most urgent first, each with a sentence why and the command that helps; and the numbers
        of the last hour, or of another time up to two days, together.

        Only `app` itself, not `app.tenant(…)`, reports silent workers and the state of the database. Counts at most the
        first 1,000 jobs of each queue. Raises `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant)
        now = from_micros(self.clock.now())
        died = await self._arun(self._stats("minute", since, None, ("queue", "kind"), None, None, died=True))
        lately = await self.astats(since=LATELY, by=("tenant", "queue", "kind"))
        samples = sampled(lately, now)
        queues = await self.aqueues(most=MOST_QUEUED if self._is_for_one_tenant else 1)
        troubled = [each.name for each in queues if each.paused or each.limited or (not each.workers)]
        counted = await self.aqueues(name=troubled, most=MOST_QUEUED) if troubled else []
        errors = await self.aerrors(since=since, order="count", limit=_MOST_ERRORS) if died else []
        tenant = await self._aname_in_commands() if self._is_for_one_tenant else None
        problems = [
            *of_queues(counted, samples, now),
            *of_starving(queues, lately, samples, now, tenant),
            *of_kinds(died, errors, tenant),
            *of_trains(await self.atrains(blocked=True, limit=_MOST)),
            *of_schedules(await self.aschedules(), now),
            *of_events(await self.aevents(status="failed", limit=_MOST), tenant),
        ]
        if not self._is_for_one_tenant:
            problems += of_workers(await self.aworkers(), now)
            began = time.perf_counter()
            condition = await self._arun(self._store.ops.condition())
            answer_ms = (time.perf_counter() - began) * 1000
            free = free_bytes(self._store.describe()) if self._store.dialect == "sqlite" else None
            condition = msgspec.structs.replace(condition, answer_ms=answer_ms, free_bytes=free)
            problems += of_database(condition, now)
        first = now - timedelta(milliseconds=to_ms(since, "since"))
        return Overview(at=now, problems=urgent_first(problems), pulse=pulse(await self.astats(since=since), first))

    async def _aname_in_commands(self) -> str:
        """How a command names the own tenant: a key of the HTTP API has only its id."""
        own = str(self._own_tenant)
        return (await self._arun(self._store.ops.tenants([own]))).get(own, own) if is_id(own) else own

    async def aoverview_of_tenants(self, since: Duration = "1h") -> list[TenantPulse]:
        """The tenants to whose jobs something happened in that time, side by side, the busiest first. Raises
        `InvalidJob`."""
        await self._aensure_known(self._own_tenant)
        now = from_micros(self.clock.now())
        first = now - timedelta(milliseconds=to_ms(since, "since"))
        begin, end = self._between("minute", since, None)
        op = self._store.ops.stats_side_by_side(since=begin, until=end, sampled_after=now - SAMPLED)
        numbers = await self._arun(self._for_all_tenants("compare tenants", op))
        names = await self._arun(self._store.ops.tenants(sorted(numbers)))
        return side_by_side(numbers, names, first)
