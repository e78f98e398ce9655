"""Why a queue gives nothing now: it is paused, reserved, full, or nobody works on it."""

from __future__ import annotations

from headway.app.why.words import at
from headway.model.fleet import Queue
from headway.model.job import Job


def queue_obstacles(job: Job, queue: Queue | None) -> list[str]:
    """Why its queue gives nothing now."""
    if queue is None:
        return []
    reasons = full(queue)
    if queue.reserved_by is not None:
        reasons.insert(
            0,
            f"queue {job.queue} is reserved by {queue.reserved_by} until {at(queue.reserved_until)}, unless it is "
            "renewed: it goes on when that is given back, or has expired after the end of its process",
        )
    return reasons


def full(queue: Queue) -> list[str]:
    running = queue.counts.get("running", 0)
    if queue.max_running is None or running < queue.max_running:
        return []
    return [
        f"queue {queue.name} is at its limit, {running:,} of {queue.max_running:,} jobs run now: "
        f"headway queues set {queue.name} --max-running N"
    ]
