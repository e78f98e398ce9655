"""The database goes away for two leases and comes back: live jobs go on, and their outcomes are written then."""

from __future__ import annotations

import time

import pytest

from headway.errors import StoreUnavailable
from tests.crash.crash_jobs import gated, gated_plain, work
from tests.crash.crash_site import CrashSite, Server
from tests.crash.processes import until

LEASE_S = 2.0
SIZE = 20


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_no_live_job_is_reaped_because_the_database_was_away(
    durable_server: Server, postgres_site: CrashSite, mode: str
) -> None:
    app, fleet, ledger, rows = (
        postgres_site.app,
        postgres_site.fleet,
        postgres_site.ledger,
        postgres_site.rows,
    )
    workers = [fleet.worker(concurrency=4).started() for _ in range(2)]
    ends_away = [gated.build(["away"]) if number % 2 else gated_plain.build(["away"]) for number in range(4)]
    ends_after = [gated.build(["after"]) if number % 2 else gated_plain.build(["after"]) for number in range(4)]
    jobs = [*ends_away, *ends_after]
    app.enqueue_many(jobs)
    until(lambda: len(ledger.of("start")) == 8, "all eight run")
    ids_before = {row["worker_id"] for row in rows.jobs(status="running").values()}
    enqueuer = fleet.script("enqueue", mode, str(SIZE))
    until(lambda: len(ledger.of("acknowledged")) >= 5, "some batches are acknowledged")
    said_before = [len(worker.lines()) for worker in workers]

    durable_server.stop(mode)
    try:
        away_at = time.monotonic()
        with pytest.raises(StoreUnavailable):
            app.enqueue(work.using(queue="nobody", correlation_id="refused").build())
        fleet.open_gate("away")
        until(lambda: len(ledger.of("end")) == 4, "handlers end while the database is away")
        time.sleep(max(0.0, away_at + 2 * LEASE_S - time.monotonic()))
    finally:
        durable_server.start()
    back_at = time.time()
    acknowledged = len(ledger.of("acknowledged"))
    until(lambda: len(ledger.of("acknowledged")) > acknowledged, "the enqueuer goes on")
    enqueuer.kill()

    until(lambda: rows.statuses_of(ends_away) == {"succeeded"}, "what they said is written")
    # a lease after the database came back, reapers reap again: by then every live worker has beaten
    enough = back_at + LEASE_S + 2.0
    until(lambda: min(w.heartbeat_at.timestamp() for w in app.workers()) > enough, "beats well after the outage")
    assert rows.statuses_of(ends_after) == {"running"}
    fleet.open_gate("after")
    until(lambda: rows.statuses_of(jobs) == {"succeeded"}, "all succeed")

    attempts, found = rows.attempts(), rows.jobs()
    for job in jobs:
        assert (found[job.id]["fence"], found[job.id]["losses"]) == (1, 0)
        assert attempts[job.id, 1]["worker_id"] in ids_before
        assert (job.id, 2) not in attempts
    assert sorted(ledger.subjects("start")) == sorted(job.id for job in jobs)
    for worker, before in zip(workers, said_before, strict=True):
        assert worker.code is None
        said = [line for line in worker.lines()[before:] if line["event"] != "job succeeded"]
        assert len(said) <= 2 * (1 + (time.monotonic() - away_at) // 60) + 1, said
    sizes = rows.sizes()
    assert "refused" not in sizes
    assert {sizes[batch] for batch in ledger.subjects("acknowledged")} == {SIZE}
    assert {size for batch, size in sizes.items() if batch is not None} == {SIZE}
    assert ledger.of("refused"), "the enqueuer went through the outage too"
