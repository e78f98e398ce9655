"""Hooks: the application's callbacks for what happens to jobs and workers, called after the commit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from headway.errors import ConfigError
from headway.logs import get_logger
from headway.model.fleet import Reaped
from headway.model.job import Claim, Settlement

log = get_logger("headway.worker")

EVENTS = (
    "job.started",
    "job.settled",
    "job.succeeded",
    "job.stepped",
    "job.retried",
    "job.snoozed",
    "job.dead",
    "job.failed",
    "job.canceled",
    "worker.started",
    "worker.stopped",
    "worker.reaped",
)


@dataclass(frozen=True, slots=True)
class Event:
    """What a callback gets: `claim` for jobs, `settlement` once settled, `reaped` for worker.reaped."""

    name: str
    worker_id: str
    claim: Claim | None = None
    settlement: Settlement | None = None
    reaped: tuple[Reaped, ...] = ()

    @property
    def job_id(self) -> str | None:
        return self.claim.id if self.claim else None

    @property
    def kind(self) -> str | None:
        return self.claim.kind if self.claim else None

    @property
    def queue(self) -> str | None:
        return self.claim.queue if self.claim else None

    @property
    def tenant_id(self) -> str | None:
        return self.claim.tenant_id if self.claim else None

    @property
    def fence(self) -> int | None:
        return self.claim.fence if self.claim else None

    @property
    def error(self) -> str | None:
        return self.settlement.error if self.settlement else None


Callback = Callable[[Event], Any]


class Hooks:
    """The callbacks of each event. Sync ones run on the event loop, so they must be quick; async ones run as tasks.

    >>> hooks = Hooks()
    >>> hooks.on("job.dead", lambda event: print(event.job_id, event.error))
    """

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def on(self, name: str, callback: Callback) -> None:
        """Call it for every such event; raises `ConfigError` for an event that does not exist."""
        if name not in EVENTS:
            raise ConfigError(f"there is no event {name!r} to listen to: the events are {', '.join(EVENTS)}")
        self._callbacks.setdefault(name, []).append(callback)

    def listens(self, name: str) -> bool:
        return name in self._callbacks

    @property
    def listens_to_settling(self) -> bool:
        return any(name.startswith("job.") and name != "job.started" for name in self._callbacks)

    def emit(self, event: Event) -> None:
        """Call the callbacks; what they raise is logged and stops here."""
        for callback in self._callbacks.get(event.name, ()):
            try:
                answer = callback(event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _log_failure(event, error)
                continue
            if inspect.isawaitable(answer):
                task = asyncio.ensure_future(_finish(event, answer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def finish(self, timeout_s: float) -> None:
        """Wait a while for async callbacks that still run."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)


async def _finish(event: Event, answer: Awaitable[Any]) -> None:
    try:
        await answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _log_failure(event, error)


def _log_failure(event: Event, error: BaseException) -> None:
    log.error("a hook failed", hook=event.name, job_id=event.job_id, kind=event.kind, exc_info=error)
