"""SyncFlow: the operations of a flow for a plain function, which runs in a thread, one operation at a time."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, overload
from uuid import UUID

from headway.define.context import Context
from headway.define.flow import Flow
from headway.define.flow_run import Dropped, FlowRun, Restarted
from headway.define.flow_step import step_function
from headway.define.kind import Kind
from headway.errors import FlowMisused
from headway.model.duration import Duration
from headway.model.job import NewJob, OnFailure
from headway.model.machine import Child

P = ParamSpec("P")
R = TypeVar("R")

_Request = Callable[[], Awaitable[Any]]


class FlowThread:
    """A plain function in its thread, and its flow's event loop, which carries out what it asks for. Only one of the
    two runs at a time: so the flow is at rest when the function waits for an operation, or has ended."""

    def __init__(self, run: FlowRun, function: Callable[[], Any]) -> None:
        self._run = run
        self._function = function
        self._ident: int | None = None
        self._lock = threading.Lock()
        self._given = threading.Semaphore(0)  # something is there for the thread
        self._inbox: list[Callable[[], Any]] = []
        self._asked: _Request | None = None
        self._ended = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._dropped = False
        self._computes = False
        self._idle: Callable[[], None] | None = None

    # in the thread

    def work(self) -> None:
        """Run the function to its end."""
        self._ident = threading.get_ident()
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error
        with self._lock:
            self._ended = True
            self._rest()

    def ask(self, request: _Request) -> Any:
        """Have an operation carried out, and wait for what it gives."""
        if threading.get_ident() != self._ident:
            raise FlowMisused(
                "an operation of a SyncFlow was asked for in another thread than its function's: only the function "
                "itself may; for several at once there is flow.calls(…)"
            )
        if self._dropped:
            raise Dropped
        with self._lock:
            self._asked = request
            self._rest()
        while True:
            self._given.acquire()
            if self._dropped:
                raise Dropped
            done, value = self._inbox.pop(0)()
            if done:
                return value

    def _rest(self) -> None:
        self._computes = False
        if self._idle is not None:
            self._idle()
            self._idle = None

    # on the worker's event loop

    def computes(self, when_idle: Callable[[], None]) -> bool:
        """Whether the function runs between two operations; then `when_idle` is called in its thread, once it rests."""
        with self._lock:
            if self._computes:
                self._idle = when_idle
            return self._computes

    def call(self, fn: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a step in the thread, whose function waits for it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def inside() -> tuple[bool, None]:
            try:
                value, error = fn(), None
            except BaseException as raised:
                value, error = None, raised
            if isinstance(error, StopIteration):
                error = RuntimeError(f"the step raised {error!r}")
            with suppress(RuntimeError):  # the worker has ended
                loop.call_soon_threadsafe(settle, value, error)
            return False, None

        self._give(inside)
        return future

    async def main(self, start: Callable[[Callable[[], None]], None]) -> Any:
        """The main task of the flow: carries out one operation after the other. `start` runs `work` in a thread."""
        self._computes = True
        start(self.work)
        while True:
            await self._rested()
            if self._ended:
                if self._error is not None:
                    raise self._error
                return self._result
            request, self._asked = self._asked, None
            assert request is not None
            try:
                value = await request()
            except BaseException as error:
                if self._run.loop.dropping:
                    self.drop()
                    raise
                self._answer(_raising(error))
            else:
                self._answer(_giving(value))

    def drop(self) -> None:
        """Leave the function: its thread ends at its next operation."""
        self._dropped = True
        self._given.release()

    async def _rested(self) -> None:
        """Until the thread waits or has ended; whoever drives the flow sees to that before it runs this loop again."""
        while self._computes:
            future = self._run.loop.create_future()
            self._run.waits_for_thread = future
            await future

    def _answer(self, give: Callable[[], Any]) -> None:
        self._computes = True
        self._give(give)

    def _give(self, what: Callable[[], Any]) -> None:
        self._inbox.append(what)
        self._given.release()


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: (True, value)


def _raising(error: BaseException) -> Callable[[], Any]:
    def give() -> NoReturn:
        raise error

    return give


class SyncFlow:
    """The same as `Flow`, without await, for a plain function: one operation at a time, its steps in its own thread."""

    def __init__(self, flow: Flow, thread: FlowThread) -> None:
        self._flow = flow
        self._thread = thread

    @property
    def job_id(self) -> str:
        return self._flow.job_id

    @property
    def tenant(self) -> str:
        return self._flow.tenant

    @property
    def meta(self) -> dict[str, Any]:
        return self._flow.meta

    @property
    def version(self) -> int:
        """The version that this run began with."""
        return self._flow.version

    @property
    def is_replaying(self) -> bool:
        return self._flow.is_replaying

    @overload
    def step(self, f: Callable[Concatenate[Context, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, f: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run the function once, and keep its result; raises `StepFailed` once it has no tries left."""
        return self._thread.ask(lambda: self._flow.step(f, *args, **kwargs))

    def using(self, **options: Any) -> SyncFlow:
        """The same flow, whose steps run under other options."""
        return SyncFlow(self._flow.using(**options), self._thread)

    def sleep(self, delay: Duration) -> None:
        self._thread.ask(lambda: self._flow.sleep(delay))

    def sleep_until(self, moment: datetime) -> None:
        self._thread.ask(lambda: self._flow.sleep_until(moment))

    def receive(self, names: str | Collection[str], *, timeout: Duration | None = None) -> Any:
        """The payload of the next signal of this name; None once the time is up. Of several names: (name, payload)."""
        return self._thread.ask(lambda: self._flow.receive(names, timeout=timeout))

    @overload
    def call(self, kind: Kind[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, kind: Kind[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def call(self, kind: Kind[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a job and wait for its result; raises `ChildFailed`."""
        return self._thread.ask(lambda: self._flow.call(kind, *args, **kwargs))

    def calls(
        self,
        jobs: Sequence[NewJob],
        *,
        on_failure: OnFailure = "continue",
        until: Literal["first"] | int | None = None,
    ) -> list[Child]:
        """Enqueue these jobs and wait until all are over, or until enough have succeeded."""
        found: list[Child] = self._thread.ask(lambda: self._flow.calls(jobs, on_failure=on_failure, until=until))
        return found

    def enqueue(self, kind: Kind[P, R], /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a job that lives on by itself, exactly once; gives its id."""
        job_id: str = self._thread.ask(lambda: self._flow.enqueue(kind, *args, **kwargs))
        return job_id

    def send(self, to: str, name: str, payload: Any = None) -> None:
        """Send a signal to a job, by its id, exactly once."""
        self._thread.ask(lambda: self._flow.send(to, name, payload))

    def cancel(self, job_id: str) -> None:
        """Cancel another job."""
        self._thread.ask(lambda: self._flow.cancel(job_id))

    def now(self) -> datetime:
        """When the last answer came: the same in every replay."""
        return self._flow.now()

    @property
    def random(self) -> random.Random:
        return self._flow.random

    def uuid(self) -> UUID:
        return self._flow.uuid()

    def set(self, **values: Any) -> None:
        """Show these values to whoever looks at the job, as its `state`."""
        self._flow.set(**values)

    def restart(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Begin anew under the same id with an empty journal."""
        self._flow.restart(*args, **kwargs)

    def fail(self, reason: str) -> NoReturn:
        """End the flow `failed`, for this reason."""
        self._flow.fail(reason)

    def log(self, message: str) -> None:
        self._flow.log(message)

    def progress(self, fraction: float, note: str | None = None) -> None:
        self._flow.progress(fraction, note)

    def saga(self) -> SyncSaga:
        """`with flow.saga() as saga: … saga.undo(f, x)`: where the block is left by an error or a cancel, the undos run
        as steps, last first."""
        return SyncSaga(self)


class SyncSaga:
    """What a flow has to undo if it does not come to its end."""

    def __init__(self, flow: SyncFlow) -> None:
        self._flow = flow
        self._undos: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def undo(self, f: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Run this as a step if the block is left by an error or a cancel."""
        self._undos.append((f, args, kwargs))

    def __enter__(self) -> SyncSaga:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Dropped | Restarted | GeneratorExit):
            return
        while self._undos:
            f, args, kwargs = self._undos.pop()
            self._flow._flow._run.undone = True
            named = self._flow._flow._undo(f"undo:{step_function(f).name or 'it'}")
            self._flow._thread.ask(partial(named.step, f, *args, **kwargs))
