"""The verb that tells what needs a person, and how much work there was lately."""

from __future__ import annotations

import shutil
import time
from datetime import timedelta
from pathlib import Path

import msgspec

from headway.app.error_groups import ErrorVerbs
from headway.app.events import EventVerbs
from headway.app.queues import QueueVerbs
from headway.app.schedules import ScheduleVerbs
from headway.app.stats import StatVerbs
from headway.app.trains import TrainVerbs
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

_MOST = 20  # of each
_MOST_ERRORS = 200


class OverviewVerbs(TrainVerbs, QueueVerbs, ScheduleVerbs, EventVerbs, StatVerbs, ErrorVerbs):
    def overview(self, since: Duration = "1h") -> Overview:
        """What needs a person, most urgent first, each with a sentence why and the command that helps; and the numbers
        of the last hour, or of another time up to two days, together.

        Only `app` itself, not `app.tenant(…)`, reports silent workers and the state of the database. Counts at most the
        first 1,000 jobs of each queue. Raises `InvalidJob`.
        """
        now = from_micros(self.clock.now())
        died = self._run(self._stats("minute", since, None, ("queue", "kind"), None, None, died=True))
        lately = self.stats(since=LATELY, by=("tenant", "queue", "kind"))
        samples = sampled(lately, now)
        queues = self.queues(most=MOST_QUEUED if self._is_for_one_tenant else 1)
        # only those that may be in trouble are counted
        troubled = [each.name for each in queues if each.paused or each.limited or not each.workers]
        counted = self.queues(name=troubled, most=MOST_QUEUED) if troubled else []
        errors = self.errors(since=since, order="count", limit=_MOST_ERRORS) if died else []
        tenant = self._name_in_commands() if self._is_for_one_tenant else None
        problems = [
            *of_queues(counted, samples, now),
            *of_starving(queues, lately, samples, now, tenant),
            *of_kinds(died, errors, tenant),
            *of_trains(self.trains(blocked=True, limit=_MOST)),
            *of_schedules(self.schedules(), now),
            *of_events(self.events(status="failed", limit=_MOST), tenant),
        ]
        if not self._is_for_one_tenant:
            problems += of_workers(self.workers(), now)
            began = time.perf_counter()
            condition = self._run(self._store.ops.condition())
            answer_ms = (time.perf_counter() - began) * 1_000
            free = free_bytes(self._store.describe()) if self._store.dialect == "sqlite" else None
            condition = msgspec.structs.replace(condition, answer_ms=answer_ms, free_bytes=free)
            problems += of_database(condition, now)
        first = now - timedelta(milliseconds=to_ms(since, "since"))
        return Overview(at=now, problems=urgent_first(problems), pulse=pulse(self.stats(since=since), first))

    def _name_in_commands(self) -> str:
        """How a command names the own tenant: a key of the HTTP API has only its id."""
        own = str(self._own_tenant)
        return self._run(self._store.ops.tenants([own])).get(own, own) if is_id(own) else own

    def overview_of_tenants(self, since: Duration = "1h") -> list[TenantPulse]:
        """The tenants to whose jobs something happened in that time, side by side, the busiest first. Raises
        `InvalidJob`."""
        now = from_micros(self.clock.now())
        first = now - timedelta(milliseconds=to_ms(since, "since"))
        begin, end = self._between("minute", since, None)
        op = self._store.ops.stats_side_by_side(since=begin, until=end, sampled_after=now - SAMPLED)
        numbers = self._run(self._for_all_tenants("compare tenants", op))
        names = self._run(self._store.ops.tenants(sorted(numbers)))
        return side_by_side(numbers, names, first)


def free_bytes(path: str) -> int | None:
    """How much room the disk of this file has."""
    try:
        return shutil.disk_usage(Path(path).parent).free
    except OSError:
        return None
