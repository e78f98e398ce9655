"""Runs ops inside the caller's own transaction, on a connection of whatever supported library."""

from headway.store.foreign.after_commit import after_commit
from headway.store.foreign.postgres import postgres_session
from headway.store.foreign.session import AExecute, Execute, Session
from headway.store.foreign.sqlite import astill_open, sqlite_session, still_open

__all__ = [
    "AExecute",
    "Execute",
    "Session",
    "after_commit",
    "astill_open",
    "postgres_session",
    "sqlite_session",
    "still_open",
]
