"""Errors: what went wrong, the same errors together, and their jobs."""

from __future__ import annotations

import json
from typing import Any

from headway.api.routes import PREFIX
from headway.dashboard.action_table import ACTIONS
from headway.dashboard.list_table import SPANS, curl, of_tenant_in_cli, of_tenant_in_python, seen_since
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit
from headway.model.error_groups import ERROR_STATUSES
from headway.model.status import UNFINISHED
from headway.shell import command, quoted

pages = Pages()

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
        "spans": SPANS,
        "statuses": ERROR_STATUSES,
    }
    return Page("errors.html", values)


@pages.get("/errors/{fingerprint}")
async def show_error(visit: Visit, fingerprint: str) -> Page:
    error = await visit.ask("GET", "/errors/{fingerprint}", fingerprint=fingerprint)
    jobs = await visit.ask("GET", "/jobs", query={"error": fingerprint, "limit": _MOST_JOBS})
    address = quoted([f"{visit.origin}{PREFIX}/errors/{fingerprint}"])
    values = {
        "error": error,
        "jobs": jobs,
        "unfinished": UNFINISHED,
        "retried": json.dumps({"error": fingerprint, "status": ["dead"]}),
        "actions": ACTIONS,
        "copied": {
            "CLI": of_tenant_in_cli(command("errors show", fingerprint), visit.whose),
            "curl": f"{curl(visit)} {address}",
            "Python": of_tenant_in_python(f'app.error("{fingerprint}")', visit.whose),
        },
    }
    return Page("error.html", values)
