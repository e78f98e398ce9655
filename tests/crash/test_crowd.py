"""Eight processes enqueue, look and work on one SQLite file at once, and none is ever told that it is locked."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.crash.crash_site import CrashSite
from tests.crash.processes import until

PROCESSES = 8


@pytest.mark.parametrize(("jobs", "held"), [(40, False), (8, True)])
def test_eight_processes_share_one_file_and_none_is_told_that_it_is_locked(
    sqlite_site: CrashSite, jobs: int, held: bool
) -> None:
    fleet, ledger, rows = sqlite_site.fleet, sqlite_site.ledger, sqlite_site.rows
    if held:
        holder = fleet.script("hold", sqlite_site.url.removeprefix("sqlite:///"), "0.3")
        until(lambda: ledger.of("held"), "another program holds the file")
    # a lease that outlasts the crowding of this test: it is about locks
    crowd = [fleet.script("crowd", str(jobs), lease="60s", heartbeat="1s") for _ in range(PROCESSES)]
    until(lambda: len(ledger.of("done")) == PROCESSES, "all are enqueued")
    until(lambda: rows.statuses().keys() == {"succeeded"}, "all succeed")
    for process in crowd:
        process.signal(15)
    assert [process.ended() for process in crowd] == [0] * PROCESSES
    if held:
        assert holder.code is None
        assert len(ledger.of("held")) > 3

    assert ledger.subjects("told") == []
    acknowledged = ledger.subjects("acknowledged")
    # every fourth enqueue is a batch of three
    assert len(acknowledged) == len(set(acknowledged)) == PROCESSES * (jobs + 2 * (jobs // 4))
    assert set(acknowledged) == rows.jobs().keys()
    assert Counter(ledger.subjects("start")) == Counter(acknowledged)
    assert Counter(row["status"] for row in rows.attempts().values()) == {"succeeded": len(acknowledged)}
    for process in crowd:
        quiet = [line for line in process.lines() if line["level"] not in ("info", "debug")]
        assert quiet == []
    rows.check()
