"""Refuses a batch of jobs that wait for each other in a circle: none of them could ever run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.errors import InvalidJob
from headway.model.job import NewJob

_SHOWN = 10


def check_acyclic(jobs: Sequence[NewJob]) -> None:
    """Raises `InvalidJob` naming the ids of a circle; only jobs of this batch can make one, as ids are new."""
    waits = {job.id: job.after for job in jobs if job.after}
    circle = _circle(waits)
    if circle:
        shown = " → ".join(circle[:_SHOWN]) + (" → …" if len(circle) > _SHOWN else "")
        raise InvalidJob(
            f"after goes round in a circle, so none of these could ever run: {shown} (each waits for the next): "
            "nothing was enqueued; leave one of them out"
        )


def _circle(waits: Mapping[str, Sequence[str]]) -> list[str] | None:
    """A circle, its first id at both ends. Without recursion: a chain may have 100,000 jobs."""
    over: set[str] = set()
    for start in waits:
        if start in over:
            continue
        path = [start]  # from the start down to where we look
        on_path = {start}
        left = [iter(waits[start])]
        while path:
            below = next(left[-1], None)
            if below is None:
                left.pop()
                over.add(path[-1])
                on_path.remove(path.pop())
            elif below in on_path:
                return [*path[path.index(below) :], below]
            elif below in waits and below not in over:
                path.append(below)
                on_path.add(below)
                left.append(iter(waits[below]))
    return None
