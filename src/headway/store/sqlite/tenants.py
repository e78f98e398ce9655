"""Tenants: whoever is named first gets its row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headway.model.ids import DEFAULT_TENANT_ID
from headway.store.ops import Batch, Steps
from headway.store.sqlite.sql import statements

_TENANT = statements("enqueue")["tenant"]


class Owned(Protocol):
    """What a tenant owns, and how that was named."""

    @property
    def tenant(self) -> str | None: ...

    @property
    def tenant_id(self) -> str: ...


def name_tenants(owned: Iterable[Owned], now: int) -> Steps[None]:
    """Write the tenants of these; the default one has its row from the start."""
    others = {each.tenant_id: each.tenant for each in owned if each.tenant_id != DEFAULT_TENANT_ID}
    if others:
        yield Batch(_TENANT, [(key, slug or key, now) for key, slug in others.items()])
