"""Tenants by name, for tests that give the store their ids themselves."""

from __future__ import annotations

import uuid

from headway.model.ids import DEFAULT_TENANT_ID


def tenant_id(name: str) -> str:
    """An id of this name's own; the store writes it with the name when something of the tenant comes."""
    return DEFAULT_TENANT_ID if name == "default" else str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
