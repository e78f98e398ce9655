"""Signals: named messages, put durably into the inbox of a machine, until a step has consumed them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from headway.errors import NotFound
from headway.model import refusals
from headway.model.status import FINISHED, Status

INBOX_BYTES = 8 * 2**20
INBOX_SIGNALS = 1_000
"""How much of an inbox a step gets at once; the rest stays unconsumed, for a later step."""

SignalStatus = Literal["pending", "consumed", "undelivered"]


class NewSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to be sent, already checked: to a job id, or to the job of a kind that has a unique key in scope."""

    id: str
    name: str
    payload: str = "null"  # JSON text
    job_id: str | None = None
    kind: str | None = None
    unique_key: str | None = None
    tenant: str | None = None
    tenant_id: str | None = None  # whose job it must be; with a unique key, None is the default tenant
    dedup_key: str | None = None
    trace_id: str | None = None  # of what sent it
    created_by: str | None = None  # who sent it, where that is known


class Sent(msgspec.Struct, frozen=True):
    """What became of one signal: `created` is False where the job has one of that dedup_key (or id) already."""

    id: str  # the signal that is there
    job_id: str
    queue: str  # the job's
    created: bool


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal as it is stored. `undelivered` is one that its job ended without having consumed."""

    id: str
    job_id: str
    name: str
    payload: Any
    dedup_key: str | None
    sent_at: datetime
    status: SignalStatus
    consumed_at: datetime | None
    fence: int | None  # the execution that consumed it
    created_by: str | None = None  # who sent it, where that is known: a key of the HTTP API


class Received(msgspec.Struct, frozen=True, array_like=True):
    """An unconsumed signal as a claim brings it."""

    id: str
    name: str
    payload: Any
    sent_at: int  # microseconds
    dedup_key: str | None
    trace_id: str | None = None


def is_internal(name: str) -> bool:
    """Whether it is one of the engine's own, which users neither send nor see.

    >>> is_internal("$cancel"), is_internal("payment")
    (True, False)
    """
    return name.startswith("$")


def most_wanted(names: Sequence[str], awaiting: Sequence[str]) -> list[int]:
    """The indexes of an inbox in the order of delivery, where not all fit at once: first one of each name that is
    awaited, then the others of those names, then the rest.

    >>> most_wanted(["noise", "go", "go", "stop"], ["go", "stop"])
    [1, 3, 2, 0]
    """
    ranks: list[tuple[int, int]] = []
    seen: set[str] = set()
    for index, name in enumerate(names):
        ranks.append((2 if name not in awaiting else 1 if name in seen else 0, index))
        seen.add(name)
    return [index for _, index in sorted(ranks)]


def satisfied(names: Sequence[str], match: str, there: Iterable[str]) -> bool:
    """Whether signals of these names are what an await of `names` waits for; both stores decide by the same rule."""
    found = set(there)
    return all(name in found for name in names) if match == "all" else any(name in found for name in names)


def reads_nothing(status: Status, *, is_machine: bool, ran: bool) -> bool:
    """Whether nothing in the job will ever read a signal: it is over, or a plain job that has run."""
    return status in FINISHED or (ran and not is_machine)


def no_receiver(signal: NewSignal) -> NotFound:
    """There is no such job, or it is another tenant's."""
    if signal.job_id is not None:
        return refusals.signal_to_nobody(signal.job_id)
    return refusals.signal_to_no_key(signal.kind, signal.unique_key)
