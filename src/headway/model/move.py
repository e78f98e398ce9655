"""Which jobs may be moved in their line, and beside which others; and which may be taken out of their train."""

from __future__ import annotations

from typing import Protocol

from headway.model import refusals
from headway.model.status import FINISHED, Status


class InLine(Protocol):
    """A job in a line: a car among the held cars of its train, any other among the queued jobs of its queue."""

    @property
    def id(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def train(self) -> str | None: ...

    @property
    def status(self) -> Status: ...


def check_ways(*ways: object) -> None:
    """Raises `InvalidJob` unless exactly one of before, after, first and last is given."""
    if sum(map(bool, ways)) != 1:
        raise refusals.not_one_place()


def check_movable(job: InLine) -> None:
    """Raises `NotAllowed` for a job that does not stand in a line."""
    if job.status == ("queued" if job.train is None else "held"):
        return
    if job.status == "running":
        why = "it is running"
    elif job.status in FINISHED:
        why = f"it is {job.status}"
    elif job.train is not None:
        why = f"it is the locomotive of train {job.train}, which goes first"
    elif job.status == "held":
        why = "it waits for other jobs, not in a line"
    elif job.status == "waiting":
        why = "it waits for its signals or children, not in a line"
    else:
        why = f"it is {job.status} and gets its place when it is due: change its time instead"
    raise refusals.not_movable(job.id, why)


def check_neighbour(job: InLine, near: InLine) -> None:
    """Raises `NotAllowed` for a neighbour that does not stand in the job's line."""
    if near.id == job.id:
        raise refusals.moved_to_itself(job.id)
    if job.train is not None and near.train != job.train:
        raise refusals.in_another_line(near.id, "train", job.id)
    if job.train is None and near.queue != job.queue:
        raise refusals.in_another_line(near.id, "queue", job.id)
    if near.status != job.status:
        is_locomotive = job.train is not None and near.status not in FINISHED
        what = f"the locomotive ({near.status})" if is_locomotive else near.status
        raise refusals.has_no_place(near.id, what)


def check_skippable(job_id: str, train: str | None, status: Status) -> None:
    """Raises `NotAllowed` for a job that is no car, or runs."""
    if train is None:
        raise refusals.not_a_car(job_id)
    if status == "running":
        raise refusals.car_is_running(job_id)
