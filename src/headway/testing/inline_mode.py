"""inline: a job runs before its enqueue returns, and its errors are raised to the caller."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from headway.app import Headway, Verbs
from headway.define import BatchKind, Cancel, Context, Retry, Snooze
from headway.errors import HeadwayError
from headway.model.group import NewGroup
from headway.model.job import Brief, Enqueued, Job, NewJob
from headway.model.request import Request, Requests
from headway.model.signal import NewSignal, Sent
from headway.store.ops import Op
from headway.testing.drained import adrain, drain

T = TypeVar("T")

_PAUSE_S = 0.005

# the jobs of the outermost enqueue: what their handlers enqueue is added here
_enqueued: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("headway_inline", default=None)


@contextmanager
def inline(app: Headway) -> Iterator[None]:
    """Run the job of every enqueue in this block at once, in this process, before the enqueue returns.

        with inline(app):
            job = welcome.enqueue(user_id=7)      # runs here; raises what the handler raises
        assert app.get(job.id).result == "hello 7"

    It is the real path: the job is stored, then `drain` runs a worker until nothing that can run now is left. So rows,
    attempts and results can be looked at, jobs that waited before run, too, and what handlers enqueue runs before the
    outermost enqueue returns. An error of a handler is recorded as usual (the job may be scheduled for its retry) and
    then raised to the caller; Retry, Snooze and Cancel are not errors. A job with a delay stays scheduled. One enqueued
    with `conn=` runs after its transaction was committed: before the app's next verb answers (`app.get`, `app.result`,
    another enqueue), and at the end of the block at the latest. Jobs of a train, of a group, or `after` others run in
    their order, as far as that allows; what is limited or held stays. Calls of a kind that takes batches run together
    if they are enqueued together, by `enqueue_many`.

    A machine runs until it waits, sleeps or ends, and a signal that it waits for runs it on before `signal` returns. An
    error for which its `handle` returned an outcome is not raised, unless that is Stop.
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
        for name in ("_store_jobs", "_astore_jobs", "_run", "_arun", "signal_many", "asignal_many", "tenant"):
            delattr(app, name)


class _Inline:
    def __init__(self, app: Headway) -> None:
        self.active = True
        self._app = app
        self._raised: dict[str, BaseException] = {}  # by job id
        self._catching_up = False
        self._later: list[str] = []  # enqueued with conn=: until their transaction is committed
        # signals sent with conn= do not show whether their transaction is committed: checked again and again
        self._signaled: list[str] = []

    def take_over(self, verbs: Verbs) -> Verbs:
        """Replace the methods that every enqueue goes through, sync and async, on this object only."""
        put, aput = verbs._store_jobs, verbs._astore_jobs

        def run_all(
            batch: list[NewJob],
            group: NewGroup | None,
            conn: Any,
            request: Requests = None,
            existing: Callable[[Job], None] | None = None,
            rows: list[Brief] | None = None,
        ) -> list[Enqueued]:
            done = put(batch, group, conn, request, existing, rows)
            if new := self._to_run([(each.id, each.created) for each in done], conn):
                _beside(lambda: self._answer(self._run(new)))
            return done

        async def arun_all(
            batch: list[NewJob],
            group: NewGroup | None,
            conn: Any,
            request: Requests = None,
            existing: Callable[[Job], None] | None = None,
            rows: list[Brief] | None = None,
        ) -> list[Enqueued]:
            done = await aput(batch, group, conn, request, existing, rows)
            if new := self._to_run([(each.id, each.created) for each in done], conn):
                self._answer(await self._arun(new))
            return done

        verbs._store_jobs = run_all  # type: ignore[method-assign]
        verbs._astore_jobs = arun_all  # type: ignore[method-assign]
        self._take_signals_over(verbs)
        self._take_looks_over(verbs)
        return verbs

    def _take_looks_over(self, verbs: Verbs) -> None:
        """Before any other verb answers, run what was committed meanwhile."""
        run, arun = verbs._run, verbs._arun

        def look(op: Op[T], conn: Any = None) -> T:
            self.catch_up()
            return run(op, conn)

        async def alook(op: Op[T], conn: Any = None) -> T:
            if new := self._committed():
                with self._catching():
                    jobs = await self._arun(new)
                self._answer(jobs)
            return await arun(op, conn)

        verbs._run = look  # type: ignore[method-assign]
        verbs._arun = alook  # type: ignore[method-assign]

    def catch_up(self) -> None:
        """Run the jobs whose transactions are committed by now."""
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

        def send_all(signals: Iterable[NewSignal], *, conn: Any = None, request: Request | None = None) -> list[Sent]:
            done = send(signals, conn=conn, request=request)
            if woken := self._to_run([(each.job_id, each.created) for each in done], conn, enqueued=False):
                _beside(lambda: self._answer(self._run(woken)))
            return done

        async def asend_all(
            signals: Iterable[NewSignal], *, conn: Any = None, request: Request | None = None
        ) -> list[Sent]:
            done = await asend(signals, conn=conn, request=request)
            if woken := self._to_run([(each.job_id, each.created) for each in done], conn, enqueued=False):
                self._answer(await self._arun(woken))
            return done

        verbs.signal_many = send_all  # type: ignore[method-assign]
        verbs.asignal_many = asend_all  # type: ignore[method-assign]

    async def watch(self, ctx: Context, call_next: Any) -> Any:
        """The outermost middleware: keeps the exception that a handler raised."""
        try:
            return await call_next()
        except BaseException as error:
            self._raised[ctx.job_id] = error
            raise

    def _to_run(self, done: list[tuple[str, bool]], conn: Any, *, enqueued: bool = True) -> list[str]:
        """Of these jobs (id, and whether it was created) those that the caller has to run, raising their errors."""
        if not self.active:
            return []
        new = list(dict.fromkeys(job_id for job_id, created in done if created))
        if conn is not None:
            (self._later if enqueued else self._signaled).extend(new)
            return []
        outer = _enqueued.get()
        if outer is None:
            return new
        # enqueued by a handler: its worker runs them, and the outermost enqueue raises their errors
        outer += new
        return []

    def _run(self, ids: list[str]) -> list[Job]:
        """Run them, and what they enqueue; gives them all as they are afterwards."""
        token = _enqueued.set(ids)
        try:
            drain(self._app, concurrency=self._at_once(ids))
        finally:
            _enqueued.reset(token)
        jobs = [self._app.get(job_id) for job_id in ids]
        while any(job.status == "running" for job in jobs):  # in a worker in another thread
            time.sleep(_PAUSE_S)
            jobs = [self._app.get(job_id) for job_id in ids]
        return jobs

    async def _arun(self, ids: list[str]) -> list[Job]:
        token = _enqueued.set(ids)
        try:
            await adrain(self._app, concurrency=self._at_once(ids))
        finally:
            _enqueued.reset(token)
        jobs = [await self._app.aget(job_id) for job_id in ids]
        while any(job.status == "running" for job in jobs):
            await asyncio.sleep(_PAUSE_S)
            jobs = [await self._app.aget(job_id) for job_id in ids]
        return jobs

    def _at_once(self, ids: list[str]) -> int:
        """How many jobs run at once: one, unless all of these are calls that batches take."""
        kinds = self._app.kinds
        if not any(isinstance(kind, BatchKind) for kind in kinds):
            return 1
        store = self._app.store
        found = [kinds.get(job.kind) for job in store.run(store.ops.get(ids, tenant_id=None))]
        sizes = [kind.size for kind in found if isinstance(kind, BatchKind)]
        return max(sizes) if sizes and len(sizes) == len(found) else 1

    def _answer(self, jobs: list[Job]) -> None:
        """Raise the first error of the jobs."""
        for job in jobs:
            error = self._raised.pop(job.id, None)
            if isinstance(error, Retry | Snooze | Cancel) or self._went_on(job):
                continue
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error
            # no exception of its own: a timeout, or a result that cannot be stored
            if job.status in ("dead", "failed") or job.tries:
                ended = "has failed" if job.status == "failed" else f"is {job.status}"
                raise HeadwayError(f'job {job.id} of kind "{job.kind}" {ended}: {job.error}')

    def _went_on(self, job: Job) -> bool:
        """Whether it is a machine whose last step had an outcome, its own or its handle's."""
        if job.step is None:
            return False
        last = self._app.attempts(job.id)[-1:]
        return bool(last) and last[0].outcome not in (None, "stop")


def _beside(run: Callable[[], None]) -> None:
    """Call it; in a thread if the caller runs an event loop, since an enqueue blocks until its job has run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run()
        return
    with ThreadPoolExecutor(1, "headway-inline") as thread:
        thread.submit(contextvars.copy_context().run, run).result()
