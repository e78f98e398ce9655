"""Workers killed around transactions with a job's outcome and the application's own rows: both exist, or neither."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from headway.model.job import NewJob
from headway.model.status import FINISHED
from tests.crash import transfer_jobs
from tests.crash.crash_site import CrashSite
from tests.crash.processes import until
from tests.crash.transfer_jobs import POINTS, STEPS, Payment, transaction, transfer, transfer_once, two_halves

ACCOUNTS, CENTS = 8, 1_000_000


def read(site: CrashSite, sql: str) -> list[tuple[Any, ...]]:
    with transaction(site.url) as conn:
        return list(map(tuple, conn.execute(sql).fetchall()))


def test_money_balances_to_the_cent_while_workers_are_killed(site: CrashSite, request: pytest.FixtureRequest) -> None:
    kills = request.config.getoption("--crash-kills")
    transfer_jobs.create_tables(site.url, ACCOUNTS, CENTS)
    jobs = [_transfer(number) for number in range(max(request.config.getoption("--crash-jobs") // 3, 20 * kills))]
    site.app.enqueue_many(jobs)
    alive = [site.fleet.worker(app="transfer_jobs", concurrency=4) for _ in range(2)]
    for kill in range(1, kills + 1):
        until(lambda kill=kill: _applied(site) >= len(jobs) * kill // (kills + 1), "some transfers more")
        victim = alive.pop(0)
        victim.kill()
        alive.append(site.fleet.worker(app="transfer_jobs", concurrency=4))
    until(lambda: not set(site.rows.statuses()) - {*FINISHED}, "the end of all transfers")

    rows = site.rows.jobs()
    moved = {row["id"]: row for row in rows.values() if row["status"] == "succeeded"}
    heirs = {row["retry_of"] for row in rows.values()}
    assert {row["id"] for row in rows.values() if row["status"] != "succeeded"} <= heirs, "only lost at_most_once ones"
    assert len(moved) == len(jobs)
    entries = Counter(job for (job,) in read(site, "select job from entries"))
    assert entries == {job_id: 2 if row["kind"] == "two_halves" else 1 for job_id, row in moved.items()}
    assert sum(cents for (cents,) in read(site, "select cents from accounts")) == ACCOUNTS * CENTS
    assert _balances(site) == dict(read(site, "select id, cents from accounts"))
    assert all(row["committed"] is None for row in rows.values())
    ends = Counter(attempt["status"] for attempt in site.rows.attempts().values())
    assert set(ends) <= {"succeeded", "snoozed", "lost"}
    assert (ends["succeeded"], ends["snoozed"]) == (len(jobs), sum(job.kind == "two_halves" for job in jobs))
    site.rows.check()


def _transfer(number: int) -> NewJob:
    source, target = random.sample(range(ACCOUNTS), 2)
    kind = (transfer, transfer_once, two_halves, transfer.using(train=f"account_{source}"))[number % 4]
    return kind.build(source, target, random.randint(1, 10_000))


def _applied(site: CrashSite) -> int:
    return site.app.counts().get("succeeded", 0)


def _balances(site: CrashSite) -> dict[int, int]:
    """What the accounts must hold if each job moved its money once (`two_halves`: twice)."""
    held = dict.fromkeys(range(ACCOUNTS), CENTS)
    for row in site.app.jobs(status="succeeded", limit=10_000):
        cents = row.payload["cents"] * (2 if row.kind == "two_halves" else 1)
        held[row.payload["source"]] -= cents
        held[row.payload["target"]] += cents
    return held


def test_a_step_is_done_once_wherever_around_its_commit_its_worker_is_killed(site: CrashSite) -> None:
    transfer_jobs.create_tables(site.url, 3, CENTS)
    job = site.app.enqueue(Payment.build())
    site.app.signal(job.id, "paid")
    for _ in range(len(STEPS) * len(POINTS)):
        assert site.fleet.worker(app="transfer_jobs").ended() == -9
    site.fleet.worker(app="transfer_jobs")
    assert site.app.result(job.id, timeout="180s").unwrap() == [5, 7]

    assert site.app.get(job.id).state["trail"] == list(STEPS[:-1]), "Done leaves it as it was"
    entries = [what for (what,) in read(site, f"select what from entries where job = '{job.id}'")]
    assert entries == list(STEPS)
    assert dict(read(site, "select id, cents from accounts")) == {0: CENTS - 5, 1: CENTS - 2, 2: CENTS + 7}
    history = site.app.history(job.id)
    ended = [(execution.step, execution.outcome) for execution in history if execution.status == "succeeded"]
    assert ended == list(zip(STEPS, ("next", "await", "spawn", "done"), strict=True))
    # before the commit it is lost, after it nothing is
    lost = [execution.step for execution in history if execution.status == "lost"]
    assert lost == list(STEPS)
    assert [signal.status for signal in site.app.signals(job.id)] == ["consumed"]
    site.rows.check()
