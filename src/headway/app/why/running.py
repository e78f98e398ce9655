"""What a running job is doing, and whether its worker is still alive."""

from __future__ import annotations

from datetime import datetime

from headway.app.why.words import elapsed, left_until
from headway.model.duration import show_ms
from headway.model.fleet import Worker
from headway.model.job import Job, Settlement
from headway.model.journal import FLOW


def running(job: Job, worker: Worker | None, committed: Settlement | None, now: datetime) -> list[str]:
    """The outcome that its handler has committed, or its worker's silence, if any; then for how long it has been
    running."""
    assert job.attempt_started_at is not None
    asked = ["it was asked to cancel; its handler has not ended yet"] if job.cancel_requested_at else []
    progress = f", {job.progress:.0%} done" if job.progress is not None else ""
    note = f" ({job.progress_note})" if job.progress_note else ""
    what = "it" if job.step in (None, FLOW) else f"step {job.step}"
    since = elapsed(job.attempt_started_at, now)
    return [
        *_committed(committed),
        *_silence(job, worker, now),
        *asked,
        f"{what} has been running for {since} on worker {job.worker_id}{progress}{note}",
    ]


def _committed(settlement: Settlement | None) -> list[str]:
    if settlement is None:
        return []
    outcome = settlement.status if settlement.turn is None else settlement.turn.outcome
    return [
        f"its handler has committed its outcome ({outcome}) with its own rows; what follows from it is done once the "
        "handler returns, or its worker is gone"
    ]


def _silence(job: Job, worker: Worker | None, now: datetime) -> list[str]:
    if worker is None:
        return [
            f"its worker {job.worker_id} is no longer registered: a live worker's sweep takes the job over; "
            "if none is running, start one"
        ]
    host = f"its worker on {worker.hostname} (pid {worker.pid})"
    silent = elapsed(worker.heartbeat_at, now)
    left = left_until(worker.lease_expires_at, now)
    if left <= 0:
        return [
            f"{host} has been silent for {silent} and its lease is over: a live worker takes the job over in its next "
            "round; if none is running, start one"
        ]
    lease_ms = (worker.lease_expires_at - worker.heartbeat_at).total_seconds() * 1_000
    if left < lease_ms / 2:
        return [f"{host} has been silent for {silent}: if it stays so, its lease ends in {show_ms(left)}"]
    return []
