"""How a kind finds the app that enqueues its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headway.clock import SystemClock
from headway.errors import InvalidJob
from headway.model.job import Enqueued, NewJob
from headway.model.signal import NewSignal, Sent

DEFAULT_PAYLOAD_LIMIT = 1_048_576
DEFAULT_SPILL_LIMIT = 67_108_864

_host = SystemClock()


EnqueueMiddleware = Callable[[NewJob], Mapping[str, Any] | None]
"""Sees each new job and gives what to change of it: options of `using()`, and the payload."""


class Enqueuer(Protocol):
    """What an app offers to its kinds; a `clock` attribute, if it has one, judges `expires_at`."""

    @property
    def payload_limit(self) -> int:
        """The most bytes of JSON that a payload may have."""
        ...

    @property
    def spill_limit(self) -> int:
        """The same of kinds whose payloads may spill to artifacts."""
        ...

    def learn(self, conn: Any) -> None:
        """Read what operators changed of kinds, unless that was read a moment ago."""
        ...

    async def alearn(self, conn: Any) -> None:
        """The same, without blocking."""
        ...

    def enqueue_new(self, job: NewJob, conn: Any) -> Enqueued:
        """Enqueue one job, in `conn`'s transaction if it is not None."""
        ...

    async def aenqueue_new(self, job: NewJob, conn: Any) -> Enqueued:
        """The same, without blocking."""
        ...

    def signal_new(self, signal: NewSignal, conn: Any) -> Sent:
        """Send one signal, in `conn`'s transaction if it is not None."""
        ...

    async def asignal_new(self, signal: NewSignal, conn: Any) -> Sent:
        """The same, without blocking."""
        ...


class Binding:
    """The apps that a registry's kinds belong to; shared by all its kinds, later ones included."""

    __slots__ = ("_enqueuers", "redefined")

    def __init__(self) -> None:
        self._enqueuers: list[Enqueuer] = []
        self.redefined: dict[str, Any] = {}  # what operators changed of these kinds, by name

    @property
    def payload_limit(self) -> int:
        """The smallest limit of its apps, since a job may go to any. Read each time: apps read their settings late."""
        if len(self._enqueuers) == 1:
            return self._enqueuers[0].payload_limit
        return min((each.payload_limit for each in self._enqueuers), default=DEFAULT_PAYLOAD_LIMIT)

    @property
    def spill_limit(self) -> int:
        """The same for kinds whose payloads may spill."""
        limits = [max(each.payload_limit, each.spill_limit) for each in self._enqueuers]
        return min(limits, default=DEFAULT_SPILL_LIMIT)

    def add(self, enqueuer: Enqueuer) -> None:
        if not any(known is enqueuer for known in self._enqueuers):
            self._enqueuers.append(enqueuer)

    def __iter__(self) -> Any:
        return iter(self._enqueuers)

    def sole(self, kind: str) -> Enqueuer:
        """The one app; raises `InvalidJob` when there is none, or when it is not clear which."""
        match self._enqueuers:
            case [enqueuer]:
                return enqueuer
            case []:
                raise InvalidJob(
                    f'kind "{kind}" belongs to no app yet, so nothing can be enqueued: add its registry to '
                    "one with app.include(registry) first, or use app.enqueue(kind.build(…))"
                )
            case several:
                raise InvalidJob(
                    f'kind "{kind}" belongs to {len(several)} apps, and it is not clear which one you mean: '
                    "use app.enqueue(kind.build(…))"
                )

    def now(self) -> int:
        """The time in microseconds, by the first app's clock or else the host's."""
        clock = getattr(self._enqueuers[0], "clock", _host) if self._enqueuers else _host
        return int(clock.now())
