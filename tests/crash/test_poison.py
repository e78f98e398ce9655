"""A job that takes its worker down is dead after `max_losses` runs, and its neighbours all succeed."""

from __future__ import annotations

from collections import Counter

from tests.crash.crash_jobs import bulk, neighbour, poison
from tests.crash.crash_site import CrashSite
from tests.crash.processes import until


def test_a_poison_pill_runs_max_losses_times_and_its_neighbours_succeed(site: CrashSite) -> None:
    app, fleet, rows = site.app, site.fleet, site.rows
    pills, neighbours = {}, {}
    for queue, signaled in (("exits", False), ("signals", True)):
        pills[queue] = poison.using(queue=queue).build(signaled)
        neighbours[queue] = [neighbour.using(queue=queue).build() for _ in range(7)]
        # claimed along: before and behind it in one claim
        app.enqueue_many([*neighbours[queue][:3], pills[queue], *neighbours[queue][3:]])
    workers = {queue: fleet.worker(queues=queue) for queue in pills}
    codes = []

    def is_over() -> bool:
        for queue, worker in workers.items():
            if worker.code is not None:
                codes.append(worker.code)
                workers[queue] = fleet.worker(queues=queue)
        return not rows.statuses().keys() & {"queued", "scheduled", "running"}

    until(is_over, "every job is over")
    jobs, attempts, starts = rows.jobs(), rows.attempts(), Counter(site.ledger.subjects("start"))
    for queue, pill in pills.items():
        row = jobs[pill.id]
        assert (row["status"], row["losses"], row["tries"]) == ("dead", pill.max_losses, 0)
        assert starts[pill.id] == pill.max_losses
        assert [attempts[pill.id, fence]["status"] for fence in range(1, pill.max_losses + 1)] == ["lost"] * 5
        assert (pill.id, pill.max_losses + 1) not in attempts
        beside = [jobs[job.id] for job in neighbours[queue]]
        assert [row["status"] for row in beside] == ["succeeded"] * 7
        assert min(row["losses"] for row in beside) >= 1, "they were not taken along"
    assert Counter(codes) == {9: 5, -9: 5}


def test_every_call_of_a_killed_batch_is_its_own_loss(site: CrashSite) -> None:
    app, fleet, rows = site.app, site.fleet, site.rows
    calls = [bulk.using(max_losses=2 if place == 3 else 9).build(pill=place == 3) for place in range(6)]
    app.enqueue_many(calls)
    worker = fleet.worker(queues="bulk")
    until(lambda: worker.code == -9, "the worker is killed in the midst of its batch")
    assert sorted(entry.run for entry in site.ledger.of("start")) == sorted((job.id, 1) for job in calls)

    def is_over() -> bool:
        nonlocal worker
        if worker.code is not None:
            worker = fleet.worker(queues="bulk")
        return not rows.statuses().keys() & {"queued", "scheduled", "running"}

    until(is_over, "every job is over")
    jobs, attempts = rows.jobs(), rows.attempts()
    assert [attempts[job.id, 1]["status"] for job in calls] == ["lost"] * 6
    assert [jobs[job.id]["status"] for job in calls] == [*["succeeded"] * 3, "dead", *["succeeded"] * 2]
    assert min(jobs[job.id]["losses"] for job in calls) >= 1
    assert {jobs[job.id]["tries"] for job in calls} == {0}
