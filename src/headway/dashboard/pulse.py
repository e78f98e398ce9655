"""The pulse: what happened over an hour, a day or a week, as charts of the numbers that the API gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from headway.dashboard.drawn.chart import Series, bars, lines, spark
from headway.dashboard.shown.numbers import count, duration
from headway.dashboard.visit import Visit


@dataclass(frozen=True)
class Span:
    every: str
    step: timedelta
    steps: int


SPANS = {
    "hour": Span("minute", timedelta(minutes=1), 60),
    "day": Span("hour", timedelta(hours=1), 24),
    "week": Span("hour", timedelta(hours=1), 168),
}


_MOST_SHARES = 10  # tenants on a queue's page; each costs a look at its name


async def charts(visit: Visit, name: str, **of: str) -> list[Markup]:
    """Throughput, waits, runs and depth of a tenant, a queue or a kind."""
    span = SPANS[name]
    at = _moments(visit.now, span)
    found = await visit.ask("GET", "/stats", query={"every": span.every, "since": at[0].isoformat(), **of})
    by_time = {each.at: each for each in found.items}

    def series(label: str, shape: str, value: Callable[[Any], float | None], none: float | None) -> Series:
        return Series(label, shape, [value(by_time[each]) if each in by_time else none for each in at])

    every = "minute" if span.every == "minute" else "hour"
    ended = [
        series("succeeded", "succeeded", lambda each: each.succeeded, 0),
        series("failed attempts", "failed", lambda each: each.failed, 0),
        series("dead", "dead", lambda each: each.dead, 0),
    ]
    waits = [
        series("p50", "", lambda each: each.wait_p50_ms, None),
        series("p95", "second", lambda each: each.wait_p95_ms, None),
    ]
    runs = [
        series("p50", "", lambda each: each.run_p50_ms, None),
        series("p95", "second", lambda each: each.run_p95_ms, None),
    ]
    depth = [series("queued at most", "", lambda each: each.depth, None)]
    return [
        bars(f"Ended per {every}", at, ended, count),
        lines("Wait before the start", at, waits, _time),
        lines("Run time", at, runs, _time),
        lines("Depth", at, depth, count),
    ]


async def sparks(visit: Visit, queues: Sequence[str]) -> dict[str, Markup]:
    """For each of these queues, what succeeded in each minute of the last half hour."""
    if not queues:
        return {}
    at = _moments(visit.now, Span("minute", timedelta(minutes=1), 30))
    asked = {"every": "minute", "since": at[0].isoformat(), "by": "queue", "queue": queues}
    found = await visit.ask("GET", "/stats", query=asked)
    by_queue: dict[str, dict[datetime, int]] = {}
    for each in found.items:
        by_queue.setdefault(each.queue, {})[each.at] = each.succeeded
    return {
        queue: spark([values.get(each, 0) for each in at], f"{sum(values.values()):,} in the last half hour")
        for queue, values in by_queue.items()
    }


@dataclass(frozen=True)
class TenantShare:
    """How much of a queue's starts were a tenant's in the last hour."""

    tenant: str
    started: int
    share: float
    depth: int  # queued at the last sample


async def tenant_shares(visit: Visit, queue: str) -> list[TenantShare]:
    """The tenants that a queue served most."""
    since = _moments(visit.now, SPANS["hour"])[0].isoformat()
    found = await visit.ask("GET", "/stats", query={"every": "minute", "since": since, "by": "tenant", "queue": queue})
    started: Counter[str] = Counter()
    depths: dict[str, int] = {}
    for each in sorted(found.items, key=lambda each: each.at):
        started[each.tenant_id] += each.started
        depths[each.tenant_id] = depths.get(each.tenant_id, 0) if each.depth is None else each.depth
    whole = started.total()
    most = started.most_common(_MOST_SHARES)
    names = await visit.tenant_names(tenant_id for tenant_id, _ in most)
    return [
        TenantShare(names[tenant_id], count_, count_ / whole if whole else 0.0, depths[tenant_id])
        for tenant_id, count_ in most
    ]


def _moments(now: datetime, span: Span) -> list[datetime]:
    size = span.step.total_seconds()
    last = datetime.fromtimestamp(now.timestamp() // size * size, UTC)
    return [last - span.step * back for back in reversed(range(span.steps))]


def _time(ms: float) -> str:
    return "0" if ms == 0 else duration(ms / 1_000)
