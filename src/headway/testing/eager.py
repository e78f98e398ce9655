"""Inline mode: what is enqueued runs before the enqueue returns, and its errors are the caller's."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from headway.app import Headway, Verbs
from headway.define import Cancel, Context, Retry, Snooze
from headway.errors import HeadwayError
from headway.model.group import NewGroup
from headway.model.job import Enqueued, Job, NewJob
from headway.model.signal import NewSignal, Sent
from headway.store.ops import Op
from headway.testing.drained import adrain, drain

T = TypeVar("T")

_PAUSE_S = 0.005

# the jobs of the enqueue that a handler runs for: those that it enqueues are added here
_enqueued: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("headway_inline", default=None)


@contextmanager
def inline(app: Headway) -> Iterator[None]:
    """Let every enqueue in this block run its job at once, in this process, before it returns.

        with inline(app):
            job = welcome.enqueue(user_id=7)      # runs here; raises what the handler raises
        assert app.get(job.id).result == "hello 7"

    It is the real path: the job is stored, then `drain` runs a worker until nothing that can run now is left, so
    rows, attempts and results are there to look at, what was waiting before runs too, and what handlers enqueue
    runs before the outermost enqueue returns. An error of a handler is recorded as ever (the job may be
    scheduled for its retry) and then raised to the caller; Retry, Snooze and Cancel are no errors. A job with a
    delay is not due and stays scheduled. One enqueued with `conn=` runs after its transaction was committed: before the
    app's next verb answers (`app.get`, `app.result`, another enqueue), and at the end of the block at the latest. Jobs
    of a train, of a group, or `after` others run in their order, as far as it lets them; what is limited or held stays.

    A machine goes on until it waits, sleeps or is over, and a signal that it waits for lets it go on before `signal`
    returns. What its `handle` made an outcome of is no error, unless that is Stop.
    """
    mode = _Inline(app)
    make_tenant = app.tenant
    mode.take_over(app)
    app.tenant = lambda tenant: mode.take_over(make_tenant(tenant))  # type: ignore[method-assign]
    app._middleware.insert(0, mode.watch)
    try:
        yield
        mode.catch_up()
    finally:
        mode.active = False
        app._middleware.remove(mode.watch)
        for name in ("_put", "_aput", "_run", "_arun", "signal_many", "asignal_many", "tenant"):
            delattr(app, name)


class _Inline:
    def __init__(self, app: Headway) -> None:
        self.active = True
        self._app = app
        self._raised: dict[str, BaseException] = {}  # by job id
        self._catching_up = False
        self._later: list[str] = []  # enqueued with conn=: until their transaction is committed
        self._signaled: list[str] = []  # signals do not say whether theirs is: looked at again and again

    def take_over(self, verbs: Verbs) -> Verbs:
        """Replace what every enqueue goes through, in either colour, on this object alone."""
        put, aput = verbs._put, verbs._aput

        def run_all(batch: list[NewJob], group: NewGroup | None, conn: Any) -> list[Enqueued]:
            done = put(batch, group, conn)
            if new := self._to_run([(each.id, each.created) for each in done], conn):
                _beside(lambda: self._answer(self._run(new)))
            return done

        async def arun_all(batch: list[NewJob], group: NewGroup | None, conn: Any) -> list[Enqueued]:
            done = await aput(batch, group, conn)
            if new := self._to_run([(each.id, each.created) for each in done], conn):
                self._answer(await self._arun(new))
            return done

        verbs._put = run_all  # type: ignore[method-assign]
        verbs._aput = arun_all  # type: ignore[method-assign]
        self._take_signals_over(verbs)
        self._take_looks_over(verbs)
        return verbs

    def _take_looks_over(self, verbs: Verbs) -> None:
        """Whoever asks for anything finds what was committed meanwhile done."""
        run, arun = verbs._run, verbs._arun

        def look(op: Op[T]) -> T:
            self.catch_up()
            return run(op)

        async def alook(op: Op[T]) -> T:
            if new := self._committed():
                with self._catching():
                    jobs = await self._arun(new)
                self._answer(jobs)
            return await arun(op)

        verbs._run = look  # type: ignore[method-assign]
        verbs._arun = alook  # type: ignore[method-assign]

    def catch_up(self) -> None:
        """Run the jobs of transactions that are committed by now."""
        if new := self._committed():
            with self._catching():
                _beside(lambda: self._answer(self._run(new)))

    @contextmanager
    def _catching(self) -> Iterator[None]:
        self._catching_up = True
        try:
            yield
        finally:
            self._catching_up = False

    def _committed(self) -> list[str]:
        if self._catching_up or _enqueued.get() is not None or not (self._later or self._signaled):
            return []
        store = self._app.store
        there = {job.id for job in store.run(store.ops.get([*self._later, *self._signaled], tenant_id=None))}
        new = [job_id for job_id in (*self._later, *self._signaled) if job_id in there]
        self._later = [job_id for job_id in self._later if job_id not in there]
        return list(dict.fromkeys(new))

    def _take_signals_over(self, verbs: Verbs) -> None:
        send, asend = verbs.signal_many, verbs.asignal_many

        def send_all(signals: Iterable[NewSignal], *, conn: Any = None) -> list[Sent]:
            done = send(signals, conn=conn)
            if woken := self._to_run([(each.job_id, each.created) for each in done], conn, enqueued=False):
                _beside(lambda: self._answer(self._run(woken)))
            return done

        async def asend_all(signals: Iterable[NewSignal], *, conn: Any = None) -> list[Sent]:
            done = await asend(signals, conn=conn)
            if woken := self._to_run([(each.job_id, each.created) for each in done], conn, enqueued=False):
                self._answer(await self._arun(woken))
            return done

        verbs.signal_many = send_all  # type: ignore[method-assign]
        verbs.asignal_many = asend_all  # type: ignore[method-assign]

    async def watch(self, ctx: Context, call_next: Any) -> Any:
        """The outermost middleware: remembers what a handler raised, as the object it was."""
        try:
            return await call_next()
        except BaseException as error:
            self._raised[ctx.job_id] = error
            raise

    def _to_run(self, done: list[tuple[str, bool]], conn: Any, *, enqueued: bool = True) -> list[str]:
        """The jobs (of ids, and whether something came of it) that the caller shall run and answer for."""
        if not self.active:
            return []
        new = list(dict.fromkeys(job_id for job_id, created in done if created))
        if conn is not None:
            (self._later if enqueued else self._signaled).extend(new)
            return []
        outer = _enqueued.get()
        if outer is None:
            return new
        # enqueued by a handler: the worker that runs it finds them, and the outermost enqueue answers
        outer += new
        return []

    def _run(self, ids: list[str]) -> list[Job]:
        """Run them, and what they enqueue; gives them all as they are then."""
        token = _enqueued.set(ids)
        try:
            drain(self._app)
        finally:
            _enqueued.reset(token)
        jobs = [self._app.get(job_id) for job_id in ids]
        while any(job.status == "running" for job in jobs):  # in the worker of another thread
            time.sleep(_PAUSE_S)
            jobs = [self._app.get(job_id) for job_id in ids]
        return jobs

    async def _arun(self, ids: list[str]) -> list[Job]:
        token = _enqueued.set(ids)
        try:
            await adrain(self._app)
        finally:
            _enqueued.reset(token)
        jobs = [await self._app.aget(job_id) for job_id in ids]
        while any(job.status == "running" for job in jobs):
            await asyncio.sleep(_PAUSE_S)
            jobs = [await self._app.aget(job_id) for job_id in ids]
        return jobs

    def _answer(self, jobs: list[Job]) -> None:
        """Raise the first error of the jobs."""
        for job in jobs:
            error = self._raised.pop(job.id, None)
            if isinstance(error, Retry | Snooze | Cancel) or self._went_on(job):
                continue
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error
            # without an exception of its own: a timeout, a result that cannot be stored
            if job.status in ("dead", "failed") or job.tries:
                ended = "has failed" if job.status == "failed" else f"is {job.status}"
                raise HeadwayError(f'job {job.id} of kind "{job.kind}" {ended}: {job.error}')

    def _went_on(self, job: Job) -> bool:
        """Whether it is a machine whose last step had an outcome, be it by its handle."""
        if job.step is None:
            return False
        last = self._app.attempts(job.id)[-1:]
        return bool(last) and last[0].outcome not in (None, "stop")


def _beside(run: Callable[[], None]) -> None:
    """Call it, in a thread where the caller runs an event loop: its enqueue blocks, and so does its job."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run()
        return
    with ThreadPoolExecutor(1, "headway-inline") as thread:
        thread.submit(contextvars.copy_context().run, run).result()
