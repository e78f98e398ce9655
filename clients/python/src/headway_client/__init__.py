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
)
from headway_client.outcomes import Await, Done, Fatal, Next, Replay, Retry, Sleep, Spawn, Stop
from headway_client.settings import Settings
from headway_client.values import Artifact, Attempt, Enqueued, Job, Outcome, Page
from headway_client.version import __version__
from headway_client.worker import Worker

__all__ = [
    "ApiError",
    "Artifact",
    "AsyncClient",
    "Attempt",
    "Await",
    "Client",
    "ConfigError",
    "Context",
    "Done",
    "Duplicate",
    "Enqueued",
    "Fatal",
    "HeadwayError",
    "Invalid",
    "Job",
    "JobFailed",
    "LeaseLost",
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
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "Worker",
    "__version__",
]
