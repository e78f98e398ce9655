"""A process killed while it has a queue to itself: nobody began there meanwhile, and afterwards the queue is free."""

from __future__ import annotations

import random
import time
from itertools import count

import pytest

from tests.crash.crash_site import CrashSite
from tests.crash.killed_workers import PATIENT
from tests.crash.ledger import Entry
from tests.crash.ordered_jobs import job
from tests.crash.processes import until
from tests.crash.stored_rows import Row

EXPIRES_S = 1.0


def test_a_killed_run_now_leaves_a_lost_attempt_and_a_free_queue(site: CrashSite) -> None:
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    fleet.worker(app="ordered_jobs", queues="main").started()
    victim = fleet.script("run_now", "main", "inside/1", "3s", program="ordered_jobs")
    until(lambda: ledger.of("start"), "it runs")
    waits = app.enqueue(job("outside/1")).id
    victim.kill()
    (reservation,) = rows.reservations()
    until(lambda: app.get(waits).status == "succeeded", "the queue is free again")
    inside = until(lambda: rows.jobs(correlation_id="inside/1", status="succeeded"), "another worker runs it")

    ((job_id, row),) = inside.items()
    attempts = rows.attempts()
    assert [attempts[job_id, fence]["status"] for fence in (1, 2)] == ["lost", "succeeded"]
    assert (row["fence"], row["tries"], row["losses"]) == (2, 0, 1)
    others = [attempts[job_id, 2], attempts[waits, 1]]
    assert min(attempt["started_at"] for attempt in others) >= reservation["expires_at"]
    assert attempts[job_id, 1]["worker_id"] not in {attempt["worker_id"] for attempt in others}
    assert len(attempts) == 3
    site.rows.check()


def test_nobody_begins_in_a_reserved_queue_while_its_holders_are_killed(
    site: CrashSite, request: pytest.FixtureRequest
) -> None:
    kills = max(3, request.config.getoption("--crash-kills") // 3)
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    workers = [fleet.worker(app="ordered_jobs", queues="main", **PATIENT).started() for _ in range(2)]
    left: list[Row] = []
    labels = (f"outside/{number}" for number in count())
    for _ in range(kills):
        holder = fleet.script("reserve", "main", f"{EXPIRES_S}s", program="ordered_jobs")
        fed: list[str] = []

        def has_reserved(pid: int = holder.pid, fed: list[str] = fed) -> bool:
            fed.append(next(labels))  # there is always something to claim
            app.enqueue(job(fed[-1], ms=2))
            return sum(entry.pid == pid for entry in ledger.of("leaving")) >= 3

        until(has_reserved, "it reserves again and again")
        time.sleep(random.uniform(0, 0.03))  # somewhere in it
        holder.kill()
        left += rows.reservations()
        until(lambda fed=fed: set(fed) <= set(ledger.subjects("end")), "the queue is free again")
    # what a killed holder ran itself is found by a worker that comes new
    workers.append(fleet.worker(app="ordered_jobs", queues="main", **PATIENT).started())
    until(lambda: rows.statuses().keys() == {"succeeded"}, "all jobs end")

    ids = {worker_id for worker in workers for worker_id in worker.worker_ids}
    starts = [row["started_at"] for row in rows.attempts().values() if row["worker_id"] in ids]
    spans = [*_reserved(ledger.read()), *((row["since"], row["expires_at"]) for row in left)]
    assert len(spans) >= 3 * kills
    for begin, end in spans:
        assert not [at for at in starts if begin < at < end]
    site.rows.check()


def _reserved(entries: list[Entry]) -> list[tuple[float, float]]:
    """From when to when holders had the queue: from what they wrote first inside to what they wrote last there."""
    spans: dict[str, list[float]] = {}
    for entry in entries:
        if entry.event in ("reserved", "leaving"):
            spans.setdefault(entry.subject, []).append(entry.at)
    return [(min(span), max(span)) for span in spans.values()]
