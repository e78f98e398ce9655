"""Every list that a page shows, and how to get the same from a shell, over HTTP and from Python."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from headway.api.routes import PREFIX
from headway.dashboard.visit import Visit

LISTS: dict[str, tuple[str, str, str]] = {
    "/": ("overview", "/overview", "app.overview()"),
    "/errors": ("errors list", "/errors", "app.errors()"),
    "/machines": ("machines steps", "/machines", "app.step_counts()"),
    "/trains": ("trains list", "/trains", "app.trains()"),
    "/triggers": ("schedules list", "/jobs/triggers", 'app.triggers(type="any")'),
    "/events": ("events list", "/events", "app.events()"),
    "/templates": ("templates list", "/templates", "app.templates()"),
    "/connectors": ("connectors list", "/connectors", "app.connectors()"),
    "/artifacts": ("artifacts list", "/artifacts", "app.artifacts()"),
    "/queues": ("queues list", "/queues", "app.queues()"),
    "/limits": ("limits list", "/limits", "app.limits_in_use()"),
    "/workers": ("workers list", "/workers", "app.workers()"),
    "/tenants": ("tenants list", "/admin/tenants", "app.tenants()"),
    "/definitions": ("definitions list", "/definitions", "app.definitions()"),
    "/keys": ("keys list", "/keys", "app.api_keys()"),
    "/audit": ("audit", "/audit", "app.audit_log()"),
}
"""Path of the page: command, path of the API, and call. Jobs have filters, and say it on their page."""
_OF_ALL = ("/queues", "/limits", "/workers", "/tenants", "/definitions")  # no tenant has these for itself


def copied_list(visit: Visit) -> dict[str, str] | None:
    """The list of this page as CLI, curl and Python; None where the page is no list."""
    found = LISTS.get(visit.path)
    if found is None:
        return None
    cli, path, python = found
    tenant = f" -H 'Headway-Tenant: {visit.tenant}'" if visit.tenant else ""
    whose = None if visit.path in _OF_ALL else visit.whose
    return {
        "CLI": of_tenant_in_cli(f"headway {cli}", whose),
        "curl": f'curl -H "Authorization: Bearer $HEADWAY_KEY"{tenant} {shlex.quote(f"{visit.origin}{PREFIX}{path}")}',
        "Python": of_tenant_in_python(python, whose),
    }


def filter_flags(filters: Mapping[str, Any]) -> list[str]:
    """The flags of `headway jobs` for these filters; a page can search in more ways, and those are left out."""
    return [
        f"--{name.replace('_', '-')} {shlex.quote(str(each))}"
        for name, value in filters.items()
        for each in (value if isinstance(value, list) else [value])
        if each and name not in ("q", "train", "order")
    ]


def of_tenant_in_cli(command: str, tenant: str | None) -> str:
    return command if tenant is None else f"{command} --tenant {shlex.quote(tenant)}"


def of_tenant_in_python(call: str, tenant: str | None) -> str:
    return call if tenant is None else call.replace("app.", f"app.tenant({json.dumps(tenant)}).", 1)
