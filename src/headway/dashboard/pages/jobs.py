"""Jobs: the cards, the filters, the table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, get_args

from headway.api.chapters.jobs import PAGE, SEARCHED
from headway.dashboard.action_table import ACTIONS
from headway.dashboard.list_table import JOBS, copied
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import COUNTED, Visit
from headway.model.job import Source
from headway.model.listing import Order
from headway.model.status import STATUSES, UNFINISHED, Status

pages = Pages()

_FILTERS = ("status", "kind", "queue", "tag", "source")
_NAMED = ("train", "group")  # several, too; a train's name may have several words
_SINGLE = ("correlation_id", "unique_key", "created_after", "created_before", "error", "q")


@dataclass(frozen=True)
class Card:
    status: Status
    count: int
    on: bool


@pages.get("/jobs")
async def list_jobs(visit: Visit) -> Page:
    query = asked(visit)
    summary = await visit.ask("GET", "/jobs/summary", query=COUNTED | {"oldest": "false"})
    jobs = await visit.ask("GET", "/jobs", query=query | {"cursor": visit.query.get("cursor")})
    queues = await visit.ask("GET", "/queues", query=COUNTED)
    values = {
        "jobs": jobs,
        "cards": [Card(each, summary.counts.get(each, 0), each in query["status"]) for each in STATUSES],
        "statuses": STATUSES,
        "unfinished": UNFINISHED,
        "sources": get_args(Source),
        "orders": get_args(Order),
        "queues": [each.name for each in queues.items],
        "kinds": sorted({kind for each in queues.items for kind in each.kinds} | {job["kind"] for job in jobs.items}),
        "chosen": query,
        "filtered": _in_words(query),
        "searched": _searched(visit, query, jobs),
        "filter_json": json.dumps({name: value for name, value in query.items() if value and name != "order"}),
        "actions": ACTIONS,
        "copied": _copied(visit, query),
    }
    return Page("jobs.html", values)


def asked(visit: Visit) -> dict[str, Any]:
    """The filters of the page's address; a text of several words is several values."""
    found: dict[str, Any] = {
        name: [word for text in visit.query.getlist(name) for word in text.split()] for name in _FILTERS
    }
    found |= {name: [text for text in visit.query.getlist(name) if text] for name in _NAMED}
    found |= {name: visit.query.get(name) or None for name in _SINGLE}
    return found | {"order": visit.query.get("order") or "newest"}


def _searched(visit: Visit, query: dict[str, Any], jobs: Any) -> str:
    """Which jobs were looked at, if that is why the page is not full."""
    if jobs.next_cursor is None or len(jobs.items) >= PAGE:
        return ""
    which = "next" if visit.query.get("cursor") else query["order"]
    return f"{which} {SEARCHED:,} jobs"


def _in_words(query: dict[str, Any]) -> str:
    parts = [f"{name} {' or '.join(query[name])}" for name in (*_FILTERS, *_NAMED) if query[name]]
    parts += [f"{name.replace('_', ' ')} {query[name]}" for name in _SINGLE if query[name]]
    return ", ".join(parts)


def _copied(visit: Visit, query: dict[str, Any]) -> dict[str, str]:
    filters = {name: value for name, value in query.items() if (name, value) != ("order", "newest")}
    return copied(visit, JOBS, filters, filters, visit.whose)
