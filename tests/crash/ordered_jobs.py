"""Jobs that must keep an order or a limit, and the processes that enqueue them: each run is in the ledger by its label.

A label is the key that the run is under (train, partition, …), a slash, and the rest of its name.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import apsw
import msgspec
import psycopg

from headway import Await, Context, Done, Machine, step
from headway.logs import configure
from headway.model.job import NewJob
from tests.crash.crash_jobs import SOON, app, kinds, note

MAX_ATTEMPTS = 2
TRAINS = 50


@kinds.job(queue="main", backoff=SOON, max_attempts=MAX_ATTEMPTS, max_losses=30_000)
async def go(ctx: Context, label: str, ms: int = 0, fails: int = 0) -> None:
    note("start", label, ctx.fence)
    try:
        await asyncio.sleep(ms / 1_000)
    except asyncio.CancelledError:
        note("cut", label, ctx.fence)
        raise
    if ctx.tries < fails:
        note("raise", label, ctx.fence)
        raise ValueError("not yet")
    note("end", label, ctx.fence)


@kinds.job(queue="main", backoff=SOON, max_attempts=30_000, delivery="at_most_once")
async def go_once(ctx: Context, label: str, ms: int = 0) -> None:
    """Under a new id when it is retried, and so under fence 1 again."""
    note("start", label, ctx.fence)
    await asyncio.sleep(ms / 1_000)
    note("end", label, ctx.fence)


@kinds.job(queue="main", backoff=SOON)
async def go_on(ctx: Context, label: str) -> None:
    """Its first run goes on forever."""
    note("start", label, ctx.fence)
    while ctx.losses == 0:
        await asyncio.sleep(0.02)
    note("end", label, ctx.fence)


@kinds.machine
class Collector(Machine, queue="main", backoff=SOON, max_attempts=30_000, max_losses=30_000):
    """Takes in signals until it is told to end; its result is all that it heard, in order."""

    class State(msgspec.Struct):
        heard: list[str] = []

    @step
    async def start(self, ctx: Context) -> Await | Done:
        note("start", f"{ctx.job_id}/{ctx.fence}", ctx.fence)
        names = {signal.name for signal in ctx.signals}
        ctx.state.heard += [signal.payload for signal in ctx.signals if signal.name == "tick"]
        await asyncio.sleep(random.choice([0, 0, 0.002]))
        if "tick" in names and random.random() < 0.01:
            note("raise", f"{ctx.job_id}/{ctx.fence}", ctx.fence)
            raise ValueError("not yet")
        note("end", f"{ctx.job_id}/{ctx.fence}", ctx.fence)
        return Done(ctx.state.heard) if "end" in names else Await(["tick", "end"])


# processes


class Sender:
    """Sends signals in every way there is, and says in the ledger which of them it was told are sent."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._random = random.Random(name)
        self._number = 0
        self._ids = {job.unique_key: job.id for job in app.jobs(kind="collector", limit=10_000)}
        self._keys = sorted(filter(None, self._ids))

    def work(self, signals: int, seconds: float) -> None:
        """Send so many in about that time."""
        began = time.monotonic()
        while self._number < signals:
            ahead = seconds * self._number / signals - (time.monotonic() - began)
            time.sleep(max(0.0, ahead) * self._random.random())
            match self._random.randrange(10):
                case 0 | 1:
                    self._in_a_transaction()
                case 2 | 3 | 4:
                    self._many()
                case 5:
                    self._twice()
                case _:
                    key, text = self._next()
                    app.signal(self._ids[key], "tick", text)
                    note("sent", text)

    def _next(self) -> tuple[str, str]:
        self._number += 1
        key = self._random.choice(self._keys)
        return key, f"{key}/{self._name}.{self._number}"

    def _many(self) -> None:
        batch = [self._next() for _ in range(self._random.randint(2, 40))]
        app.signal_many(app.build_signal(self._ids[key], "tick", text) for key, text in batch)
        note("sent", ",".join(text for _, text in batch))

    def _twice(self) -> None:
        """As a webhook comes that was not acknowledged."""
        key, text = self._next()
        app.signal_many([Collector.build_signal(key, "tick", text, dedup_key=text)] * 2)
        note("sent", text)
        assert not app.signal(self._ids[key], "tick", text, dedup_key=text).created

    def _in_a_transaction(self) -> None:
        keeps = self._random.random() < 0.7
        batch = [self._next() for _ in range(self._random.randint(1, 3))]
        with _transaction(self._random, keeps) as conn:
            for key, text in batch:
                app.signal(self._ids[key], "tick", text, conn=conn)
        if keeps:
            note("sent", ",".join(text for _, text in batch))


@contextmanager
def _transaction(choice: random.Random, keeps: bool) -> Iterator[Any]:
    """A user's own, slow where that holds nobody up."""
    url = os.environ["HEADWAY_URL"]
    if url.startswith("sqlite"):
        conn: Any = apsw.Connection(url.removeprefix("sqlite:///"))
        conn.set_busy_timeout(60_000)
        conn.execute("begin immediate")
    else:
        conn = psycopg.connect(url, autocommit=True)
        conn.execute("begin")
    yield conn
    if not url.startswith("sqlite"):
        time.sleep(choice.choice([0, 0, 0.05]))
    conn.execute("commit" if keeps else "rollback")
    conn.close()


class Dispatcher:
    """Enqueues cars in every way there is, and says in the ledger what it is about to do, and what it was told."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._random = random.Random(name)
        self._number = 0
        self._committed: list[NewJob] = []
        self._on_sqlite = os.environ["HEADWAY_URL"].startswith("sqlite")

    def work(self, cars: int) -> None:
        while len(self._committed) < cars:
            match self._random.randrange(20):
                case 0:
                    self._cancel()
                case 1 | 2 if not self._on_sqlite:
                    self._almost_cancel()
                case number if number < 8:
                    self._in_a_transaction()
                case _:
                    self._alone()
            if self._committed and self._random.random() < 0.4:
                # its train may be empty then, and many reach for the seat
                app.result(self._committed[-1].id, timeout=180)

    def _alone(self, train: str | None = None) -> None:
        jobs = self._cars(train)
        note("calling", _labels(jobs))
        self._put(jobs)
        note("committed", _labels(jobs))
        self._committed += jobs

    def _in_a_transaction(self) -> None:
        """A user's, slow where that holds nobody up, and sometimes undone."""
        if self._on_sqlite:
            conn: Any = apsw.Connection(os.environ["HEADWAY_URL"].removeprefix("sqlite:///"))
            conn.set_busy_timeout(60_000)
            conn.execute("begin immediate")
        else:
            conn = psycopg.connect(os.environ["HEADWAY_URL"], autocommit=True)
            level = self._random.choice(["read committed", "repeatable read", "serializable"])
            conn.execute(f"begin isolation level {level}")
        inside: list[NewJob] = []
        keeps = self._random.random() < 0.7
        try:
            for _ in range(self._random.randint(1, 3)):
                jobs = self._cars()
                note("calling", _labels(jobs))
                inside += jobs
                self._put(jobs, conn)
                note("called", _labels(jobs))
                if not self._on_sqlite:
                    time.sleep(self._random.choice([0, 0, 0.05]))
                    if self._random.random() < 0.3:
                        self._alone()
            conn.execute("commit" if keeps else "rollback")
        except psycopg.errors.SerializationFailure:
            keeps = False
        conn.close()
        note("committed" if keeps else "undone", _labels(inside))
        if keeps:
            self._committed += inside
            if self._random.random() < 0.5:
                self._alone(inside[-1].train)  # before anybody can have looked at what has just been committed

    def _cancel(self) -> None:
        if car := self._recent():
            note("cancel", _labels([car]))
            app.cancel(car.id)

    def _almost_cancel(self) -> None:
        """A user's transaction holds the next car for a while and lets it be: no later one may overtake it."""
        recent = self._recent()
        cars = app.train(recent.train, limit=3) if recent and recent.train else []
        if len(cars) == 3:
            with psycopg.connect(os.environ["HEADWAY_URL"]) as conn:
                conn.execute("select * from headway.cancel(array[%s::uuid])", [cars[1].id])
                time.sleep(0.05)
                conn.rollback()

    def _recent(self) -> NewJob | None:
        # a car that is delivered at most once may go on under an id that is not known here
        recent = [car for car in self._committed[-20:] if car.delivery == "at_least_once"]
        return self._random.choice(recent) if recent else None

    def _put(self, jobs: list[NewJob], conn: Any = None) -> None:
        if len(jobs) == 1:
            app.enqueue(jobs[0], conn=conn)
        else:
            app.enqueue_many(jobs, conn=conn)

    def _cars(self, train: str | None = None) -> list[NewJob]:
        return [self._car(train) for _ in range(self._random.choice([1, 1, 1, 2, 10, 20]))]

    def _car(self, train: str | None) -> NewJob:
        self._number += 1
        # some trains have much to do, others are often empty
        train = train or f"t{int(TRAINS * self._random.random() ** 3)}"
        label = f"{train}/{self._name}.{self._number}"
        ms = self._random.choice([0, 1, 5])
        match self._number % 20:
            case 3:
                return job_once(f"{label}.once", ms=ms, train=train)
            case 7:
                return job(f"{label}.fails", ms=ms, fails=1, train=train)
            case 13:
                return job(f"{label}.dies", ms=ms, fails=MAX_ATTEMPTS, train=train)
            case 17:
                return job(f"{label}.late", ms=ms, train=train, delay="30ms")
            case _:
                return job(label, ms=ms, train=train)


def reserve(queue: str, expires: str) -> None:
    """Have the queue to oneself again and again, and say in the ledger from when to when no other may begin there."""
    for number in count():
        with app.reserve(queue, expires=expires, timeout=180) as reserved:
            note("reserved", reserved.id)
            if number % 2:
                app.run_now(job(f"inside/{os.getpid()}.{number}", ms=3, queue=queue))
            note("leaving", reserved.id)


def run_now(queue: str, label: str, expires: str) -> None:
    app.run_now(go_on.using(queue=queue, correlation_id=label).build(label), expires=expires)


def job(label: str, *, ms: int = 0, fails: int = 0, **options: Any) -> NewJob:
    """A job with its label outside of the payload, too."""
    return go.using(correlation_id=label, **options).build(label, ms=ms, fails=fails)


def job_once(label: str, *, ms: int = 0, **options: Any) -> NewJob:
    return go_once.using(correlation_id=label, **options).build(label, ms=ms)


def _labels(jobs: list[NewJob]) -> str:
    return ",".join(str(job.correlation_id) for job in jobs)


if __name__ == "__main__":
    configure(json=True)
    match sys.argv[1:]:
        case ["cars", name, cars]:
            Dispatcher(name).work(int(cars))
        case ["signals", name, signals, seconds]:
            Sender(name).work(int(signals), float(seconds))
        case ["reserve", queue, expires]:
            reserve(queue, expires)
        case ["run_now", queue, label, expires]:
            run_now(queue, label, expires)
        case _:
            sys.exit(f"ordered_jobs does not know {sys.argv[1:]}")
