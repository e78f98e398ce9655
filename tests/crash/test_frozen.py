"""The database stands still for longer than a lease and says nothing: no live job is taken when it goes on."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any

import apsw

from tests.crash.crash_jobs import gated, gated_plain
from tests.crash.crash_site import CrashSite, Server
from tests.crash.processes import Process, until

LEASE_S = 2.0


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
    with contextlib.closing(apsw.Connection(sqlite_site.url.removeprefix("sqlite:///"))) as other:
        other.set_busy_timeout(10_000)  # a worker may be writing this moment
        other.execute("begin immediate")
        time.sleep(1.5 * LEASE_S)
        other.execute("rollback")
    _goes_on(sqlite_site, workers, jobs)


def test_a_worker_ends_within_its_grace_while_somebody_holds_the_write_lock(sqlite_site: CrashSite) -> None:
    worker = sqlite_site.fleet.worker(grace="1s").started()
    sqlite_site.app.enqueue_many([gated.build(["never"])])
    until(lambda: len(sqlite_site.ledger.of("start")) == 1, "it runs")
    with contextlib.closing(apsw.Connection(sqlite_site.url.removeprefix("sqlite:///"))) as other:
        other.set_busy_timeout(10_000)  # a worker may be writing this moment
        other.execute("begin immediate")
        worker.signal(signal.SIGTERM)
        worker.ended()
        other.execute("rollback")
    assert worker.lines("could not sign off")


def test_a_worker_ends_within_its_grace_while_postgresql_is_frozen(
    durable_server: Server, postgres_site: CrashSite
) -> None:
    worker = postgres_site.fleet.worker(grace="1s").started()
    postgres_site.app.enqueue_many([gated.build(["never"])])
    until(lambda: len(postgres_site.ledger.of("start")) == 1, "it runs")
    with durable_server.frozen():
        time.sleep(0.3)  # so that something is on its way
        worker.signal(signal.SIGTERM)
        worker.ended()
    assert worker.lines("could not sign off")
