"""The worker: claims, runs and settles jobs, one asyncio process."""

from headway.worker.beside import working
from headway.worker.hooks import EVENTS, Event, Hooks
from headway.worker.os_signals import run_with_signals, run_worker, stopped_by_signals, stopped_with_supervisor
from headway.worker.process_supervisor import supervise_processes
from headway.worker.run import Middleware
from headway.worker.single_job import SingleJobWorker
from headway.worker.summary import Summary
from headway.worker.wake import Wake
from headway.worker.worker import Worker

__all__ = [
    "EVENTS",
    "Event",
    "Hooks",
    "Middleware",
    "SingleJobWorker",
    "Summary",
    "Wake",
    "Worker",
    "run_with_signals",
    "run_worker",
    "stopped_by_signals",
    "stopped_with_supervisor",
    "supervise_processes",
    "working",
]
