"""Headway: a durable work engine for Python, on a SQLite file or on PostgreSQL."""

from headway.app import Headway
from headway.define import Context, Registry
from headway.model.job import Attempt, Enqueued, Job, Outcome
from headway.model.outcome import Cancel, Retry, Snooze
from headway.store.migrate import migrate

__version__ = "0.1.0"

__all__ = [
    "Attempt",
    "Cancel",
    "Context",
    "Enqueued",
    "Headway",
    "Job",
    "Outcome",
    "Registry",
    "Retry",
    "Snooze",
    "migrate",
]
