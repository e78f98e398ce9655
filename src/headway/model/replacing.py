"""Which jobs an enqueue with a taken unique key may replace, and what of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from headway.model.job import REPLACEABLE, Replaceable
from headway.model.status import Status

REPLACED: dict[Replaceable, tuple[str, ...]] = {
    **{name: (name,) for name in REPLACEABLE},
    "payload": ("payload", "version", "step", "state"),  # a machine begins with the version that its payload is for
    "queue": ("queue", "home_queue"),
    "backoff": ("backoff_base_ms", "backoff_cap_ms"),
    "timeout": ("timeout_ms",),
    "partition": ("partition", "home_partition"),
    "concurrency": ("concurrency", "concurrency_key"),
    "rate": ("rate_count", "rate_period_ms", "rate_burst", "rate_key"),
}
"""The columns that each name of `replace=` means; both stores have the same list."""

LIMITS: frozenset[str] = frozenset(
    column for name in ("queue", "partition", "concurrency", "rate") for column in REPLACED[name]
)
"""The columns that decide under which limits a job waits: after a change of them, they are checked again."""


def is_replaceable(status: Status, fence: int, *, continues: bool) -> bool:
    """Whether the job that has the key never ran: `continues` says that it retries another, or was forked."""
    return status in ("queued", "scheduled", "held") and fence == 0 and not continues


def columns_of(names: Collection[Replaceable]) -> Iterable[str]:
    """The columns that `replace=` means; no names mean all."""
    return (column for name in names or REPLACEABLE for column in REPLACED[name])


def successor_scope(scope: Iterable[str]) -> tuple[Status, ...]:
    """The scope of a job that waits, held, for the end of the one that has its key: in line for the key."""
    marked: list[Any] = ["+held" if status == "held" else status for status in scope]
    return (*marked, *(["+held"] if "+held" not in marked else []))
