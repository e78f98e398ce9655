"""Lists of jobs that are kept for a while, so that a bulk action hits exactly the jobs that somebody saw."""

from __future__ import annotations

import msgspec

KEPT_MS = 10 * 60 * 1_000
MOST = 100_000


class NewJobList(msgspec.Struct, frozen=True, kw_only=True):
    """A list to keep: for whom, which action, and on which jobs."""

    token: str
    tenant_id: str | None
    key_id: str
    action: str  # JSON text
    ids: tuple[str, ...]


class JobListPart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a list that comes next."""

    action: str
    total: int
    position: int  # how many come before this part
    ids: tuple[str, ...]
