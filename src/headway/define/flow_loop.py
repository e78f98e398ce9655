"""FlowLoop: the event loop that one run of a flow has to itself, without sockets, threads or a clock of its own.

It runs only while somebody calls `run`, so what the function does between two answers depends on these alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from headway.errors import FlowMisused

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_UNWIND_ROUNDS = 100


class FlowTask(asyncio.Task[Any]):
    """asyncio and anyio keep tasks in sets, and cancel them in their order: hashed by number, it is always the same."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        self.number = number
        super().__init__(coro, **options)

    __eq__ = object.__eq__

    def __hash__(self) -> int:
        return self.number


class FlowTimer(asyncio.TimerHandle):
    """A timer, which is an operation of its flow."""

    __slots__ = ("operation",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.operation: Any = None


class FlowLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in the order in which they were asked for; timers become operations of the flow."""

    def __init__(self, timer: Callable[[FlowTimer], None], timer_canceled: Callable[[FlowTimer], None]) -> None:
        self._timer = timer  # told of every timer that is asked for
        self._timer_canceled = timer_canceled  # and of those that are given up
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: list[FlowTask] = []
        self._numbers = 0
        self._thread = threading.get_ident()
        self._asyncgens: list[Any] = []
        self.now = 0.0  # seconds since 1970, as of the last answer
        self.unhandled: BaseException | None = None  # what a callback raised
        self.slowest_s = 0.0  # the longest that one callback of the function held its worker up
        self.dropping = False

    # what runs it

    @property
    def at_rest(self) -> bool:
        return not self._ready

    def run(self, slice_s: float = 3600.0) -> bool:
        """Run what is ready, for about this long; gives whether the function is at rest: nothing is left to run."""
        ends = time.perf_counter() + slice_s
        self._thread = threading.get_ident()
        outer = asyncio._get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize)
        try:
            began = time.perf_counter()
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
                now = time.perf_counter()
                self.slowest_s = max(self.slowest_s, now - began)
                began = now
                if now > ends:
                    break
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(outer)
        return not self._ready

    def fire(self, handle: FlowTimer) -> None:
        """The time of a timer has come."""
        self._ready.append(handle)

    @property
    def unfinished(self) -> list[FlowTask]:
        """Its tasks that go on, in the order in which they were made."""
        self._tasks = [task for task in self._tasks if not task.done()]
        return self._tasks

    def unwind(self) -> None:
        """End every task: a coroutine cannot just be forgotten, since Python runs its `finally` blocks anyway."""
        self.dropping = True
        for _ in range(_UNWIND_ROUNDS):
            left = self.unfinished
            if not left:
                break
            for task in left:
                task.cancel()
            self.run()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()

    # what asyncio asks of an event loop

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        self._check_thread("call_soon")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self._check_thread("call_at")
        handle = FlowTimer(when, callback, args, self, context)
        if when <= self.now:
            self._ready.append(handle)
        elif not self.dropping:
            self._timer(handle)
        return handle

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        self._check_thread("create_task")
        self._numbers += 1
        task = FlowTask(coro, number=self._numbers, loop=self, name=name or f"task-{self._numbers}", context=context)
        self._tasks.append(task)
        return task

    def get_task_factory(self) -> None:
        return None

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and self.unhandled is None and not self.dropping:
            self.unhandled = error

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    async def shutdown_asyncgens(self) -> None:
        return None

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, FlowTimer):
            self._timer_canceled(handle)

    def _finalize(self, generator: Any) -> None:
        if not self.dropping:
            self.create_task(generator.aclose())

    def _check_thread(self, what: str) -> None:
        if threading.get_ident() != self._thread:
            raise FlowMisused(
                f"{what} of a flow's event loop was called from another thread: a thread comes at a different moment "
                "in every run; put what it does into a step, flow.step(f, …)"
            )


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(_loop: FlowLoop, *_: Any, **__: Any) -> NoReturn:
        raise FlowMisused(
            f"a flow's function has no sockets, threads or processes (loop.{name} was called): what it would get "
            "differs in every run; put that into a step, await flow.step(f, …)"
        )

    return refuse


# AbstractEventLoop has many methods: whatever is not above is refused, those of later Pythons included
for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(FlowLoop):
        setattr(FlowLoop, _name, _refused(_name))
