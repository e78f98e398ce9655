"""Flows whose workers are killed in a loop: no recorded step runs again, no answer reaches another place, nothing of a
dead worker is recorded, nothing is lost."""

from __future__ import annotations

from collections import defaultdict

import pytest

from headway.model.journal import effective
from tests.crash.crash_site import CrashSite
from tests.crash.flow_jobs import carry, carry_plainly
from tests.crash.killed_workers import KilledWorkers


def test_flows_end_right_while_workers_are_killed(site: CrashSite, request: pytest.FixtureRequest) -> None:
    kills = request.config.getoption("--crash-kills")
    flows = max(20, request.config.getoption("--crash-jobs") // 10)
    app = site.app
    new = [(carry if number % 3 else carry_plainly).build(number=number) for number in range(flows)]
    jobs = app.enqueue_many(new)
    workers = KilledWorkers(site, 3, app="flow_jobs")
    workers.kill_some(kills, every=max(1, flows * 8 // (kills + 1) // 2), within=60)
    workers.until_over(within=60 + flows)

    ran: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for entry in site.ledger.of("end"):
        job_id, _, place = entry.subject.partition("/")
        ran[job_id][place].append(entry.fence)
    for number, job in enumerate(jobs):
        done = app.get(job.id)
        assert (done.status, done.result) == ("succeeded", str(number)), done.error
        rows = effective(app.store.run(app.store.ops.journal([job.id])).rows)
        recorded = {row.place: row.fence for row in rows if row.kind == "done"}
        assert recorded.keys() == ran[job.id].keys()
        for place, fences in ran[job.id].items():
            # it may have run to its end before, when its worker was killed before that was recorded
            assert max(fences) == recorded[place], (job.id, place, fences)
            assert len(fences) == len(set(fences)), (job.id, place, fences)
