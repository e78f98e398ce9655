"""Every list that a page shows, and how to get the same from a shell, over HTTP and from Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from headway.api.routes import PREFIX
from headway.dashboard.visit import Visit
from headway.model.duration import to_ms
from headway.model.ids import is_id
from headway.shell import flag, quoted


@dataclass(frozen=True)
class Listing:
    """A list as a command, as a path of the API, and as a method; and the filters of its page, which all three take."""

    cli: str
    path: str
    python: str
    filters: tuple[str, ...] = ()


JOBS = Listing("jobs list", "/jobs", "jobs")
LISTS = {
    "/": Listing("overview", "/overview", "overview"),
    "/errors": Listing("errors list", "/errors", "errors", ("since", "kind", "queue", "status", "order")),
    "/machines": Listing("machines steps", "/machines", "step_counts"),
    "/trains": Listing("trains list", "/trains", "trains", ("blocked",)),
    "/triggers": Listing("schedules list", "/jobs/triggers?trigger_type=schedule", "schedules"),
    "/triggers?type=event": Listing("triggers list", "/jobs/triggers?trigger_type=event", "triggers"),
    "/events": Listing("events list", "/events", "events", ("name", "status")),
    "/templates": Listing("templates list", "/templates", "templates"),
    "/connectors": Listing("connectors list", "/connectors", "connectors", ("kind",)),
    "/artifacts": Listing("artifacts list", "/artifacts", "artifacts", ("job",)),
    "/queues": Listing("queues list", "/queues", "queues"),
    "/limits": Listing("limits list", "/limits", "limits_in_use"),
    "/workers": Listing("workers list", "/workers", "workers"),
    "/tenants": Listing("tenants list", "/admin/tenants", "tenants"),
    "/definitions": Listing("definitions list", "/definitions", "definitions"),
    "/keys": Listing("keys list", "/keys", "api_keys"),
    "/audit": Listing("audit", "/audit", "audit_log", ("actor", "action")),
}
"""By the page's path. Jobs have more filters, and say it on their page."""
_OF_ALL = ("/limits", "/workers", "/tenants", "/definitions")  # no tenant has these for itself
_NOT_IN_CLI = ("q",)  # what only a page can search by
_IN_PYTHON = {"tag": "tags", "group": "group_id", "job": "job_id"}  # what its arguments are called
SPANS = {"hour": "1h", "day": "1d", "week": "7d"}
"""Since when errors were seen: the page's word, and the duration."""


def seen_since(visit: Visit) -> str | None:
    """The time since which the errors of the chosen span were seen."""
    span = SPANS.get(visit.query.get("since", ""))
    return None if span is None else (visit.now - timedelta(milliseconds=to_ms(span, "since"))).isoformat()


def copied_list(visit: Visit) -> dict[str, str] | None:
    """The list of this page as CLI, curl and Python; None where the page is no list."""
    found = LISTS.get(f"{visit.path}?type={visit.query.get('type')}") or LISTS.get(visit.path)
    if found is None:
        return None
    filters: dict[str, Any] = {name: visit.query.get(name, "").strip() for name in found.filters}
    asked = filters
    if "since" in filters:
        filters, asked = filters | {"since": SPANS.get(filters["since"])}, filters | {"since": seen_since(visit)}
    if filters.get("blocked"):
        filters, asked = {"blocked": True}, {"blocked": "true"}
    return copied(visit, found, filters, asked, visit.whose if visit.path not in _OF_ALL else None)


def copied(
    visit: Visit, of: Listing, filters: Mapping[str, Any], asked: Mapping[str, Any], whose: str | None
) -> dict[str, str]:
    """A list with these filters, which the API calls `asked`, as CLI, curl and Python."""
    pairs = [(name, each) for name, value in asked.items() for each in _several(value)]
    query = ("&" if "?" in of.path else "?") + urlencode(pairs) if pairs else ""
    command = " ".join([f"headway {of.cli}", *filter_flags(filters)])
    address = quoted([f"{visit.origin}{PREFIX}{of.path}{query}"])
    return {
        "CLI": of_tenant_in_cli(command, whose) if of is not LISTS["/queues"] else command,  # counts for all tenants
        "curl": f"{curl(visit)} {address}",
        "Python": of_tenant_in_python(f"app.{of.python}({arguments(filters)})", whose),
    }


def curl(visit: Visit) -> str:
    """The beginning of a request as this visitor."""
    tenant = f" {quoted(['-H', f'Headway-Tenant: {visit.tenant}'])}" if visit.tenant else ""
    return f'curl -H "Authorization: Bearer $HEADWAY_KEY"{tenant}'


def filter_flags(filters: Mapping[str, Any]) -> list[str]:
    """The flags of a command for these filters; a page can search in more ways, and those are left out."""
    return [
        quoted(flag(name, each if each is True else str(each)))
        for name, value in filters.items()
        for each in _several(value)
        if name not in _NOT_IN_CLI
    ]


def arguments(filters: Mapping[str, Any]) -> str:
    """These filters as arguments of a call.

    >>> arguments({"kind": ["a", "b"], "status": ["dead"], "tag": [], "blocked": True})
    'kind=["a", "b"], status="dead", blocked=True'
    """
    given = {_IN_PYTHON.get(name, name): _several(value) for name, value in filters.items() if name != "q"}
    return ", ".join(f"{name}={_literal(name, values)}" for name, values in given.items() if values)


def of_tenant_in_cli(command: str, tenant: str | None) -> str:
    return command if tenant is None else f"{command} {quoted(flag('tenant', tenant))}"


def of_tenant_in_python(call: str, tenant: str | None) -> str:
    """A tenant that is known by its id only is given as one.

    >>> of_tenant_in_python("app.jobs()", "acme")
    'app.tenant("acme").jobs()'
    """
    if tenant is None:
        return call
    named = f"UUID({json.dumps(tenant)})" if is_id(tenant) else json.dumps(tenant)
    return call.replace("app.", f"app.tenant({named}).", 1)


def _several(value: Any) -> list[Any]:
    return [each for each in (value if isinstance(value, (list, tuple)) else [value]) if each]


def _literal(name: str, values: list[Any]) -> str:
    if values == [True]:
        return "True"
    if name.startswith("created_"):
        return f"datetime.fromisoformat({json.dumps(values[0])})"
    return json.dumps(values if len(values) > 1 or name == "ids" else values[0], ensure_ascii=False)
