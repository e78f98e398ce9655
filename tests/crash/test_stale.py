"""A worker that was stopped past its lease and goes on: nothing it says of its old claims is written."""

from __future__ import annotations

import contextlib
import signal
from datetime import UTC, datetime

from headway.errors import NotFound
from tests.crash.crash_jobs import gated, gated_once, gated_plain, work
from tests.crash.crash_site import CrashSite
from tests.crash.flow_jobs import pass_gate
from tests.crash.processes import Process, state_of, until


def test_a_stale_worker_writes_nothing(site: CrashSite) -> None:
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    stale = fleet.worker(queues="main,own").started()
    # the second run of some is over when the stale worker wakes, that of others goes on
    over = [gated.build(["stale", ""]), gated.build(["stale", ""]), gated_plain.build(["stale", ""])]
    goes_on = [gated.build(["stale", "later"]), gated.build(["stale", "later"]), gated_plain.build(["stale", "later"])]
    failed = gated_once.build("stale")
    ids = [each.id for each in app.enqueue_many([*over, *goes_on, failed])]
    until(lambda: len(ledger.of("start")) == 7, "the stale worker runs all")

    _suspend(stale, site)
    heir = fleet.worker().started()
    until(lambda: rows.statuses_of(over) == {"succeeded"}, "the heir ends some")
    until(lambda: rows.statuses_of(goes_on) == {"running"}, "the heir runs others")
    (retry,) = until(lambda: rows.jobs(retry_of=failed.id, status="succeeded"), "the heir retries the failed one")
    before = rows.of([*ids, retry])
    assert {row["worker_id"] for row in rows.jobs(status="running").values()} == set(heir.worker_ids)

    fleet.open_gate("stale")
    stale.signal(signal.SIGCONT)
    again = stale.says("starting over under a new id")
    hello = app.enqueue(work.using(queue="own").build()).id
    assert app.result(hello, timeout=180).status == "succeeded"
    assert rows.of([*ids, retry]) == before
    assert rows.attempts()[hello, 1]["worker_id"] == again["worker_id"] != again["before"]

    fleet.open_gate("later")
    until(lambda: rows.statuses_of(goes_on) == {"succeeded"}, "the heir ends the others")
    attempts = rows.attempts()
    for job in (*over, *goes_on):
        assert [attempts[job.id, fence]["status"] for fence in (1, 2)] == ["lost", "succeeded"]
        assert attempts[job.id, 2]["worker_id"] == heir.worker_ids[0]
        assert (job.id, 3) not in attempts
    assert rows.jobs()[failed.id]["status"] == "failed"
    # the stale worker's handlers did end, and it did try to say so
    assert {entry.subject for entry in ledger.of("end") if entry.pid == stale.pid} >= {*ids, hello}
    assert stale.code is None


def test_a_newcomer_waits_a_lease_before_it_takes_from_the_living(site: CrashSite) -> None:
    """After an outage of the database or the network, live workers get the chance to send a heartbeat first."""
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    worker = fleet.worker().started()
    job = app.enqueue(gated.build(["end"])).id
    until(lambda: ledger.of("start"), "it runs")
    _suspend(worker, site)
    (suspended,) = app.workers()
    until(lambda: suspended.lease_expires_at < datetime.now(UTC), "its lease is over")
    newcomer = fleet.worker(queues="own", lease="60s").started()  # its own lease is the one that it waits
    hello = app.enqueue(work.using(queue="own").build()).id
    assert app.result(hello, timeout=180).status == "succeeded"
    worker.signal(signal.SIGCONT)
    until(lambda: min(each.lease_expires_at for each in app.workers()) > datetime.now(UTC), "it beats again")
    assert {each.id for each in app.workers()} == {suspended.id, newcomer.worker_ids[0]}
    fleet.open_gate("end")
    assert app.result(job, timeout=180).status == "succeeded"
    assert (rows.jobs()[job]["fence"], rows.jobs()[job]["losses"]) == (1, 0)


def test_a_worker_that_is_declared_dead_loses_its_jobs_long_before_its_lease(site: CrashSite) -> None:
    app, fleet, ledger, rows = site.app, site.fleet, site.ledger, site.rows
    slow = {"lease": "10m", "heartbeat": "500ms"}
    frozen, killed = (fleet.worker(queues=queue, **slow).started() for queue in ("main", "own"))
    stuck = app.enqueue(gated.build(["stuck", ""])).id
    lost = app.enqueue(gated.using(queue="own").build(["never", ""])).id
    until(lambda: len(ledger.of("start")) == 2, "both run")
    _suspend(frozen, site)
    killed.kill()
    heir = fleet.worker(queues="main,own", **slow).started()
    # the newcomer finds the killed one gone by itself, if it is the first to look
    app.declare_dead(frozen.worker_ids[0], actor="ann")
    with contextlib.suppress(NotFound):
        app.declare_dead(killed.worker_ids[0])
    for job_id in (stuck, lost):
        assert app.result(job_id, timeout=60).status == "succeeded"
        attempts = rows.attempts()
        assert [attempts[job_id, fence]["status"] for fence in (1, 2)] == ["lost", "succeeded"]
        assert attempts[job_id, 2]["worker_id"] == heir.worker_ids[0]
        assert rows.jobs()[job_id]["losses"] == 1
    before = rows.of([stuck, lost])

    fleet.open_gate("stuck")
    frozen.signal(signal.SIGCONT)
    again = frozen.says("starting over under a new id")
    assert again["before"] == frozen.worker_ids[0]
    until(
        lambda: {entry.pid for entry in ledger.of("end") if entry.subject == stuck} == {frozen.pid, heir.pid}, "it ends"
    )
    heir.kill()
    hello = app.enqueue(work.build()).id
    assert app.result(hello, timeout=60).status == "succeeded"  # it works on
    assert rows.of([stuck, lost]) == before


def test_a_stale_worker_records_nothing_of_its_flows(site: CrashSite) -> None:
    """Its step ends after another worker has the flow: no row, no child, no signal taken."""
    app, fleet, ledger = site.app, site.fleet, site.ledger
    stale = fleet.worker(app="flow_jobs").started()
    jobs = [app.enqueue(pass_gate.build(gates=["stale", "heir"])).id for _ in range(3)]
    until(lambda: len(ledger.of("start")) == 3, "the stale worker is at the gate with all")
    _suspend(stale, site)
    heir = fleet.worker(app="flow_jobs").started()
    until(lambda: len(ledger.of("start")) == 6, "the heir is there, too")
    fleet.open_gate("stale")
    before = [app.journal(job_id) for job_id in jobs]
    stale.signal(signal.SIGCONT)
    stale.says("starting over under a new id")
    until(lambda: {entry.pid for entry in ledger.of("end")} == {stale.pid}, "its steps end")
    stale.signal(signal.SIGTERM)
    stale.ended()
    assert [app.journal(job_id) for job_id in jobs] == before
    assert app.jobs(kind="count") == []

    for job_id in jobs:
        app.signal(job_id, "go", 7)
    fleet.open_gate("heir")
    for job_id in jobs:
        assert app.result(job_id, timeout=180).value == [2, 3, 7]
        assert [row.fence for row in app.journal(job_id) if row.place == "through"] == [2]
    assert len(app.jobs(kind="count")) == 6
    assert heir.code is None


def _suspend(process: Process, site: CrashSite) -> None:
    """SIGSTOP between two writes: a stopped process that holds the lock of a SQLite file keeps everybody out."""

    def is_suspended() -> bool:
        process.signal(signal.SIGSTOP)
        until(lambda: state_of(process.pid) == "T", "it stops")
        if site.rows.can_be_written():
            return True
        process.signal(signal.SIGCONT)
        return False

    until(is_suspended, "it stops between two writes")
