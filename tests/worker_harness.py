"""A workshop for worker tests: a store, kinds defined on the spot, and workers that run them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import apsw
import psycopg
from msgspec.structs import replace as replace_in

from headway.config import Settings
from headway.define import Registry
from headway.define.signals import signal_to
from headway.errors import StoreUnavailable
from headway.model.job import Attempt, Change, Job, NewJob
from headway.model.journal import effective
from headway.model.listing import Filter
from headway.model.machine import Child
from headway.model.signal import Signal
from headway.secrets import Vault
from headway.worker import Hooks, Summary, Wake, Worker
from tests.tenant_ids import tenant_id

T = TypeVar("T")

HOUR_MS = 3_600_000

BRISK = Settings(
    lease_ms=60_000,
    heartbeat_ms=30,
    reap_every_ms=30,
    promote_every_ms=30,
    pace_ms=5,
    idle_pace_ms=20,
    grace_ms=20_000,
    concurrency=10,
)


class FaultyStore:
    """The real store behind a wire that can be cut, before the database gets an op or after it committed."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.ops = store.ops
        self.dialect = store.dialect
        self.away = False
        self.refuses: Callable[[Any], Exception | None] = lambda _op: None
        self.loses_answer: Callable[[Any], bool] = lambda _op: False

    @property
    def install_id(self) -> str | None:
        return self._store.install_id

    def describe(self) -> str:
        return str(self._store.describe())

    def with_own_connections(self) -> FaultyStore:
        return self

    async def leave_loop(self) -> None:
        await self._store.leave_loop()

    async def arun(self, op: Any, **options: Any) -> Any:
        if self.away:
            raise StoreUnavailable("the test cut the wire")
        if (error := self.refuses(op)) is not None:
            raise error
        result = await self._store.arun(op, **options)
        if self.loses_answer(op):
            raise StoreUnavailable("the test cut the wire after the commit")
        return result


class WorkerHarness:
    """Defines, enqueues, runs and looks."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.registry = Registry()
        self.job = self.registry.job
        self.machine = self.registry.machine
        self.flow = self.registry.flow
        self.hooks = Hooks()
        self.wake = Wake()
        self.vault: Vault | None = None  # what its workers' headway.toml declares of secrets

    def enqueue(self, *jobs: NewJob) -> list[str]:
        # what an app looks up
        owned = [job if job.tenant_id else replace_in(job, tenant_id=tenant_id(str(job.tenant))) for job in jobs]
        # the default backoff of a second can be over before a test on a busy machine looks
        owned = [replace_in(job, backoff_base_ms=HOUR_MS) if job.backoff_base_ms == 1_000 else job for job in owned]
        ids = [each.id for each in self.store.run(self.store.ops.enqueue(owned))]
        for queue in {job.queue for job in jobs}:
            self.wake.poke(queue)
        return ids

    def worker(self, *, store: Any = None, **options: Any) -> Worker:
        settings = replace(BRISK, **options.pop("settings", {}))
        options.setdefault("queues", {"default": 10})
        return Worker(
            store or self.store,
            self.registry.kinds,
            settings=settings,
            hooks=self.hooks,
            wake=self.wake,
            vault=self.vault,
            version="1.2.3",
            **options,
        )

    def drain(self, **options: Any) -> Summary:
        return self.run(self.worker(**options).run(until_idle=True))

    def get(self, job_id: str) -> Job:
        (job,) = self.store.run(self.store.ops.get([job_id], tenant_id=None))
        return job

    def attempts(self, job_id: str) -> list[Attempt]:
        return list(self.store.run(self.store.ops.attempts(job_id, tenant_id=None)))

    def last(self, job_id: str) -> Attempt:
        return self.attempts(job_id)[-1]

    def outcomes(self, job_id: str) -> list[tuple[str | None, str]]:
        """A machine's executions: the step, and its outcome or else how it ended."""
        return [(attempt.step, attempt.outcome or attempt.status) for attempt in self.attempts(job_id)]

    def journal(self, job_id: str) -> list[tuple[str, str]]:
        """A flow's rows that count: (kind, place)."""
        rows = self.store.run(self.store.ops.journal([job_id])).rows
        return [(row.kind, row.place) for row in effective(rows) if row.place != "$began"]

    def find(self, **filters: Any) -> list[Job]:
        return list(self.store.run(self.store.ops.find(Filter(**filters), limit=100)))

    def children(self, job_id: str, fence: int | None = None) -> list[Child]:
        return list(self.store.run(self.store.ops.children(job_id, fence=fence, tenant_id=None)))

    def signals(self, job_id: str) -> list[Signal]:
        return list(self.store.run(self.store.ops.signals(job_id, tenant_id=None)))

    def signal(self, job_id: str, name: str, payload: Any = None) -> None:
        (sent,) = self.store.run(self.store.ops.signal([signal_to(job_id, name, payload, limit=2**21)]))
        self.wake.poke(sent.queue)

    def sql(self, text: str, *params: Any) -> None:
        """One statement behind the store's back; `{}` stands before the names of tables."""
        if self.store.dialect == "postgres":
            with psycopg.connect(self.store.url, autocommit=True) as conn:
                conn.execute(text.format("headway.").replace("?", "%s"), params)
        else:
            conn = apsw.Connection(str(self.store.path))
            conn.set_busy_timeout(10_000)
            conn.execute(text.format(""), params)
            conn.close()

    @contextmanager
    def transaction(self, statement: str, *params: Any) -> Iterator[str]:
        """A transaction of somebody's own that has run this and stays open; on SQLite it only reads."""
        if self.store.dialect == "postgres":
            with psycopg.connect(self.store.url) as conn:
                conn.execute(statement, params)
                yield "holds"
        else:
            conn = apsw.Connection(str(self.store.path))
            conn.set_busy_timeout(10_000)
            conn.execute("begin")
            conn.execute("select * from jobs").fetchall()
            yield "reads"
            conn.close()

    def make_due(self, job_id: str) -> None:
        self.store.run(self.store.ops.change(job_id, Change(scheduled_for=None), tenant_id=None, actor="test"))

    def cancel(self, *ids: str) -> None:
        self.store.run(self.store.ops.cancel(ids, tenant_id=None, reason=None, actor=None))

    def retry(self, *ids: str) -> None:
        self.store.run(self.store.ops.retry(ids, tenant_id=None, actor=None))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until it is so; the limit is only for a test that fails."""
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.005)

    async def until_status(self, job_id: str, *statuses: str) -> Job:
        await self.until(lambda: self.get(job_id).status in statuses)
        return self.get(job_id)

    def while_working(
        self, worker: Worker, story: Callable[[], Awaitable[T]], *, stop: bool = True
    ) -> tuple[T, Summary]:
        """Run the worker and, beside it, the story; then stop the worker."""

        async def both() -> tuple[T, Summary]:
            task = asyncio.create_task(worker.run())
            told = asyncio.ensure_future(story())
            await asyncio.wait((task, told), return_when=asyncio.FIRST_COMPLETED)
            if not told.done():
                told.cancel()
                task.result()
            if stop:
                worker.stop()
            return await told, await task

        return self.run(both())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it on an event loop of its own."""

        async def limited() -> T:
            try:
                async with asyncio.timeout(180):
                    return await coroutine
            finally:
                await self.store.leave_loop()

        return asyncio.run(limited())
