"""Errors: what went wrong, the same errors together, and their jobs."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from typing import Any

from headway.api.routes import PREFIX
from headway.dashboard.action_table import ACTIONS
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit
from headway.model.error_groups import ERROR_STATUSES
from headway.model.status import UNFINISHED

pages = Pages()

_SINCE = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
_MOST_JOBS = 20


@pages.get("/errors")
async def list_errors(visit: Visit) -> Page:
    chosen = {name: visit.query.get(name) or None for name in ("kind", "queue", "status", "order", "since", "cursor")}
    query: dict[str, Any] = {**chosen, "since": seen_since(visit)}
    errors = await visit.ask("GET", "/errors", query=query)
    values = {
        "errors": errors,
        "most": max((each.count for each in errors.items), default=0),
        "chosen": chosen,
        "spans": _SINCE,
        "statuses": ERROR_STATUSES,
    }
    return Page("errors.html", values)


def seen_since(visit: Visit) -> str | None:
    """The time since which the errors of the chosen span were seen."""
    span = _SINCE.get(visit.query.get("since", ""))
    return None if span is None else (visit.now - span).isoformat()


@pages.get("/errors/{fingerprint}")
async def show_error(visit: Visit, fingerprint: str) -> Page:
    error = await visit.ask("GET", "/errors/{fingerprint}", fingerprint=fingerprint)
    jobs = await visit.ask("GET", "/jobs", query={"error": fingerprint, "limit": _MOST_JOBS})
    address = shlex.quote(f"{visit.origin}{PREFIX}/errors/{fingerprint}")
    values = {
        "error": error,
        "jobs": jobs,
        "unfinished": UNFINISHED,
        "retried": json.dumps({"error": fingerprint, "status": ["dead"]}),
        "actions": ACTIONS,
        "copied": {
            "CLI": f"headway errors show {fingerprint}",
            "curl": f'curl -H "Authorization: Bearer $HEADWAY_KEY" {address}',
            "Python": f'app.error("{fingerprint}")',
        },
    }
    return Page("error.html", values)
