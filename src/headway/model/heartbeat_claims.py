"""What the store answers to a heartbeat that names the claims which a worker still has."""

from __future__ import annotations

import msgspec

from headway.model.job import Delivery


class Forgotten(msgspec.Struct, frozen=True):
    """A claim that the worker made before its last heartbeat and does not name: it may have begun, or never arrived."""

    id: str
    fence: int
    delivery: Delivery


class ClaimsReply(msgspec.Struct, frozen=True):
    lease_expires_at: int  # microseconds
    canceling: list[tuple[str, int]]  # those of its claims that were asked to stop
    lost: list[tuple[str, int]]  # named, but not its own (any more)
    forgotten: list[Forgotten]
