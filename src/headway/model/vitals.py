"""Vitals: how a database and its fleet are right now, for metrics."""

from __future__ import annotations

import msgspec

from headway.model.status import Status

MOST_COUNTED = 100_000
"""Jobs are counted no further than this, per status: a larger backlog is this large in the metrics."""


class Depth(msgspec.Struct, frozen=True):
    """How many jobs of a tenant and queue are in a status."""

    tenant_id: str
    queue: str
    status: Status
    count: int
    oldest_ms: float | None  # of queued ones: how long the oldest that was counted has waited


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    depths: list[Depth]
    workers: int  # whose lease holds
    heartbeat_ms: float | None  # the age of the oldest heartbeat of these
    schedule_lag_ms: float  # how late the most overdue schedule is; 0: none is
    event_lag_ms: float  # how old the oldest event is that nobody has handled
    oldest_transaction_ms: float | None = None  # PostgreSQL: of any session, which may hold back vacuum
    database_bytes: int | None = None  # PostgreSQL; a SQLite file's size is the file's
    wal_bytes: int | None = None  # PostgreSQL, if the login may see it (pg_monitor)


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the database itself is in trouble; None: not known."""

    answer_ms: float | None = None  # how long it took to answer
    free_bytes: int | None = None  # SQLite: on the file's disk
    oldest_transaction_ms: float | None = None  # PostgreSQL: of this database, other than the one that asks
    ids_used: float | None = None  # PostgreSQL: which part of the transaction ids until it refuses to write
