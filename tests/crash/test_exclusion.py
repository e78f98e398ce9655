"""Limits and partitions while workers are killed: never more at once than allowed, by the ledger, and nothing stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from headway.model.job import NewJob
from tests.crash.crash_site import CrashSite
from tests.crash.killed_workers import KilledWorkers
from tests.crash.ledger import Entry
from tests.crash.ordered_jobs import job

WORKERS = 4
KEYS = 4
MOST = 3
PER_QUEUE = 5


def test_no_more_run_of_a_key_or_queue_than_its_limit(site: CrashSite, request: pytest.FixtureRequest) -> None:
    """Four keys of which three jobs may run at once; all of a queue of which five may."""
    site.app.limit(queue="narrow", max_running=PER_QUEUE)

    def build(number: int) -> NewJob:
        limited = {"concurrency": MOST, "concurrency_key": f"k{number % KEYS}"}
        match number % 7:
            case 1:
                return job(f"narrow:-/{number}", ms=number % 20, queue="narrow")
            case 2 | 5:
                return job(f"narrow:k{number % KEYS}/{number}", ms=number % 20, queue="narrow", **limited)
            case 3:
                return job(f"main:k{number % KEYS}/{number}", ms=number % 20, fails=1, **limited)
            case _:
                return job(f"main:k{number % KEYS}/{number}", ms=number % 20, **limited)

    entries = _run(site, request, build)
    of_keys = _peaks(entries, lambda entry: _part(entry, 1))
    assert max(of_keys[f"k{key}"] for key in range(KEYS)) == MOST
    assert _peaks(entries, lambda entry: _part(entry, 0))["narrow"] == PER_QUEUE


def test_no_two_run_of_a_partition(site: CrashSite, request: pytest.FixtureRequest) -> None:
    """Twelve partitions, over two queues, some of whose jobs share limits with others that have no partition."""
    partitions = 3 * KEYS
    site.app.limit(queue="narrow", max_running=PER_QUEUE)

    def build(number: int) -> NewJob:
        partition = f"p{number % partitions}"
        match number % 7:
            case 0:
                return job(f"main:-/{number}", ms=number % 5, concurrency=MOST, concurrency_key="all")
            case 1:
                return job(
                    f"main:{partition}/{number}",
                    ms=number % 10,
                    partition=partition,
                    concurrency=MOST,
                    concurrency_key="all",
                )
            case 2:
                return job(f"narrow:{partition}/{number}", ms=number % 10, partition=partition, queue="narrow")
            case 3:
                return job(f"main:{partition}/{number}", ms=number % 10, fails=1, partition=partition)
            case _:
                return job(f"main:{partition}/{number}", ms=number % 10, partition=partition)

    entries = _run(site, request, build)
    peaks = _peaks(entries, lambda entry: _part(entry, 1))
    assert [peaks[f"p{number}"] for number in range(partitions)] == [1] * partitions


def _run(site: CrashSite, request: pytest.FixtureRequest, build: Callable[[int], NewJob]) -> list[Entry]:
    """Run the jobs while workers are killed; gives the ledger, in which each has its end."""
    kills = request.config.getoption("--crash-kills")
    jobs = request.config.getoption("--crash-jobs")
    patience_s = 60 + jobs / 20
    workers = KilledWorkers(site, WORKERS, queues="main=8,narrow=8")
    labels: list[str] = []
    numbers = count()

    def enqueue(share: int) -> None:
        batch = [build(next(numbers)) for _ in range(share)]
        site.app.enqueue_many(batch)
        labels.extend(str(each.correlation_id) for each in batch)

    later = jobs // (2 * kills)
    enqueue(jobs - kills * later)
    workers.kill_some(kills, every=jobs * 4 // (kills * 5), within=patience_s, before_each=lambda: enqueue(later))
    workers.until_over(within=patience_s)
    entries = site.ledger.read()
    assert len(labels) == jobs
    assert {entry.subject for entry in entries if entry.event == "end"} == set(labels)
    assert site.rows.statuses() == {"succeeded": jobs}
    return entries


def _part(entry: Entry, place: int) -> str:
    """The queue (0) or the key (1) that a run is under."""
    return entry.subject.partition("/")[0].split(":")[place]


def _peaks(entries: list[Entry], key_of: Callable[[Entry], str]) -> dict[str, int]:
    """How many ran at once under each key, at most."""
    peaks: dict[str, int] = {}
    running: dict[tuple[str, int], Entry] = {}
    for entry in _of_the_living(entries):
        match entry.event:
            case "start":
                running[entry.run] = entry
                key = key_of(entry)
                peaks[key] = max(peaks.get(key, 0), sum(key_of(other) == key for other in running.values()))
            case "kill":
                running = {run: other for run, other in running.items() if other.pid != int(entry.subject)}
            case _:
                running.pop(entry.run, None)
    return peaks


def _of_the_living(entries: list[Entry]) -> Iterator[Entry]:
    """Without what a process began while its kill was on its way: when that run is over nobody can tell."""
    killed: set[int] = set()
    for entry in entries:
        if entry.event == "kill":
            killed.add(int(entry.subject))
        if entry.event != "start" or entry.pid not in killed:
            yield entry
