"""How long a caller waits for a database that somebody else has locked."""

from __future__ import annotations

from contextvars import ContextVar

lock_patience_s: ContextVar[float] = ContextVar("headway_lock_patience", default=float("inf"))
"""How long the writes of this task wait for the lock of a SQLite file while nobody writes to it: whoever has the lock
has stopped, or forgotten it. While others write, it is somebody's turn soon, and waiting is right."""

comes_last: ContextVar[bool] = ContextVar("headway_comes_last", default=False)
"""Whether the writes of this task take long, and let those of others pass: one writer has a SQLite file at a time."""
