"""Schedules that the code declares: what `@app.schedule(…)` keeps until a worker writes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from headway.define.enqueuer import DEFAULT_PAYLOAD_LIMIT
from headway.define.kind import Kind
from headway.define.triggers import new_schedule
from headway.errors import InvalidJob
from headway.model.ids import DEFAULT_TENANT_ID, known_id, tenant_ref
from headway.model.render import places
from headway.model.trigger import NewTrigger


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule of a kind, as the code has it."""

    kind: str
    tenant: str | None  # None: the app's own
    given: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.given["name"])

    def row(self, tenant: str, now: datetime) -> NewTrigger:
        """As it is declared by an app that acts for this tenant."""
        tenant = self.tenant or tenant
        return new_schedule(self.given, tenant=tenant, tenant_id=known_id(tenant), now=now, limit=DEFAULT_PAYLOAD_LIMIT)


def scheduled(kind: Kind[..., Any], given: Mapping[str, Any], tenant: str | UUID | None) -> Scheduled:
    """Check it now, so that a mistake is seen where it was made; raises `InvalidJob`, `InvalidPayload`."""
    given = {"name": kind.name, **{name: value for name, value in given.items() if value is not None}}
    given["kind"] = kind.name
    if "enabled" in given:
        raise InvalidJob("a schedule in the code is enabled; pause it with headway schedules pause, which stays")
    made = Scheduled(kind=kind.name, tenant=None if tenant is None else tenant_ref(tenant), given=given)
    new_schedule(
        given, tenant="default", tenant_id=DEFAULT_TENANT_ID, now=datetime.now(UTC), limit=DEFAULT_PAYLOAD_LIMIT
    )
    payload = given.get("payload") or {}
    if not places(payload):
        kind.build_from(payload)
    return made
