"""`headway queues`: list, pause, resume, set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from headway.cli.order.limits import at_once
from headway.cli.program.click_classes import Group
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Cell, Column, ago, emit, many, note, say, span, table
from headway.cli.program.params import Count

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.fleet import Queue
    from headway.model.retention import Retention


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def queues(ctx: click.Context) -> None:
    """List queues, pause and resume them, limit them.

    \b
    headway queues
    headway queues pause mail
    headway queues resume mail
    headway queues set mail --max-running 20 --no-fair
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@queues.command("list")
@pass_invocation
def list_(cli: Invocation) -> None:
    """List the queues that have unfinished jobs, a worker or a setting.

    \b
    headway queues list --json | jq '.[] | select(.paused)'
    """
    found = cli.existing.queues()
    if cli.json:
        emit(found)
    elif not found:
        note(f"no queues yet in {cli.app.store.describe()}")
    else:
        table(_columns(found), [_row(queue) for queue in found])


_COUNTS = ("queued", "scheduled", "held")


def _columns(found: Sequence[Queue]) -> list[Column]:
    # it takes space from the names, so on a narrow terminal only if a queue has one
    limited = Column("LIMITED", right=True, wide=0 if any(queue.limited for queue in found) else 110)
    return [
        Column("QUEUE", shrink=True),
        Column("STATE", shrink=True),
        Column("QUEUED", right=True),
        limited,
        Column("SCHEDULED", right=True),
        Column("HELD", right=True, wide=0 if any(queue.counts.get("held") for queue in found) else 110),
        Column("RUNNING", right=True),
        Column("WAITING", right=True, wide=110),
        Column("OLDEST", right=True),
        Column("WORKERS", right=True),
    ]


def _row(queue: Queue) -> list[Cell]:
    counts: Any = queue.counts
    queued, scheduled, held = (f"{counts.get(name, 0):,}" for name in _COUNTS)
    running = counts.get("running", 0)
    idle = queue.workers == 0 and counts.get("queued", 0) > 0
    return [
        queue.name,
        _state(queue),
        queued,
        f"{queue.limited:,}",
        scheduled,
        held,
        f"{running:,}" if queue.max_running is None else (f"{running:,}/{queue.max_running:,}", _full(queue)),
        f"{counts.get('waiting', 0):,}",
        ago(queue.oldest_queued_at),
        (str(queue.workers), "bold red") if idle else str(queue.workers),
    ]


def _state(queue: Queue) -> Cell:
    fair = "" if queue.fair else ", not fair"
    if queue.paused:
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        return f"paused {ago(queue.paused_at)}{by}{fair}", "bold yellow"
    if queue.reserved_by is not None:
        left = ago(queue.reserved_until).removeprefix("in ")
        return f"reserved by {queue.reserved_by} for {left}{fair}", "yellow"
    return f"open{fair}"


def _full(queue: Queue) -> str:
    return "yellow" if queue.max_running is not None and queue.counts.get("running", 0) >= queue.max_running else ""


_all_option = click.option("--all", "all_", is_flag=True, help="All queues that exist now; new ones are not paused.")


@queues.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_all_option
@pass_invocation
def pause(cli: Invocation, names: tuple[str, ...], all_: bool) -> None:
    """Stop claims from queues, on all hosts; running jobs go on.

    \b
    headway queues pause mail
    headway queues pause --all
    """
    app = cli.existing
    known = {queue.name: queue for queue in app.queues()}
    names = _chosen(names, all_, known)
    for name in names:
        app.pause(name, actor=actor())
        if not cli.json:
            already = name in known and known[name].paused
            say(f"{name}: paused{' already' if already else ''}{_running(known.get(name))}")
            if name not in known:
                note(f"no job and no worker uses queue {name} yet (known: {', '.join(known) or 'none'})")
    _answer(cli, app, names)


@queues.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_all_option
@pass_invocation
def resume(cli: Invocation, names: tuple[str, ...], all_: bool) -> None:
    """Resume paused queues.

    \b
    headway queues resume mail
    headway queues resume --all
    """
    app = cli.existing
    known = {queue.name: queue for queue in app.queues()}
    names = _chosen(names, all_, (name for name, queue in known.items() if queue.paused))
    for name in names:
        app.resume(name, actor=actor())
        if not cli.json:
            queue = known.get(name)
            say(f"{name}: resumed" if queue and queue.paused else f"{name}: was not paused")
            if queue is None:
                note(f"no job and no worker uses queue {name} (known: {', '.join(known) or 'none'})")
    _answer(cli, app, names)


def _chosen(names: tuple[str, ...], all_: bool, every: Iterable[str]) -> tuple[str, ...]:
    if bool(names) == all_:
        raise click.UsageError("which queues? Give their names, or --all")
    return tuple(every) if all_ else names


@queues.command("set")
@click.argument("name")
@click.option("--max-running", type=Count(), metavar="N|none", help="How many jobs may run at once, on all hosts.")
@click.option(
    "--fair/--no-fair", default=None, help="Serve tenants in turn (the default), or first come, first served."
)
@click.option(
    "--retention",
    metavar="AGE|none",
    help="How long finished jobs are kept: 30d, forever, or succeeded=1d,dead=forever. none: the default.",
)
@pass_invocation
def set_(cli: Invocation, /, name: str, max_running: Any, fair: bool | None, retention: str | None) -> None:
    """Limit a queue, end its tenants' turns, or keep its finished jobs longer or shorter, for all workers.

    \b
    headway queues set mail --max-running 20
    headway queues set mail --max-running none --no-fair
    headway queues set mail --retention succeeded=1d,dead=forever
    """
    if max_running is None and fair is None and retention is None:
        raise click.UsageError(
            "what to set? Give --max-running N (or none), --fair or --no-fair, --retention AGE (or none)"
        )
    app = cli.existing
    if retention is not None:
        app.set_retention(name, _ages(retention), actor=actor())
    if max_running is not None:
        app.limit(queue=name, max_running=None if max_running == "none" else max_running, actor=actor())
    if fair is not None:
        app.fair(name, fair, actor=actor())
    queue = next((queue for queue in app.queues() if queue.name == name), None)
    if cli.json:
        emit(queue or {"name": name, "max_running": None, "fair": True, "retention": None})
        return
    most = queue.max_running if queue else None
    limit = at_once(most) if most is not None else "any number of jobs at once"
    turns = "tenants as they come" if queue and not queue.fair else "tenants in turn"
    say(f"{name}: {limit}, {turns}{_kept(queue)}")


def _ages(text: str) -> Retention | None:
    """`30d`, `succeeded=1d,dead=forever`, or `none`."""
    if text == "none":
        return None
    if "=" not in text:
        return text
    return {status.strip(): age.strip() for status, _, age in (part.partition("=") for part in text.split(","))}


def _kept(queue: Queue | None) -> str:
    from headway.model.retention import FOREVER, FOREVER_MS

    ages = (queue.retention if queue else None) or {}
    words = [f"{status} {FOREVER if ms >= FOREVER_MS else 'for ' + span(ms)}" for status, ms in ages.items()]
    return f", keeps {', '.join(words)}" if words else ""


def _answer(cli: Invocation, app: Headway, names: tuple[str, ...]) -> None:
    if cli.json:
        found: dict[str, Any] = {queue.name: queue for queue in app.queues()}
        emit([found.get(name, {"name": name, "paused": False}) for name in names])


def _running(queue: Queue | None) -> str:
    count = queue.counts.get("running", 0) if queue else 0
    return f"; {many(count, 'running job')} may finish" if count else ""
