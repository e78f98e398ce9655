"""Templates: a kind, a payload and options under a name, for people and schedules to use again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class NewTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template to be stored: a kind, a payload and options under a name."""

    id: str
    tenant: str = "default"
    tenant_id: str
    name: str
    kind: str
    payload: str = "{}"  # JSON text
    options: str = "{}"  # JSON text: options of `using()`, as people write them
    description: str = ""
    created_by: str | None = None


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A template as it is stored; `revision` counts its changes, and a job made from it keeps the number."""

    id: str
    tenant_id: str
    tenant: str
    name: str
    kind: str
    payload: Any
    options: dict[str, Any]
    description: str
    revision: int
    created_by: str | None
    created_at: datetime
    updated_at: datetime


class TemplateChange(msgspec.Struct, frozen=True, kw_only=True):
    """What `change_template` sets; UNSET leaves it as it is."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    kind: str | msgspec.UnsetType = msgspec.UNSET
    payload: str | msgspec.UnsetType = msgspec.UNSET
    options: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
