"""Definitions: what is stored of a kind, so that people and programs without its code can use it."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import msgspec

_IDS = uuid.UUID("6ad2b3d0-1f0f-4b0e-9a57-0c9d6c0f1e5b")
FIELDS = ("description", "schema", "timeout_ms", "max_attempts", "queue", "enqueuer_may", "tenants")
"""What an operator may change; a field that was changed no longer follows the code."""


class NewDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A kind as the code has it: written at a worker's start, under what an operator changed."""

    kind: str
    description: str = ""
    schema: str | None = None  # JSON text
    timeout_ms: int | None = None
    max_attempts: int = 5
    queue: str = "default"
    enqueuer_may: str = "{}"  # JSON text: the bounds of options that untrusted enqueuers may set
    tenants: tuple[str, ...] | None = None  # names or ids of those whose jobs may be of it; None: all
    policy: str = "{}"  # JSON text: the other fields of NewJob that the kind sets, where they are not the default
    computed: bool = False  # keys of its jobs are made by code: only a process that has the kind can enqueue it right


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A kind as it is stored."""

    kind: str
    description: str
    schema: Any  # the JSON Schema of its payload, or None
    timeout_ms: int | None
    max_attempts: int
    queue: str
    enqueuer_may: dict[str, Any]  # which of model/restricted.py's options untrusted enqueuers may set: name to bound
    policy: dict[str, Any]
    computed: bool
    active: bool  # False: enqueues of it are refused; what is stored already runs
    changed: tuple[str, ...]  # which of FIELDS an operator changed
    origin: str  # code, or stored: no code has written it yet
    revision: int  # goes up with every write
    created_at: datetime
    updated_at: datetime
    tenants: tuple[str, ...] | None = None  # names or ids of those whose jobs may be of it; None: all
    tenant_ids: tuple[str, ...] | None = None  # the ids of those that there are

    def is_for(self, tenant_id: str) -> bool:
        """Whether jobs of this tenant may be of the kind; for others it is as if there were no such kind."""
        return self.tenant_ids is None or tenant_id in self.tenant_ids

    @property
    def needs_code(self) -> bool:
        """Whether only a process that has the kind's code can enqueue a job of it, unless all of its keys are given:
        templates of keys are stored, and every process renders them."""
        return self.computed and self.policy.get("code_keys") != []

    @property
    def id(self) -> str:
        """Its id: made from the kind, so the same in every database."""
        return str(uuid.uuid5(_IDS, self.kind))


class DefinitionChange(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator sets on a definition; UNSET leaves it as it is."""

    description: str | msgspec.UnsetType = msgspec.UNSET
    schema: str | msgspec.UnsetType | None = msgspec.UNSET  # JSON text
    timeout_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    max_attempts: int | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType = msgspec.UNSET
    enqueuer_may: str | msgspec.UnsetType = msgspec.UNSET  # JSON text
    tenants: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    active: bool | msgspec.UnsetType = msgspec.UNSET
    reset: tuple[str, ...] = ()  # fields that follow the code again
