"""Workers killed in a loop while they run: nothing is lost, nothing stays stuck, nothing is done twice at most once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from headway.model.job import NewJob
from tests.crash.crash_jobs import once, plain, work
from tests.crash.crash_site import CrashSite
from tests.crash.ledger import Entry
from tests.crash.processes import Process, until
from tests.crash.stored_rows import Row

WORKERS = 3


def test_no_acknowledged_job_is_lost_while_workers_are_killed(site: CrashSite, request: pytest.FixtureRequest) -> None:
    kills = request.config.getoption("--crash-kills")
    jobs = max(request.config.getoption("--crash-jobs"), kills + 1)
    fleet, acknowledged = site.fleet, []
    killed: list[Process] = []
    alive = [fleet.worker(concurrency=8) for _ in range(WORKERS)]
    for share in range(kills + 1):
        batch = [_job(number) for number in range(share, jobs, kills + 1)]
        acknowledged += [each.id for each in site.app.enqueue_many(batch)]
        if share == kills - 1:
            acknowledged += _until_settled_in(site, alive)
        if share < kills:
            victim = _busy(site, alive)
            victim.kill()
            killed.append(victim)
            alive.remove(victim)
            if share < kills - 1:  # the jobs of the last one are found by its lease, as no newcomer finds it gone
                alive.append(fleet.worker(concurrency=8))
    _until_over(site, len(acknowledged))

    rows, attempts = site.rows.jobs(), site.rows.attempts()
    assert {row["id"] for row in rows.values() if row["retry_of"] is None} == set(acknowledged)
    at_least_once = {job_id: row for job_id, row in rows.items() if row["delivery"] == "at_least_once"}
    assert Counter(row["status"] for row in at_least_once.values()) == {"succeeded": len(at_least_once)}
    _check_attempts(rows, attempts)
    _check_ledger(site.ledger.read(), rows, attempts)
    _check_chains(rows, site.ledger.subjects("start"))
    _check_stuck(killed, attempts)
    site.rows.check()


def _job(number: int) -> NewJob:
    ms = 20 + number * 37 % 100
    match number % 4:
        case 0:
            return once.build(ms=ms, fails=int(number % 20 == 0))
        case 1:
            return plain.build(ms=ms)
        case _:
            return work.build(ms=ms, fails=int(number % 10 == 3))


def _busy(site: CrashSite, alive: list[Process]) -> Process:
    """A worker in the midst of several jobs, wherever it is in claiming, running and settling them."""

    def find() -> Process | None:
        runs = site.ledger.open_runs()
        busy = [process for process in alive if runs.get(process.pid, 0) >= 2]
        return random.choice(busy) if busy else None

    found: Process = until(find, "a worker that runs several jobs")
    return found


def _until_settled_in(site: CrashSite, alive: list[Process]) -> list[str]:
    """All have looked around and run something: whom they lose now they find by its lease alone. Gives the jobs that
    were added until then: else the others might have done all before the youngest begins."""
    added: list[str] = []

    def is_so() -> bool:
        if {process.pid for process in alive} <= {entry.pid for entry in site.ledger.read()}:
            return True
        added.extend(each.id for each in site.app.enqueue_many([plain.build(ms=20) for _ in range(4)]))
        return False

    until(is_so, "every worker runs jobs")
    return added


def _until_over(site: CrashSite, jobs: int) -> None:
    def is_over() -> bool:
        statuses = site.rows.statuses()
        return not statuses.keys() & {"queued", "scheduled", "running"}

    until(is_over, f"the end of {jobs} jobs", within=60 + jobs / 20)


def _check_attempts(rows: dict[str, Row], attempts: dict[tuple[str, int], Row]) -> None:
    """Each ended attempt is one row, the last one is how its job ended, and the charges are what they say."""
    of_job: dict[str, list[Row]] = defaultdict(list)
    for key in sorted(attempts):
        of_job[key[0]].append(attempts[key])
    assert of_job.keys() == rows.keys()
    for job_id, ended in of_job.items():
        row, statuses = rows[job_id], Counter(each["status"] for each in ended)
        assert statuses.keys() <= {"succeeded", "failed", "lost", "released"}
        assert ended[-1]["fence"] == row["fence"]
        assert statuses["succeeded"] == (row["status"] == "succeeded"), (row, ended)
        assert (ended[-1]["status"] == "succeeded") == (row["status"] == "succeeded")
        if row["delivery"] == "at_least_once":
            assert (row["tries"], row["losses"]) == (statuses["failed"], statuses["lost"])


def _check_ledger(entries: list[Entry], rows: dict[str, Row], attempts: dict[tuple[str, int], Row]) -> None:
    """What ran is what the attempts tell, and runs of one job overlap only where the first had lost its claim."""
    starts = {entry.run: entry for entry in entries if entry.event == "start"}
    ends = {entry.run: entry for entry in entries if entry.event != "start"}
    assert len(starts) + len(ends) == len(entries), "a claim was run twice"
    assert starts.keys() <= attempts.keys(), "a run left no attempt"
    for key, attempt in attempts.items():
        match attempt["status"]:
            case "succeeded":
                assert ends[key].event == "end"
            case "failed":
                assert ends[key].event == "raise"
    for (job_id, fence), start in starts.items():
        for earlier in range(1, fence):
            before = ends.get((job_id, earlier))
            if before is not None and before.at > start.at:
                assert attempts[job_id, earlier]["status"] == "lost"


def _check_chains(rows: dict[str, Row], started: list[str]) -> None:
    """An at_most_once id ran at most once; its retry is there exactly once; a chain ends well or out of attempts."""
    chained = {job_id: row for job_id, row in rows.items() if row["delivery"] == "at_most_once"}
    runs = Counter(job_id for job_id in started if job_id in chained)
    assert max(runs.values()) == 1
    retries = Counter(row["retry_of"] for row in chained.values() if row["retry_of"] is not None)
    assert set(retries.values()) == {1}, "no chain at all, or a job that was retried twice"
    assert retries.keys() == {job_id for job_id, row in chained.items() if row["status"] == "failed"}
    next_of = {row["retry_of"]: row for row in chained.values()}
    for root in (row for row in chained.values() if row["retry_of"] is None):
        links = [root]
        while (after := next_of.get(links[-1]["id"])) is not None:
            links.append(after)
        assert [link["status"] for link in links[:-1]] == ["failed"] * (len(links) - 1)
        assert len(links) <= root["max_attempts"]
        if links[-1]["status"] != "succeeded":
            assert (links[-1]["status"], len(links)) == ("dead", root["max_attempts"])
        # each link charged exactly one try or one loss
        assert links[-1]["tries"] + links[-1]["losses"] == len(links) - (links[-1]["status"] == "succeeded")


def _check_stuck(killed: list[Process], attempts: dict[tuple[str, int], Row]) -> None:
    """Whatever a killed worker held was taken from it, by others who were heard in time, and not forever."""
    for process in killed:
        assert process.killed_at is not None
        ids = process.worker_ids
        lost = [row for row in attempts.values() if row["worker_id"] in ids and row["status"] == "lost"]
        assert lost, "it was killed in the midst of jobs"
        # two leases on an idle machine: its own, then one in which the heartbeats of the worker that judges it all came
        # in time. On a busy one a late heartbeat starts the second anew, as it should: this is no proof of speed
        assert max(row["finished_at"] for row in lost) - process.killed_at < 60
