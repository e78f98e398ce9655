"""Jobs that must keep an order or a limit, and the processes that enqueue them: each run is in the ledger by its label.

A label is the key that the run is under (train, partition, …), a slash, and the rest of its name.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from itertools import count
from typing import Any

import apsw
import psycopg
from yard import SOON, app, kinds, note

from headway import Context
from headway.logs import configure
from headway.model.job import NewJob

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
    """Its first run goes on for ever."""
    note("start", label, ctx.fence)
    while ctx.losses == 0:
        await asyncio.sleep(0.02)
    note("end", label, ctx.fence)


# processes


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
                app.result(self._committed[-1].id, timeout=60)

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
        with app.reserve(queue, expires=expires, timeout=60) as reserved:
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
        case ["reserve", queue, expires]:
            reserve(queue, expires)
        case ["run_now", queue, label, expires]:
            run_now(queue, label, expires)
        case _:
            sys.exit(f"traffic.py does not know {sys.argv[1:]}")
