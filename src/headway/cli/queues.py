"""`headway queues`: list, pause, resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headway.cli.command import Group
from headway.cli.output import Cell, Column, ago, emit, many, note, say, table
from headway.cli.state import State, actor, pass_state

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.fleet import Queue


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def queues(ctx: click.Context) -> None:
    """List queues, stop one, let it go on.

    \b
    headway queues
    headway queues pause mail
    headway queues resume mail
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@queues.command("list")
@pass_state
def list_(state: State) -> None:
    """List the queues that have unfinished jobs, a worker or a setting.

    \b
    headway queues list --json | jq '.[] | select(.paused)'
    """
    found = state.existing.queues()
    if state.json:
        emit(found)
    elif not found:
        note(f"no queues yet in {state.app.store.describe()}")
    else:
        table(_COLUMNS, [_row(queue) for queue in found])


_COUNTS = ("queued", "scheduled", "held", "running", "waiting")
_COLUMNS = (
    Column("QUEUE", shrink=True),
    Column("STATE", shrink=True),
    Column("QUEUED", right=True),
    Column("SCHEDULED", right=True),
    Column("HELD", right=True, wide=110),
    Column("RUNNING", right=True),
    Column("WAITING", right=True, wide=110),
    Column("OLDEST", right=True),
    Column("WORKERS", right=True),
)


def _row(queue: Queue) -> list[Cell]:
    by = f" by {queue.paused_by}" if queue.paused_by else ""
    paused: Cell = (f"paused {ago(queue.paused_at)}{by}", "bold yellow")
    counts: Any = queue.counts
    idle = queue.workers == 0 and counts.get("queued", 0) > 0
    return [
        queue.name,
        paused if queue.paused else "open",
        *(f"{counts.get(name, 0):,}" for name in _COUNTS),
        ago(queue.oldest_queued_at),
        (str(queue.workers), "bold red") if idle else str(queue.workers),
    ]


@queues.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@pass_state
def pause(state: State, names: tuple[str, ...]) -> None:
    """Stop claims from queues, on all machines; jobs that run go on.

    \b
    headway queues pause mail
    """
    app = state.existing
    known = {queue.name: queue for queue in app.queues()}
    for name in names:
        app.pause(name, actor=actor())
        if not state.json:
            already = name in known and known[name].paused
            say(f"{name}: paused{' already' if already else ''}{_running(known.get(name))}")
            if name not in known:
                note(f"no job and no worker uses queue {name} yet (known: {', '.join(known) or 'none'})")
    _answer(state, app, names)


@queues.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@pass_state
def resume(state: State, names: tuple[str, ...]) -> None:
    """Let paused queues go on.

    \b
    headway queues resume mail
    """
    app = state.existing
    known = {queue.name: queue for queue in app.queues()}
    for name in names:
        app.resume(name, actor=actor())
        if not state.json:
            queue = known.get(name)
            say(f"{name}: goes on" if queue and queue.paused else f"{name}: was not paused")
            if queue is None:
                note(f"no job and no worker uses queue {name} (known: {', '.join(known) or 'none'})")
    _answer(state, app, names)


def _answer(state: State, app: Headway, names: tuple[str, ...]) -> None:
    if state.json:
        found: dict[str, Any] = {queue.name: queue for queue in app.queues()}
        emit([found.get(name, {"name": name, "paused": False}) for name in names])


def _running(queue: Queue | None) -> str:
    count = queue.counts.get("running", 0) if queue else 0
    return f"; {many(count, 'running job')} may finish" if count else ""
