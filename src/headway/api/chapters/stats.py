"""What happened, in numbers, and what needs a person."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.api.access.narrowed import is_narrowed, seen_names
from headway.api.call import Call
from headway.api.routes import SUPERADMINS, VIEWERS, Routes
from headway.api.wire.views import Listed
from headway.model.overview import Overview, Problem, Pulse, TenantPulse, pulse
from headway.model.stats import By, Span, Stat

routes = Routes("stats")

_TIMES = ("waits", "runs")
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class StatQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`since` is by default an hour ago by minutes, a day by hours, 30 days by days."""

    every: Span = "minute"
    since: datetime | None = None
    until: datetime | None = None
    by: tuple[By, ...] = ()
    queue: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()


class StatView(msgspec.Struct, kw_only=True):
    """What happened in one minute, hour or day."""

    at: datetime
    tenant_id: str | None
    queue: str | None
    kind: str | None
    enqueued: int
    started: int
    succeeded: int
    failed: int
    retried: int
    dead: int
    canceled: int
    lost: int
    depth: int | None
    oldest_ms: int | None
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    wait_p99_ms: float | None
    run_p50_ms: float | None
    run_p95_ms: float | None
    run_p99_ms: float | None


class StatList(msgspec.Struct):
    items: list[StatView]
    next_cursor: str | None


@routes.get("/stats", roles=VIEWERS, query=StatQuery, answers={200: StatList}, problems=(422,))
async def list_stats(call: Call[None, StatQuery]) -> Listed:
    """Count what happened by minute, hour or day: jobs that came, ended and failed, how long they waited and ran."""
    query = call.query
    found = await call.verbs.astats(
        query.every,
        since=query.since,
        until=query.until,
        by=query.by,
        queue=seen_names(query.queue, call.key.queues),
        kind=seen_names(query.kind, call.key.kinds),
    )
    return Listed([_view(each) for each in found])


@routes.get("/overview", roles=VIEWERS, answers={200: Overview})
async def overview(call: Call[None, None]) -> Overview:
    """Tell what needs a person, most urgent first, and how much work there was in the last hour."""
    found = await call.verbs.aoverview()
    if not is_narrowed(call):
        return found
    stats = await call.verbs.astats(
        since="1h", queue=seen_names((), call.key.queues), kind=seen_names((), call.key.kinds)
    )
    return Overview(
        at=found.at,
        problems=[each for each in found.problems if _touches(call, each)],
        pulse=pulse(stats, found.pulse.since),
    )


class AdminOverview(msgspec.Struct):
    at: datetime
    problems: list[Problem]
    pulse: Pulse
    tenants: list[TenantPulse]


@routes.get("/admin/overview", roles=SUPERADMINS, answers={200: AdminOverview})
async def admin_overview(call: Call[None, None]) -> AdminOverview:
    """Show all tenants side by side: what is queued, how much they did in the last hour, their share of the fleet."""
    found = await call.app.aoverview()
    return AdminOverview(found.at, found.problems, found.pulse, await call.app.aoverview_of_tenants())


def _touches(call: Call[Any, Any], problem: Problem) -> bool:
    """Whether a problem is of what a key for some queues or kinds may see."""
    seen = (problem.queue is not None and problem.queue in call.key.queues) or not call.key.queues
    return seen and (not call.key.kinds or (problem.kind is not None and problem.kind in call.key.kinds))


def _view(stat: Stat) -> StatView:
    fields: dict[str, Any] = {name: getattr(stat, name) for name in Stat.__struct_fields__ if name not in _TIMES}
    for name, q in _QUANTILES.items():
        fields[f"wait_{name}_ms"], fields[f"run_{name}_ms"] = stat.wait_ms(q), stat.run_ms(q)
    return StatView(**fields)
