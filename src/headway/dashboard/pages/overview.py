"""The overview: what needs a person, then the pulse, then the queues."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headway.dashboard.action_table import ACTIONS, Action
from headway.dashboard.pages.workers import slots
from headway.dashboard.pulse import SPANS, charts, sparks
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import COUNTED, Visit
from headway.model.fleet import Queue
from headway.model.overview import Problem

pages = Pages()

_HIGH = ("full_database", "no_worker", "dying", "silent_worker")
_MOST_QUEUES = 20
_FIRST_PROBLEMS = 8  # the others are folded: the pulse is in sight
_MOST_PROBLEMS = 50  # the most urgent: nobody reads hundreds
_LOW = ("paused", "limited")


@dataclass(frozen=True)
class Shown:
    """A problem, with the button that helps and the page that tells more."""

    key: str
    problem: Problem
    urgency: str
    action: Action | None
    params: dict[str, str]
    href: str | None
    retried: str | None  # the filter of the jobs that it killed


@pages.get("/")
async def overview(visit: Visit) -> Page:
    everything = visit.is_superadmin and visit.tenant is None
    found = await visit.ask("GET", "/admin/overview" if everything else "/overview")
    queues = (await visit.ask("GET", "/queues", query=COUNTED)).items
    span = visit.query.get("span") if visit.query.get("span") in SPANS else "hour"
    busiest = sorted(queues, key=_busiest)[:_MOST_QUEUES]
    summary = await visit.ask("GET", "/jobs/summary", query=COUNTED | {"oldest": "false"})
    values = {
        "problems": [_shown(visit, each) for each in found.problems[:_MOST_PROBLEMS]],
        "first_problems": _FIRST_PROBLEMS,
        "more_problems": max(0, len(found.problems) - _MOST_PROBLEMS),
        "pulse": found.pulse,
        "tenants": found.tenants[:20] if everything else [],
        "counts": summary.counts,
        "is_new": not summary.counts and not found.pulse.enqueued,
        "queues": busiest,
        "all_queues": len(queues),
        "oldest": min((each.oldest_queued_at for each in queues if each.oldest_queued_at is not None), default=None),
        "sparks": await sparks(visit, [each.name for each in busiest]),
        "slots": await slots(visit),
        "span": span,
        "spans": SPANS,
        "charts": await charts(visit, str(span)),
        "actions": ACTIONS,
    }
    return Page("overview.html", values)


def _busiest(queue: Queue) -> tuple[int, int, str]:
    return -queue.counts.get("queued", 0), -queue.counts.get("running", 0), queue.name


def _shown(visit: Visit, problem: Problem) -> Shown:
    action, params = _help(problem)
    urgency = "high" if problem.what in _HIGH else "low" if problem.what in _LOW else "middle"
    key = f"{problem.what} {problem.tenant} {problem.queue} {problem.kind} {problem.name}"
    retried = json.dumps({"error": problem.error, "status": ["dead"]}) if problem.error is not None else None
    return Shown(key, problem, urgency, action, params, _page_of(visit, problem), retried)


def _help(problem: Problem) -> tuple[Action | None, dict[str, str]]:
    match problem.what:
        case "paused":
            return ACTIONS["resume-queue"], {"name": str(problem.queue)}
        case "held_train":
            return ACTIONS["resume-train"], {"key": str(problem.name)}
        case "silent_worker":
            return ACTIONS["dead-worker"], {"id": str(problem.name)}
    return None, {}


def _page_of(visit: Visit, problem: Problem) -> str | None:
    pages: dict[str, tuple[str, dict[str, Any]]] = {
        "no_worker": (f"/queues/{problem.queue}", {}),
        "paused": (f"/queues/{problem.queue}", {}),
        "limited": (f"/queues/{problem.queue}", {}),
        "starving": ("/jobs", {"status": "queued", "queue": problem.queue, "kind": problem.kind, "order": "oldest"}),
        "dying": ("/jobs", {"status": "dead", "kind": problem.kind}),
        "full_database": ("/doctor", {}),
        "slow_database": ("/doctor", {}),
        "silent_worker": ("/workers", {}),
        "held_train": (f"/trains/{quote(problem.name or '', safe='')}", {}),
        "late_schedule": ("/triggers", {}),
        "failed_event": ("/events", {"status": "failed"}),
    }
    if problem.error is not None:
        return visit.url(f"/errors/{problem.error}")
    path, query = pages[problem.what]
    return visit.url_of(problem.tenant, path, query)
