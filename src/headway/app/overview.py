"""The verb that tells what needs a person, and how much work there was lately."""

from __future__ import annotations

from datetime import timedelta

from headway.app.events import EventVerbs
from headway.app.queues import QueueVerbs
from headway.app.schedules import ScheduleVerbs
from headway.app.stats import StatVerbs
from headway.app.trains import TrainVerbs
from headway.clock import from_micros
from headway.model.duration import Duration, to_ms
from headway.model.overview import (
    Overview,
    TenantPulse,
    of_events,
    of_kinds,
    of_queues,
    of_schedules,
    of_trains,
    of_workers,
    pulse,
    side_by_side,
    urgent_first,
)

_MOST = 20  # of each


class OverviewVerbs(TrainVerbs, QueueVerbs, ScheduleVerbs, EventVerbs, StatVerbs):
    def overview(self, since: Duration = "1h") -> Overview:
        """What needs a person, most urgent first, each with a sentence why and the command that helps; and the numbers
        of the last hour, or of another time up to two days, together.

        Silent workers are told by `app` alone, not by `app.tenant(…)`. Raises `InvalidJob`.
        """
        now = from_micros(self.clock.now())
        stats = self.stats(since=since, by=("queue", "kind"))
        problems = [
            *of_queues(self.queues(), now),
            *of_kinds(stats),
            *of_trains(self.trains(blocked=True, limit=_MOST)),
            *of_schedules(self.schedules(), now),
            *of_events(self.events(status="failed", limit=_MOST)),
        ]
        if not self._is_for_one_tenant:
            problems += of_workers(self.workers(), now)
        first = now - timedelta(milliseconds=to_ms(since, "since"))
        return Overview(at=now, problems=urgent_first(problems), pulse=pulse(stats, first))

    def overview_of_tenants(self, since: Duration = "1h") -> list[TenantPulse]:
        """The tenants to whose jobs something happened in that time, side by side, the busiest first. Raises
        `InvalidJob`."""
        now = from_micros(self.clock.now())
        first = now - timedelta(milliseconds=to_ms(since, "since"))
        stats = self.stats(since=since, by="tenant")
        ids = sorted({stat.tenant_id for stat in stats if stat.tenant_id is not None})
        names = self._run(self._for_all_tenants("compare tenants", self._store.ops.tenants(ids)))
        return side_by_side(stats, names, first, now)
