"""Limits: how many jobs of a queue, kind, tenant or key may run at once, start in a time, or wait."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from headway.errors import QueueFull
from headway.model import refusals

Scope = Literal["queue", "kind", "tenant"]
EVERY_TENANT = "*"
QUOTAS = ("max_pending", "max_bytes", "max_events", "max_schedules", "max_group", "max_fan_out")
"""Limits that bound what a tenant may store; a call that would exceed one is refused as a whole."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator set; None is no limit. It overrides what the jobs themselves carry.

    `name` is the queue, the kind, or the tenant's id (`*`: every tenant that has no limit of its own).
    A queue and a tenant have no rate. Only a tenant has quotas: how many of its jobs may wait (`max_pending`) with how
    many bytes of payload (`max_bytes`), how many events (`max_events`), how many schedules and triggers it may have
    (`max_schedules`), how many members a group (`max_group`) and how many children and followers a job (`max_fan_out`).
    """

    scope: Scope
    name: str
    max_running: int | None = None
    rate_count: int | None = None
    rate_period_ms: int | None = None
    rate_burst: int | None = None
    max_pending: int | None = None
    max_bytes: int | None = None
    max_events: int | None = None
    max_schedules: int | None = None
    max_group: int | None = None
    max_fan_out: int | None = None

    @property
    def etag(self) -> str:
        """Changes whenever the limit does."""
        return blake2b(msgspec.json.encode(self), digest_size=12).hexdigest()

    @property
    def empty(self) -> bool:
        return self.max_running is None and self.rate_count is None and not self.quotas

    @property
    def quotas(self) -> dict[str, int]:
        """Those that are set, by name."""
        return {name: value for name in QUOTAS if (value := getattr(self, name)) is not None}


class LimitInUse(msgspec.Struct, frozen=True):
    """A limit with what runs and waits under it; None where that is not one number."""

    limit: Limit
    tenant: str | None  # the name of the tenant that it is of
    running: int | None
    limited: int | None  # how many are held back by it


class Quotas(msgspec.Struct, frozen=True):
    """What one tenant may store; None: no limit."""

    tenant_id: str
    slug: str
    max_pending: int | None
    max_bytes: int | None
    max_events: int | None
    max_schedules: int | None
    max_group: int | None
    max_fan_out: int | None
    suspended: int = 0

    @property
    def of_jobs(self) -> bool:
        return any(most is not None for most in (self.max_pending, self.max_bytes, self.max_group, self.max_fan_out))

    def exceeded(self, name: str, found: int, new: int) -> QueueFull:
        """The refusal; `found` counts the new ones, too."""
        return refusals.over_quota(name, self.slug, has=found - new, more=new, most=getattr(self, name))


class Usage(msgspec.Struct, frozen=True):
    """A limit key with what runs under it now and what waits for it (counted up to 10,000)."""

    key: str
    running: int
    waiting: int


# what `jobs.limited_by` says: the key that a limited-out job waits for, with a letter for its kind in front. Neither
# tenants' ids nor kinds have a | in them, so that two keys are the same only where all their parts are.


def partition_key(tenant_id: str, partition: str) -> str:
    return f"p:{tenant_id}|{partition}"


def concurrency_key(tenant_id: str, kind: str, key: str | None) -> str:
    return f"k:{kind}" if key is None else f"c:{tenant_id}|{kind}|{key}"


def queue_key(queue: str) -> str:
    """Asked for how many run in a queue; no job is ever set aside for it."""
    return f"q:{queue}"


def tenant_key(tenant_id: str) -> str:
    return f"t:{tenant_id}"


def rate_key(tenant_id: str, kind: str, key: str | None) -> str:
    return f"r:{kind}" if key is None else f"r:{tenant_id}|{kind}|{key}"


def letter_and_parts(key: str) -> tuple[str, list[str]]:
    """A key taken apart again.

    >>> letter_and_parts(concurrency_key("0199", "sync:user", "a|b"))
    ('c', ['0199', 'sync:user', 'a|b'])
    """
    letter, _, rest = key.partition(":")
    return letter, rest.split("|", 1 if letter == "p" else 2)
