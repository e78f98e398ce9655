"""The database stands still for longer than a lease and says nothing: no live job is taken when it goes on."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import apsw

from headway.worker.grace import LAST_WRITES_S
from tests.crash.crash_jobs import gated, gated_plain
from tests.crash.crash_site import CrashSite, Server
from tests.crash.processes import Process, until

LEASE_S = 2.0
PROCESS_END_S = 3.0
"""For the signal to arrive and the interpreter to end, on a busy machine."""


def _start(site: CrashSite) -> tuple[list[Process], list[Any]]:
    """Two workers with four jobs each that run until the gate is open, and are ready to judge others."""
    workers = [site.fleet.worker(concurrency=4).started() for _ in range(2)]
    jobs = [gated.build(["end"]) if number % 2 else gated_plain.build(["end"]) for number in range(8)]
    site.app.enqueue_many(jobs)
    until(lambda: len(site.ledger.of("start")) == 8, "all eight run")
    began = time.time()
    until(lambda: _last_beat(site) > began + LEASE_S + 0.5, "they have beaten for a lease")
    return workers, jobs


def _last_beat(site: CrashSite) -> float:
    return min(worker.heartbeat_at.timestamp() for worker in site.app.workers())


def _goes_on(site: CrashSite, workers: list[Process], jobs: list[Any]) -> None:
    """Everybody beats again, well after reapers could reap, and nothing was lost."""
    began = time.time()
    until(lambda: _last_beat(site) > began + LEASE_S + 1.5, "beats long after it")
    assert site.rows.statuses_of(jobs) == {"running"}
    site.fleet.open_gate("end")
    until(lambda: site.rows.statuses_of(jobs) == {"succeeded"}, "all succeed")
    found, attempts = site.rows.jobs(), site.rows.attempts()
    for job in jobs:
        assert (found[job.id]["fence"], found[job.id]["losses"]) == (1, 0)
        assert (job.id, 2) not in attempts
    for worker in workers:
        assert worker.code is None
        assert len(worker.worker_ids) == 1


def test_no_live_job_is_reaped_because_postgresql_was_frozen(durable_server: Server, postgres_site: CrashSite) -> None:
    workers, jobs = _start(postgres_site)
    with durable_server.frozen():
        time.sleep(1.5 * LEASE_S)
    _goes_on(postgres_site, workers, jobs)


def test_no_live_job_is_reaped_because_somebody_held_the_write_lock(sqlite_site: CrashSite) -> None:
    workers, jobs = _start(sqlite_site)
    with _locked(sqlite_site.url.removeprefix("sqlite:///")):
        time.sleep(1.5 * LEASE_S)
    _goes_on(sqlite_site, workers, jobs)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with contextlib.closing(apsw.Connection(path)) as other:
        other.set_busy_timeout(10_000)  # a worker may be writing this moment
        other.execute("begin immediate")
        yield
        other.execute("rollback")


def _stop_while_it_hangs(site: CrashSite, hanging: AbstractContextManager[None]) -> None:
    """The job of one worker has ended and its outcome cannot be written; the other's job uses up the grace period."""
    done, stuck = gated.build(["done"]), gated.build(["never", "done"])
    workers = []
    for job, grace in ((done, "3s"), (stuck, "1s")):
        workers.append(site.fleet.worker(concurrency=1, grace=grace).started())
        site.app.enqueue_many([job])
        until(lambda job=job: job.id in site.ledger.subjects("start"), "it runs")  # type: ignore[misc]
    with hanging:
        site.fleet.open_gate("done")
        until(lambda: site.ledger.of("end"), "one has ended")
        for worker in workers:
            worker.signal(signal.SIGTERM)
        assert workers[0].ended(within=3 + PROCESS_END_S) == 0
        assert workers[1].ended(within=1 + LAST_WRITES_S + PROCESS_END_S) == 0
    for worker in workers:
        assert worker.lines("the last outcomes could not be written")
        assert worker.lines("could not sign off")
    site.fleet.worker()
    # PostgreSQL may have received the outcomes before it froze, and writes them once it goes on
    until(lambda: site.rows.statuses_of([done, stuck]) == {"succeeded"}, "what was not written runs again")


def test_a_worker_ends_within_its_grace_while_somebody_holds_the_write_lock(sqlite_site: CrashSite) -> None:
    _stop_while_it_hangs(sqlite_site, _locked(sqlite_site.url.removeprefix("sqlite:///")))


def test_a_worker_ends_within_its_grace_while_postgresql_is_frozen(
    durable_server: Server, postgres_site: CrashSite
) -> None:
    _stop_while_it_hangs(postgres_site, durable_server.frozen())
