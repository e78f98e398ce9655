"""What machines wait for × what takes them off and puts them back, run by a real worker: ours, or a client's over HTTP.
tests/store/machines/test_waits.py has the whole table; here no worker may run a step before it is woken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

from headway import Headway
from headway.model.job import Job
from tests.crash.processes import until

QUEUE, KIDS = "parked", "kids"
WAITS = ("signal", "sleep", "children")


@dataclass
class Parked:
    """A machine that waits, and the row as it was before it was taken off."""

    wait: str
    id: str
    before: Job | None = None
    behind: str | None = None  # the car behind it


def once(app: Headway, each: Parked) -> None:
    app.cancel(each.id)
    app.retry(each.id)


def twice(app: Headway, each: Parked) -> None:
    once(app, each)
    assert app.get(each.id).status != "queued"
    once(app, each)


def paused(app: Headway, each: Parked) -> None:
    app.pause(QUEUE)
    once(app, each)
    app.resume(QUEUE)


def as_a_car(app: Headway, each: Parked) -> None:
    """The car behind it leads the train meanwhile, and waits, too."""
    app.cancel(each.id)
    until(lambda: app.get(each.behind).status == "waiting", "the car behind waits", within=60)
    app.retry(each.id)
    assert app.get(each.id).status == "held"
    app.signal(each.behind, "go", "behind")


WAYS: tuple[Callable[[Headway, Parked], None], ...] = (once, twice, paused, as_a_car)


def what_is_taken_off_and_put_back_waits_again(app: Headway, begins: Callable[..., list[Any]], go: str) -> None:
    """Needs workers for both queues; `go` is a file: while it is not there, children run."""
    table = [(way, _parked(app, wait, go, car=way is as_a_car)) for wait, way in product(WAITS, WAYS)]
    for _, each in table:
        until(lambda each=each: _waits(app, each), f"{each} waits", within=60)
        each.before = app.get(each.id)
    for way, each in table:
        way(app, each)
    for _, each in table:
        until(lambda each=each: _when(app.get(each.id)) == _when(each.before), f"{each} waits again", within=60)
        assert begins(each.id) == [[each.id, 1]], each
    for _, each in table:
        if each.wait == "signal":
            app.signal(each.id, "go", "now")
        elif each.wait == "sleep":
            app.change(each.id, delay=0)
    with open(go, "w", encoding="utf-8"):
        pass
    for _, each in table:
        until(lambda each=each: app.get(each.id).status == "succeeded", f"{each} succeeded", within=60)
        assert app.result(each.id).value == {"signal": ["now", 0], "sleep": [None, 0], "children": [None, 1]}[each.wait]
        assert begins(each.id) == [[each.id, 1], [each.id, 2]], each


def _parked(app: Headway, wait: str, go: str, *, car: bool) -> Parked:
    def enqueue(wait: str, **options: Any) -> str:
        return app.enqueue("perform_waits", {"wait": wait, "go": go}, queue=QUEUE, **options).id

    train = {"train": f"parked-{wait}"} if car else {}
    each = Parked(wait, enqueue(wait, **train))
    if car:
        each.behind = enqueue("signal", **train)
    return each


def _waits(app: Headway, each: Parked) -> bool:
    """Its child, which does not end when it is canceled, has begun."""
    job = app.get(each.id)
    children = app.children(each.id) if job.status == "waiting" and each.wait == "children" else []
    return job.status in ("waiting", "scheduled") and all(child.status == "running" for child in children)


def _when(job: Job | None) -> tuple[str, datetime | None, datetime | None, int, str | None]:
    assert job is not None
    return job.status, job.deadline_at, job.scheduled_for if job.status == "scheduled" else None, job.fence, job.step
