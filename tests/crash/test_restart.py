"""A worker that starts where another was killed takes over its jobs at once, whatever the lease."""

from __future__ import annotations

from tests.crash.crash_jobs import gated, gated_once, gated_plain
from tests.crash.crash_site import CrashSite
from tests.crash.processes import until


def test_a_newcomer_reaps_the_killed_worker_of_its_machine_at_once(site: CrashSite) -> None:
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    slow = {"lease": "10m", "heartbeat": "3m", "reap_every": "3m"}
    victim = fleet.worker(**slow).started()
    bystander = fleet.worker(queues="other", **slow).started()
    jobs = [gated.build(["never", ""]), gated_plain.build(["never", ""])]
    once = gated_once.build("never")
    lives = gated.using(queue="other").build(["end"])
    app.enqueue_many([*jobs, once, lives])
    until(lambda: len(ledger.of("start")) == 4, "all run")
    victim.kill()
    newcomer = fleet.worker(**slow).started()
    until(lambda: {app.get(job.id).status for job in jobs} == {"succeeded"}, "the newcomer runs them")
    until(lambda: rows.jobs(retry_of=once.id, status="succeeded"), "the newcomer retries the failed one")
    attempts = rows.attempts()
    for job in jobs:
        assert [attempts[job.id, fence]["status"] for fence in (1, 2)] == ["lost", "succeeded"]
        assert attempts[job.id, 2]["worker_id"] == newcomer.worker_ids[0]
    assert ledger.subjects("start").count(once.id) == 1
    # the neighbour that lives was left alone
    assert {worker.id for worker in app.workers()} == {bystander.worker_ids[0], newcomer.worker_ids[0]}
    fleet.open_gate("end")
    assert app.result(lives.id, timeout=180).status == "succeeded"
    assert app.get(lives.id).fence == 1
