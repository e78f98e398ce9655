"""`headway top`: the overview live in the terminal, for people on ssh."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import ago, clean, console, emit, first_line, span
from headway.model.fleet import Queue
from headway.model.job import Job
from headway.model.overview import MOST_COUNTED, Overview
from headway.model.status import Status

if TYPE_CHECKING:
    from rich.console import RenderableType

_EVERY_S = 1.0
_ORDERS = ("queued", "running", "name")
_STATUSES: tuple[Status, ...] = ("queued", "running", "scheduled", "waiting", "held", "dead")
_MOST_RUNNING = 9  # each has a key
_WIDE = 100  # columns, for all numbers of the last hour in one line
_KEYS = "p pause   s sort   1-9 a running job   q quit"


class Top(msgspec.Struct, frozen=True):
    """What one look at the database found."""

    overview: Overview
    counts: dict[Status, int]
    queues: list[Queue]
    running: list[Job]


@click.command(cls=Command, short_help="Watch what needs you, live.")
@click.option("--tenant", help="Only what concerns this tenant.")
@click.option("--once", is_flag=True, help="Print it once, as without a terminal.")
@pass_invocation
def top(cli: Invocation, tenant: str | None, once: bool) -> None:
    """Watch the overview in a terminal, updated each second: problems, counts, queues and what runs.

    \b
    p pauses it, s sorts the queues, 1 to 9 shows why a job runs or waits, q ends it.

    \b
    headway top
    headway top --once --tenant acme
    """
    app = cli.existing
    verbs = app if tenant is None else app.tenant(tenant)

    def look() -> Top:
        running = verbs.jobs(status="running", limit=_MOST_RUNNING)
        return Top(verbs.overview(), verbs.counts(most=MOST_COUNTED), verbs.queues(most=MOST_COUNTED), running)

    if cli.json:
        emit(look())
    elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        console().print(screen(look(), "queued"))
    else:
        _watch(look, lambda job_id: str(verbs.why(job_id)))


def _watch(look: Any, why: Any) -> None:
    from rich.live import Live
    from rich.panel import Panel
    from rich.text import Text

    order, paused, found = 0, False, look()
    with _keys() as pressed, Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            note = f"{'paused   ' if paused else ''}{_KEYS}"
            live.update(screen(found, _ORDERS[order], note, *live.console.size[::-1]), refresh=True)
            key = pressed(_EVERY_S)
            if key in ("q", "\x03", "\x04"):
                return
            if key == "p":
                paused = not paused
            elif key == "s":
                order = (order + 1) % len(_ORDERS)
            elif key.isdigit() and 0 < int(key) <= len(found.running):
                text = why(found.running[int(key) - 1].id)
                lines = (wrapped for line in text.splitlines() for wrapped in wrap(clean(line), live.console.width - 4))
                live.update(Panel(Text("\n".join(lines)), title="any key goes back"), refresh=True)
                pressed(None)
            if not paused:
                found = look()


@contextmanager
def _keys() -> Iterator[Any]:
    """Keys as they are pressed, without Enter; the terminal is put back however this ends."""
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def pressed(timeout_s: float | None) -> str:
        ready, _, _ = select.select([fd], [], [], timeout_s)
        return os.read(fd, 1).decode("ascii", "replace") if ready else ""

    tty.setcbreak(fd)
    try:
        yield pressed
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def screen(found: Top, order: str, note: str = "", height: int = 1_000, width: int = 200) -> RenderableType:
    """All of it as one picture, no higher and no wider than the terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    pulse, problems, at = found.overview.pulse, found.overview.problems, found.overview.at
    ended = f"last hour: {pulse.succeeded:,} succeeded, {pulse.failed:,} failed attempts, {pulse.dead:,} dead"
    took = f"wait p95 {_time(pulse.wait_p95_ms)}, run p95 {_time(pulse.run_p95_ms)}"
    head = [_counted(found.counts), *([ended, took] if width < _WIDE else [f"{ended}; {took}"])]
    parts: list[RenderableType] = [
        Text.assemble(("Headway ", "bold"), time.strftime("%H:%M:%S"), (f"   {note}", "dim"))
    ]
    parts += [Text(line, "" if line is head[0] else "dim") for line in head]
    # beside the rows: the head, three empty lines and the names of two tables' columns
    room = max(6, height - len(parts) - 5)
    most_running = min(_MOST_RUNNING, room // 3)  # however many there are now: nothing moves when one ends
    most_problems, most_queues = _shared(room - most_running, len(problems) or 1, len(found.queues))
    whys = [(f"{each.tenant}: " if each.tenant else "") + clean(each.why) for each in problems]
    parts.append(Text())
    if not problems:
        parts.append(Text("Nothing needs you.", "green"))
    for line in _first([f"! {why}" for why in whys], most_problems):
        parts.append(Text(line, "bold yellow", no_wrap=True, overflow="ellipsis"))
    queues = Table(box=None, pad_edge=False, header_style="dim")
    queues.add_column("queue")
    for name in ("queued", "running", "scheduled", "oldest", "workers"):
        queues.add_column(name, justify="right")
    rows = [_row(queue, at) for queue in sorted(found.queues, key=lambda each: _place(each, order))]
    for row in rows if len(rows) <= most_queues else [*rows[: most_queues - 1], _more(len(rows) - most_queues + 1)]:
        queues.add_row(*row)
    running = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "running", "started", "progress"):
        running.add_column(name, no_wrap=True)
    for number, job in enumerate(found.running[:most_running], 1):
        shown = "" if job.progress is None else f"{job.progress:.0%} {first_line(job.progress_note)}"
        running.add_row(str(number), f"{job.kind} {job.id}", ago(job.attempt_started_at, at), clean(shown))
    parts += [Text(), queues, Text(), running if found.running else Text("nothing is running", "dim")]
    return Group(*parts)


def _shared(room: int, one: int, other: int) -> tuple[int, int]:
    """How many lines each of two lists gets: what it needs, or half and what the other leaves.

    >>> _shared(10, 8, 7), _shared(10, 2, 20), _shared(10, 20, 2)
    ((5, 5), (2, 8), (8, 2))
    """
    half = room // 2
    return min(one, max(half, room - other)), min(other, max(room - half, room - one))


def _first(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], *_more(len(lines) - most + 1)]


def _more(count: int) -> tuple[str]:
    return (f"  and {count:,} more",)


def _counted(counts: dict[Status, int]) -> str:
    each = ((name, counts.get(name, 0)) for name in _STATUSES)
    return "  ".join(f"{count:,}{'+' if count >= MOST_COUNTED else ''} {name}" for name, count in each)


def _row(queue: Queue, now: datetime) -> tuple[str, ...]:
    numbers = (f"{queue.counts.get(name, 0):,}" for name in ("queued", "running", "scheduled"))
    oldest = "" if queue.oldest_queued_at is None else ago(queue.oldest_queued_at, now)
    return (f"{queue.name}{' (paused)' if queue.paused else ''}", *numbers, oldest, str(queue.workers))


def _place(queue: Queue, order: str) -> tuple[int, str]:
    return (0 if order == "name" else -queue.counts.get(order, 0)), queue.name  # type: ignore[call-overload]


def _time(ms: float | None) -> str:
    return "–" if ms is None else span(round(ms))
