"""The storm of a chaos experiment: jobs that must not be lost, doubled, overtaken or over a limit, and the verdict.

A label is what must hold of the run ("plain", "once", "train" or "limit"), a colon, its key, a slash and its number
among those that its enqueuer made.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from headway import Context
from headway.errors import HeadwayError
from headway.logs import configure
from headway.model.job import NewJob
from tests.crash.crash_jobs import SOON, app, kinds, note
from tests.crash.ledger import Entry
from tests.crash.stored_rows import Row

MOST = 3
"""How many runs of a limited key there may be at once."""
_TRAINS, _KEYS = 6, 3


@kinds.job(queue="main", backoff=SOON, max_losses=30_000)
async def at_least_once(ctx: Context, label: str, ms: int) -> None:
    await _run(ctx, label, ms)


@kinds.job(queue="main", delivery="at_most_once", max_attempts=1)
async def at_most_once(ctx: Context, label: str, ms: int) -> None:
    await _run(ctx, label, ms)


async def _run(ctx: Context, label: str, ms: int) -> None:
    note("start", label, ctx.fence)
    await asyncio.sleep(ms / 1_000)
    note("end", label, ctx.fence)


class JumpingClock:
    """The host's clock, wrong by as many seconds as a file says; for stores that have no clock of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = self._wrong_by = 0.0

    def now(self) -> int:
        if time.monotonic() > self._read_at + 0.05:
            self._read_at = time.monotonic()
            self._wrong_by = float(self._path.read_text()) if self._path.exists() else 0.0
        return time.time_ns() // 1_000 + round(self._wrong_by * 1_000_000)


if "CHAOS_CLOCK" in os.environ:
    app.clock = JumpingClock(Path(os.environ["CHAOS_CLOCK"]))


def enqueue(name: str, jobs: int, seconds: float) -> None:
    """Enqueue so many in about that time; what fails is repeated, by the same ids, until it is acknowledged."""
    chance = random.Random(name)
    began, number = time.monotonic(), 0
    while number < jobs:
        time.sleep(max(0.0, seconds * number / jobs - (time.monotonic() - began)))
        batch = [_job(name, number + place, chance) for place in range(chance.choice([1, 1, 2, 5, 10]))]
        number += len(batch)
        while True:
            try:
                app.enqueue_many(batch)
                break
            except HeadwayError:
                time.sleep(0.05)
        note("committed", ",".join(str(job.correlation_id) for job in batch))


def _job(name: str, number: int, chance: random.Random) -> NewJob:
    ms = chance.choice([0, 1, 5, 20, 100])
    match number % 4:
        case 0:
            label = f"plain:-/{name}.{number}"
            return at_least_once.using(correlation_id=label).build(label, ms)
        case 1:
            label = f"once:-/{name}.{number}"
            return at_most_once.using(correlation_id=label).build(label, ms)
        case 2:
            train = f"{name}-{chance.randrange(_TRAINS)}"
            label = f"train:{train}/{name}.{number}"
            return at_least_once.using(correlation_id=label, train=train).build(label, ms)
        case _:
            key = f"k{chance.randrange(_KEYS)}"
            label = f"limit:{key}/{name}.{number}"
            return at_least_once.using(correlation_id=label, concurrency=MOST, concurrency_key=key).build(label, ms)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the ledger and the rows say of a storm, in numbers; `repeated` is what the engine says it ran again."""

    jobs: int
    repeated: int
    lost: int
    doubled: int
    out_of_order: int
    over_limit: int

    @property
    def held(self) -> bool:
        return not (self.lost or self.doubled or self.out_of_order or self.over_limit)


def judge(
    entries: Sequence[Entry], rows: dict[str, Row], attempts: dict[tuple[str, int], Row], *, true_clock: bool
) -> Verdict:
    """Compare what ran with what was acknowledged and with what the database tells."""
    told = _Told(entries, rows, attempts)
    return Verdict(
        jobs=len(told.committed),
        repeated=sum(status in ("lost", "released") for status in told.statuses.values()),
        lost=sum(1 for label in told.committed if told.is_lost(label)),
        doubled=sum(told.unexplained(label) for label in told.starts),
        out_of_order=sum(told.overtaken()),
        over_limit=sum(told.over_limit(true_clock)),
    )


class _Told:
    """The ledger by label; an entry's place in it tells what came first."""

    def __init__(self, entries: Sequence[Entry], rows: dict[str, Row], attempts: dict[tuple[str, int], Row]) -> None:
        self.rows = {row["correlation_id"]: row for row in rows.values()}
        self.statuses = {key: row["status"] for key, row in attempts.items()}
        self.freed_at = {key: row["finished_at"] for key, row in attempts.items()}
        self.committed: list[str] = []
        self.starts: dict[str, list[tuple[int, Entry]]] = defaultdict(list)
        self.ends: dict[tuple[str, int], tuple[int, Entry]] = {}
        for place, entry in enumerate(entries):
            match entry.event:
                case "committed":
                    self.committed += entry.subject.split(",")
                case "start":
                    self.starts[entry.subject].append((place, entry))
                case "end":
                    self.ends[entry.run] = place, entry

    def is_lost(self, label: str) -> bool:
        """Acknowledged, and yet it has no successful end; one that is delivered at most once may be dead instead."""
        row = self.rows.get(label)
        if row is None:
            return True
        if label.startswith("once:") and row["status"] == "dead":
            return False
        return row["status"] != "succeeded" or (label, row["fence"]) not in self.ends

    def unexplained(self, label: str) -> int:
        """Runs beside the last one that the database does not tell of as lost or given back."""
        row, fences = self.rows.get(label), Counter(entry.fence for _, entry in self.starts[label])
        if row is None or label.startswith("once:"):
            return sum(fences.values()) - (row is not None)
        twice = sum(count - 1 for count in fences.values())
        explained = {fence for fence in fences if self.statuses.get((row["id"], fence)) in ("lost", "released")}
        return twice + len(fences.keys() - explained - {row["fence"]})

    def overtaken(self) -> Iterator[bool]:
        """Of each car, whether it began before the successful run of the one before it was over."""
        trains: dict[str, list[str]] = defaultdict(list)
        for label in self.committed:
            if label.startswith("train:"):
                trains[label.partition("/")[0]].append(label)
        for cars in trains.values():
            for before, car in pairwise(cars):
                end = self.ends.get((before, self.rows[before]["fence"])) if before in self.rows else None
                yield end is not None and any(place < end[0] for place, _ in self.starts[car])

    def over_limit(self, true_clock: bool) -> Iterator[bool]:
        """Of each run under a limit, whether there were too many at once when it began."""
        runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for label, starts in self.starts.items():
            if label.startswith("limit:") and label in self.rows:
                key = label.partition("/")[0]
                runs[key] += [(entry.at, self._over_at(label, entry, true_clock)) for _, entry in starts]
        for spans in runs.values():
            for begin, _ in spans:
                yield sum(start <= begin < end for start, end in spans) > MOST

    def _over_at(self, label: str, start: Entry, true_clock: bool) -> float:
        """When the run's claim ended: at its end, or when it was taken from its worker."""
        end = self.ends.get(start.run)
        ended_at = end[1].at if end else start.at
        key = self.rows[label]["id"], start.fence
        if self.statuses.get(key) in ("lost", "released"):
            # by a clock that jumps nobody can tell when it was taken
            return min(ended_at if end else self.freed_at[key], self.freed_at[key]) if true_clock else start.at
        return ended_at


if __name__ == "__main__":
    configure(json=True)
    enqueue(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
