"""Refuses a write that would wait for its own caller: for the lock of a transaction that the caller has open."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from headway.errors import NotAllowed

_open: ContextVar[tuple[str, Callable[[], bool]] | None] = ContextVar("headway_own_transaction", default=None)


def opened(path: str, is_open: Callable[[], bool]) -> None:
    """The code that runs here has written to this file in its own transaction, which `is_open` until it ends."""
    _open.set((path, is_open))


def check_beside(path: str) -> None:
    """Raises `NotAllowed` for a write beside that transaction."""
    found = _open.get()
    if found is not None and found[0] == path and found[1]():
        raise NotAllowed(
            f"this code has settled its job in its own transaction on {path}, which is still open and holds the file's "
            "write lock: this write would wait for it until it timed out. Nothing was written: pass conn=, so that it "
            "is part of that transaction, or do it after the commit"
        )
