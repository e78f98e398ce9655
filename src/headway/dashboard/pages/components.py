"""The components of the design, each with its states: to look at while changing them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from headway.api.wire.problems import Refused
from headway.dashboard.drawn.chart import Series, bars, lines
from headway.dashboard.drawn.machine import END, machine_graph
from headway.dashboard.drawn.timeline import attempts_timeline
from headway.dashboard.drawn.train import train_picture
from headway.dashboard.shown.numbers import count
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit
from headway.define.machine_graph import Edge, Graph
from headway.model.status import ATTEMPT_STATUSES, STATUSES
from headway.model.train import Hold, Train

pages = Pages()

_WAYS = (("start", "approve"), ("approve", "pay"), ("approve", "start"), ("pay", END))
_EDGES = [Edge(*way, "Next", "") for way in _WAYS]
_GRAPH = Graph(kind="refund", version=1, steps=["start", "approve", "pay"], edges=_EDGES, handle=[], unread=[])


@pages.get("/_components")
async def components(visit: Visit) -> Page:
    if not visit.is_superadmin:
        raise Refused(404, "there is no such page")
    at = [visit.now - timedelta(minutes=each) for each in reversed(range(60))]
    waits = [None if each % 20 == 7 else each * each % 37 for each in range(60)]
    ended = [
        Series("succeeded", "succeeded", [each * 7 % 23 for each in range(60)]),
        Series("failed attempts", "failed", [each % 5 for each in range(60)]),
        Series("dead", "dead", [each % 11 == 0 for each in range(60)]),
    ]
    values = {
        "statuses": STATUSES,
        "attempt_statuses": ATTEMPT_STATUSES,
        "moments": [visit.now + timedelta(seconds=each) for each in (-90_000, -4_000, -70, -3, 0, 65, 100_000)],
        "json": '{"id": 123456789012345678901234567890, "html": "<script>", "list": [1, 2.50, null, true], "none": {}}',
        "charts": [
            bars("Bars", at, ended, count),
            lines("Lines", at, [Series("p50", "", waits)], count),
            lines("A chart of nothing", at, [Series("p50", "", [None] * 60)], count),
        ],
        "graph": machine_graph(_GRAPH, now="approve", taken=["start"], standing={"approve": 12}),
        "timeline": attempts_timeline(_attempts(visit.now), visit.now),
        "trains": [train_picture(each, _cars(status)) for each, status in _trains(visit.now)],
    }
    return Page("components.html", values)


def _attempts(now: datetime) -> list[dict[str, Any]]:
    began = [now - timedelta(seconds=each) for each in (60, 40, 5)]
    ends = [("failed", 8), ("timeout", 12), ("running", None)]
    return [
        {
            "fence": fence,
            "status": status,
            "started_at": at,
            "finished_at": None if took is None else at + timedelta(seconds=took),
        }
        for fence, (at, (status, took)) in enumerate(zip(began, ends, strict=True), 1)
    ]


def _cars(head: str) -> list[dict[str, Any]]:
    return [{"id": str(n), "kind": "charge", "status": "held" if n else head} for n in range(4)]


def _trains(now: datetime) -> list[tuple[Train, str]]:
    """One that moves, and one that a car holds."""
    hold = Hold(since=now, job_id="7", reason="job 7 is dead", actor=None)
    common: dict[str, Any] = {"train": "order/7", "tenant_id": "", "tenant": "acme", "length": 6, "head_id": "0"}
    common |= {"head_kind": "charge", "head_since": now, "head_pending": False}
    return [
        (Train(**common, head_status="running", hold=None), "running"),
        (Train(**common, head_status="held", hold=hold), "held"),
    ]
