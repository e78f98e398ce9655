"""Schedules declared in code: `@app.schedule(…)` keeps them until a worker writes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.define import checks
from headway.define.enqueuer import DEFAULT_PAYLOAD_LIMIT
from headway.define.kind import Kind
from headway.define.option_types import DeclaredScheduleOptions
from headway.define.triggers import new_schedule
from headway.errors import InvalidJob
from headway.model.ids import DEFAULT_TENANT_ID, known_id, tenant_ref
from headway.model.render import placeholders
from headway.model.trigger import NewTrigger

_OPTIONS = tuple(DeclaredScheduleOptions.__annotations__)


class DeclaredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule of a kind."""

    kind: str
    tenant: str | None  # None: the app's own
    given: Mapping[str, Any]
    run_on_start: bool = False

    @property
    def name(self) -> str:
        return str(self.given["name"])

    def row(self, tenant: str, now: datetime, *, tz: str) -> NewTrigger:
        """Its row. `tenant` and `tz` are the app's, for schedules that name none."""
        tenant = self.tenant or tenant
        given = {"tz": tz, **self.given}
        row = new_schedule(given, tenant=tenant, tenant_id=known_id(tenant), now=now, limit=DEFAULT_PAYLOAD_LIMIT)
        return msgspec.structs.replace(row, run_on_start=self.run_on_start)


def declare_schedule(kind: Kind[..., Any], cron: str | None, options: DeclaredScheduleOptions) -> DeclaredSchedule:
    """Check it at definition, where the mistake is; raises `InvalidJob`, `InvalidPayload`."""
    for option in options:
        if option == "enabled":
            raise InvalidJob("a schedule in the code is enabled; pause it with headway schedules pause, which lasts")
        if option not in _OPTIONS:
            raise InvalidJob(checks.unknown_option(option, ["cron", *_OPTIONS], "@schedule"))
    given: dict[str, Any] = {"cron": cron, **options}
    tenant = given.pop("tenant", None)
    run_on_start = given.pop("run_on_start", None)
    if run_on_start not in (None, True, False):
        raise InvalidJob(f"run_on_start={run_on_start!r} must be True or False")
    given = {"name": kind.name, **{name: value for name, value in given.items() if value is not None}}
    given["kind"] = kind.name
    made = DeclaredSchedule(
        kind=kind.name,
        tenant=None if tenant is None else tenant_ref(tenant),
        given=given,
        run_on_start=bool(run_on_start),
    )
    new_schedule(
        given, tenant="default", tenant_id=DEFAULT_TENANT_ID, now=datetime.now(UTC), limit=DEFAULT_PAYLOAD_LIMIT
    )
    payload = given.get("payload") or {}
    if not placeholders(payload):
        kind.build_from(payload)
    return made
