"""Server and workers over HTTP, killed in a loop: nothing is lost, and nothing stale is written."""

from __future__ import annotations

import random
import socket
from collections import Counter

import msgspec
import pytest

from tests.crash.crash_jobs import work
from tests.crash.crash_site import CrashSite
from tests.crash.processes import Process, until

WORKERS = 2


def test_nothing_is_lost_while_server_and_workers_over_http_are_killed(
    site: CrashSite, request: pytest.FixtureRequest
) -> None:
    kills = request.config.getoption("--crash-kills")
    jobs = max(request.config.getoption("--crash-jobs") // 4, 20 * (kills + 1))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    key = site.app.create_api_key("http", "worker").text
    fleet = site.fleet

    def new_worker() -> Process:
        return fleet.script(f"http://127.0.0.1:{port}", key, program="http_worker")

    server = fleet.server(port)
    alive = [new_worker() for _ in range(WORKERS)]
    acknowledged: list[str] = []
    for share in range(kills + 1):
        batch = [work.build(ms=5 + n % 60, fails=int(n % 10 == 3)) for n in range(share, jobs, kills + 1)]
        batch = [msgspec.structs.replace(job, queue="http") for job in batch]
        acknowledged += [each.id for each in site.app.enqueue_many(batch)]
        if share == kills:
            break
        before = len(site.ledger.of("start"))
        until(lambda before=before: len(site.ledger.of("start")) > before + 3, "workers that run jobs")
        if share % 2:
            server.kill()
            server = fleet.server(port)
        else:
            victim = random.choice(alive)
            victim.kill()
            alive.remove(victim)
            alive.append(new_worker())
    until(
        lambda: site.rows.statuses().get("succeeded", 0) >= len(acknowledged),
        "the end of all jobs",
    )

    rows, attempts = site.rows.jobs(), site.rows.attempts()
    assert set(rows) == set(acknowledged)
    assert Counter(row["status"] for row in rows.values()) == {"succeeded": len(rows)}
    ended = {entry.run for entry in site.ledger.of("end")}
    started = {entry.run for entry in site.ledger.of("start")}
    for (job_id, fence), attempt in attempts.items():
        if attempt["status"] == "succeeded":
            # the end that was written is one that happened, and its result is of that execution, not of a stale one
            assert (job_id, fence) in ended
            assert rows[job_id]["result"] in (fence, str(fence))
            assert fence == rows[job_id]["fence"]
    assert Counter(attempt["status"] for attempt in attempts.values())["succeeded"] == len(rows)
    assert len(started) == len(site.ledger.of("start")), "one execution began twice"
    site.rows.check()
