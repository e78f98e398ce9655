"""One train on a page: why it is on hold, what to do about it, and its jobs in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headway.cli.jobs.job_summary import remark
from headway.cli.program.invocation import Invocation
from headway.cli.program.output import Cell, Column, ago, at, clean, console, first_line, many, note, status, table

if TYPE_CHECKING:
    from headway.model.job import Job
    from headway.model.train import Hold, Train

Words = Callable[[str, "Train"], list[str]]


def show_train(cli: Invocation, train: Train, cars: Sequence[Job], words: Words) -> None:
    """`words` returns the words of a command about the train."""
    from rich.text import Text

    out = console()
    of = f" of tenant {train.tenant}" if train.tenant != "default" else ""
    now: tuple[str, str] = ("on hold", "bold yellow") if train.hold else ("open", "green")
    head = Text.assemble((clean(train.train), "bold"), clean(of), "  ", now)
    out.print(head.append(f"  {many(train.length)}"))
    if train.hold is not None:
        _hold(cli, train, train.hold, words)
    elif train.head_pending and train.head_id is not None:
        _line("waits", f"its head waits for other jobs: {cli.typed('jobs', 'why', train.head_id)}")
    if not cars:
        return
    out.print()
    table(_COLUMNS, [_row(place, job) for place, job in enumerate(cars, 1)])
    if train.length > len(cars):
        note(f"{train.length - len(cars):,} more: add --limit {min(train.length, 10_000)}")


_COLUMNS = (
    Column("PLACE", right=True),
    Column("ID"),
    Column("STATUS"),
    Column("KIND", shrink=True),
    Column("QUEUE", shrink=True, wide=90),
    Column("AGE", right=True),
    Column("NOTE", shrink=True, wide=100),
)


def _row(place: int, job: Job) -> list[Cell]:
    in_train_only = job.status == "held" and not job.pending
    return [
        f"{place:,}",
        job.id,
        status(job.status),
        job.kind,
        job.queue,
        ago(job.created_at).removesuffix(" ago"),
        "" if in_train_only else remark(job),
    ]


def _hold(cli: Invocation, train: Train, hold: Hold, words: Words) -> None:
    by = f" by {hold.actor}" if hold.actor else ""
    _line("since", f"{at(hold.since)}{by}")
    car = _car(cli, hold.job_id)
    if car is not None:
        reason = first_line(car.error)
        _line("because", f"job {car.id} ({car.kind}) is {car.status}" + (f": {reason}" if reason else ""))
    elif hold.reason:
        _line("because", hold.reason)
    if car is not None and car.status in ("dead", "canceled", "failed"):
        _line("to run it again", cli.typed("jobs", "retry", car.id))
        _line("to go on without it", cli.typed(*words("resume", train)))
    else:
        _line("to go on", cli.typed(*words("resume", train)))
    if train.length:
        _line("to cancel the rest", cli.typed(*words("clear", train)))


def _car(cli: Invocation, job_id: str | None) -> Job | None:
    """The job that put the train on hold, unless it was pruned."""
    from headway.errors import NotFound

    if job_id is None:
        return None
    try:
        return cli.app.get(job_id)
    except NotFound:
        return None


def _line(name: str, value: str) -> None:
    from rich.text import Text

    console().print(Text.assemble((f"  {name:<21}", "dim"), clean(value)))
