"""Processes that enqueue what they work on themselves, killed in the midst: a hand-over loses and doubles nothing."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter, defaultdict

import pytest
from conftest import Ground
from crew import PATIENT
from fleet import Process, until
from ledger import Entry, Ledger
from rows import Row

from headway.model.status import UNFINISHED

PROCESSES = 2
SLOTS = 3
BY_OTHERS = "::"
# in turn: by others at any moment; committed, and the worker not told; told; about to begin; begun, and it has not run
POINTS = (BY_OTHERS, "take:before", "take:after", BY_OTHERS, "_start:before", "_start:after")


def test_no_job_is_lost_stuck_or_doubled_while_processes_that_hand_over_are_killed(
    ground: Ground, request: pytest.FixtureRequest
) -> None:
    kills = max(len(POINTS), request.config.getoption("--crash-kills"))
    jobs = max(request.config.getoption("--crash-jobs"), 40 * (kills + 1))
    share = jobs // (kills + 1) // 4
    points = [POINTS[number % len(POINTS)] for number in range(kills)] + [BY_OTHERS] * PROCESSES
    processes: list[Process] = []
    for number, point in enumerate(points):
        if number >= PROCESSES:
            _kill(ground.ledger, processes[number - PROCESSES], points[number - PROCESSES], share)
        at = point if point == BY_OTHERS else f"{point}:{random.randint(1, share)}"
        processes.append(ground.fleet.script("hand_over", str(SLOTS), at, **PATIENT))
    until(lambda: len(ground.ledger.of("acknowledged")) >= jobs, f"{jobs} jobs are enqueued", within=60 + jobs / 20)
    ground.fleet.open_gate("enough")
    until(lambda: not ground.rows.statuses().keys() & set(UNFINISHED), "every job is over", within=60 + jobs / 20)
    killed, alive = processes[:kills], processes[kills:]
    for process in alive:
        process.started().signal(signal.SIGTERM)
    assert [process.ended() for process in alive] == [0] * PROCESSES, alive[0].tail() + alive[1].tail()

    entries, rows, attempts = ground.ledger.read(), ground.rows.jobs(), ground.rows.attempts()
    assert set(ground.ledger.subjects("acknowledged")) <= rows.keys() <= set(ground.ledger.subjects("asking"))
    assert Counter(row["status"] for row in rows.values()) == {"succeeded": len(rows)}
    _check_attempts(rows, attempts)
    _check_runs(entries, attempts, {process.pid for process in killed})
    _check_slots(entries)
    _check_handed_over(rows, attempts, {entry.run for entry in entries if entry.event == "start"})
    assert ground.app.workers() == []
    for process in processes:
        assert process.lines("answer was lost") == []
    ground.rows.check()


def _kill(ledger: Ledger, process: Process, point: str, share: int) -> None:
    """SIGKILL, whatever it does at that moment; or wait until it has killed itself at its point."""
    if point != BY_OTHERS:
        assert process.ended() == -signal.SIGKILL, process.tail()
        return
    enqueued = random.randint(1, share)

    def has_done_its_share() -> bool:
        return sum(entry.pid == process.pid for entry in ledger.of("acknowledged")) >= enqueued

    until(has_done_its_share, "it enqueues")
    time.sleep(random.uniform(0, 0.02))
    process.kill()


def _check_attempts(rows: dict[str, Row], attempts: dict[tuple[str, int], Row]) -> None:
    """Every job ended by its last attempt, and each one before that was a loss, charged once."""
    of_job: dict[str, list[Row]] = defaultdict(list)
    for key in sorted(attempts):
        of_job[key[0]].append(attempts[key])
    assert of_job.keys() == rows.keys()
    for job_id, ended in of_job.items():
        row = rows[job_id]
        assert [each["fence"] for each in ended] == list(range(1, row["fence"] + 1))
        assert [each["status"] for each in ended] == ["lost"] * (len(ended) - 1) + ["succeeded"]
        assert (row["tries"], row["losses"]) == (0, len(ended) - 1)


def _check_runs(entries: list[Entry], attempts: dict[tuple[str, int], Row], killed: set[int]) -> None:
    """What ran is what the attempts tell; only what a killed process ran was run again, and not before its end."""
    starts = {entry.run: entry for entry in entries if entry.event == "start"}
    ends = {entry.run: entry for entry in entries if entry.event == "end"}
    assert len(starts) + len(ends) == sum(entry.event in ("start", "end") for entry in entries), "a claim was run twice"
    assert ends.keys() <= starts.keys() <= attempts.keys()
    assert {key for key, attempt in attempts.items() if attempt["status"] == "succeeded"} <= ends.keys()
    last: dict[str, int] = {}
    for entry in entries:  # as they were written
        if entry.fence:
            assert entry.fence >= last.get(entry.subject, 0), f"a stale claim had an effect: {entry}"
            last[entry.subject] = entry.fence
    for key, start in starts.items():
        if attempts[key]["status"] == "lost":
            assert start.pid in killed, f"a living process lost {key}"


def _check_slots(entries: list[Entry]) -> None:
    """No process ever ran more than it has slots for."""
    running: Counter[int] = Counter()
    for entry in entries:
        if entry.event in ("start", "end"):
            running[entry.pid] += 1 if entry.event == "start" else -1
            assert running[entry.pid] <= SLOTS
    assert set(running.values()) <= set(range(SLOTS + 1))


def _check_handed_over(
    rows: dict[str, Row], attempts: dict[tuple[str, int], Row], started: set[tuple[str, int]]
) -> None:
    """It is hand-overs that were tested: they were made, and cut off with the job claimed and not begun."""
    handed = {job_id for job_id, row in rows.items() if row["started_at"] == row["created_at"]}
    assert len(handed) > len(rows) / 10
    for job_id in handed:
        if rows[job_id]["fence"] == 1:
            assert rows[job_id]["queued_at"] == rows[job_id]["started_at"]
    assert any(attempts[job_id, 1]["status"] == "lost" and (job_id, 1) not in started for job_id in handed)
