"""The worker: claims, runs and settles jobs, one asyncio process."""

from headway.worker.errand import Errand
from headway.worker.hooks import EVENTS, Event, Hooks
from headway.worker.process import supervise
from headway.worker.run import Middleware
from headway.worker.signals import run, run_with_signals
from headway.worker.summary import Summary
from headway.worker.wake import Wake
from headway.worker.worker import Worker

__all__ = [
    "EVENTS",
    "Errand",
    "Event",
    "Hooks",
    "Middleware",
    "Summary",
    "Wake",
    "Worker",
    "run",
    "run_with_signals",
    "supervise",
]
