"""Headway over HTTP: enqueue jobs, look at them, and run them."""

from headway_client.aio import AsyncClient
from headway_client.client import Client
from headway_client.context import Context
from headway_client.errors import (
    ApiError,
    ConfigError,
    Duplicate,
    HeadwayError,
    Invalid,
    JobFailed,
    LeaseLost,
    NotAllowed,
    NotFinished,
    NotFound,
    TooMany,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from headway_client.outcomes import Await, Cancel, Done, Fatal, Next, Replay, Retry, Sleep, Spawn, Stop
from headway_client.settings import Settings
from headway_client.streams import StreamEvent
from headway_client.values import Artifact, Attempt, Enqueued, Gone, Job, JournalRow, LogText, Outcome, Page
from headway_client.version import __version__
from headway_client.worker import Worker

__all__ = [
    "ApiError",
    "Artifact",
    "AsyncClient",
    "Attempt",
    "Await",
    "Cancel",
    "Client",
    "ConfigError",
    "Context",
    "Done",
    "Duplicate",
    "Enqueued",
    "Fatal",
    "Gone",
    "HeadwayError",
    "Invalid",
    "Job",
    "JobFailed",
    "JournalRow",
    "LeaseLost",
    "LogText",
    "Next",
    "NotAllowed",
    "NotFinished",
    "NotFound",
    "Outcome",
    "Page",
    "Replay",
    "Retry",
    "Settings",
    "Sleep",
    "Spawn",
    "Stop",
    "StreamEvent",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Worker",
    "__version__",
]
