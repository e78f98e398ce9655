"""SIGTERM: running jobs end, others are given back for nothing, and supervised workers go with their head."""

from __future__ import annotations

import os
import signal

import pytest

from tests.crash.crash_jobs import gated, gated_once, gated_plain, work
from tests.crash.crash_site import CrashSite
from tests.crash.processes import is_running, until

TERM = signal.SIGTERM


def test_sigterm_lets_running_jobs_finish_and_claims_no_more(site: CrashSite) -> None:
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    worker = fleet.worker().started()
    jobs = [gated.build(["go"]), gated_plain.build(["go"]), gated_once.build("go")]
    app.enqueue_many(jobs)
    until(lambda: len(ledger.of("start")) == 3, "all run")
    worker.signal(TERM)
    worker.says("waits for running jobs")
    late = app.enqueue(work.build()).id
    fleet.open_gate("go")
    assert worker.ended() == 0
    found = rows.jobs()
    for job in jobs:
        assert (found[job.id]["status"], found[job.id]["fence"]) == ("succeeded", 1)
    assert (found[late]["status"], found[late]["fence"]) == ("queued", 0)
    assert app.workers() == []


@pytest.mark.parametrize(("grace", "signals"), [("300ms", 1), ("10m", 2)])
def test_what_does_not_end_in_time_is_given_back_for_nothing_and_runs_elsewhere(
    site: CrashSite, grace: str, signals: int
) -> None:
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    worker = fleet.worker(grace=grace).started()
    jobs = [gated.build(["never", ""]), gated_plain.build(["never", ""])]
    once = gated_once.build("later")
    app.enqueue_many([*jobs, once])
    until(lambda: len(ledger.of("start")) == 3, "all run")
    for _ in range(signals):
        worker.signal(TERM)
        worker.says("waits for running jobs")
    assert worker.ended() == 0
    found = rows.jobs()
    given_back, in_thread = (found[job.id] for job in jobs)
    assert (given_back["status"], given_back["tries"], given_back["losses"]) == ("queued", 0, 0)
    # what the worker left behind frees it once the process has ended, and its thread with it
    until(lambda: app.get(in_thread["id"]).status == "scheduled", "the job of the thread is free")
    assert found[once.id]["status"] == "failed", "it had started and may not run again"

    fleet.open_gate("later")
    fleet.worker()
    (retry,) = rows.jobs(retry_of=once.id)
    until(lambda: app.get(retry).status == "succeeded", "the one that may not run again is retried by a new job")
    until(lambda: {app.get(job.id).status for job in jobs} == {"succeeded"}, "another worker runs them")
    attempts = rows.attempts()
    for job, first in zip(jobs, ("released", "lost"), strict=True):
        assert [attempts[job.id, fence]["status"] for fence in (1, 2)] == [first, "succeeded"]
        assert (rows.jobs()[job.id]["tries"], rows.jobs()[job.id]["losses"]) == (0, 0)
    assert ledger.subjects("start").count(once.id) == 1


def test_a_supervisor_replaces_a_killed_worker_and_passes_sigterm_on(sqlite_site: CrashSite) -> None:
    app, fleet, ledger = sqlite_site.app, sqlite_site.fleet, sqlite_site.ledger
    # a long lease: what the killed worker held must be found by the newcomer
    supervisor = fleet.worker(processes=2, lease="60s", heartbeat="20s")
    until(lambda: len(fleet.worker_pids()) == 2, "two workers start")
    job = app.enqueue(gated.build(["never", "second"])).id
    first = until(lambda: ledger.of("start"), "one of them runs the job")[0].pid
    assert first in fleet.worker_pids()
    os.kill(first, signal.SIGKILL)
    until(lambda: len(fleet.worker_pids()) == 3, "the supervisor starts another")
    second = until(lambda: len(ledger.of("start")) == 2, "it runs again") and ledger.of("start")[1].pid
    assert second != first
    supervisor.signal(TERM)
    fleet.open_gate("second")
    assert supervisor.ended() == 0
    assert app.get(job).status == "succeeded"
    assert not any(is_running(pid) for pid in fleet.worker_pids())
    assert app.workers() == []


def test_workers_end_in_good_order_when_their_supervisor_is_killed(sqlite_site: CrashSite) -> None:
    app, fleet, ledger, rows = sqlite_site.app, sqlite_site.fleet, sqlite_site.ledger, sqlite_site.rows
    supervisor = fleet.worker(processes=2, grace="300ms")
    until(lambda: len(supervisor.lines("worker started")) == 2, "two workers start")
    job = app.enqueue(gated.build(["never"])).id
    until(lambda: ledger.of("start"), "one of them runs the job")
    workers = fleet.worker_pids()
    assert [is_running(pid) for pid in workers] == [True, True]
    supervisor.kill()
    until(lambda: not any(is_running(pid) for pid in workers), "its workers end")
    row = rows.jobs()[job]
    assert (row["status"], row["tries"], row["losses"]) == ("queued", 0, 0)
    assert app.workers() == []
