"""`headway workers`: the registered workers, and which of them no longer answer."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from headway.cli.fleet.worker import parse_order, parse_queues
from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import yes_option
from headway.cli.program.output import Cell, Column, ago, emit, many, merged, note, say, table

if TYPE_CHECKING:
    from headway.model.fleet import Worker


@click.group(cls=Group, invoke_without_command=True, short_help="List the workers, stale ones marked.")
@click.pass_context
def workers(ctx: click.Context) -> None:
    """List the registered workers; a stale one has not renewed its lease in time.

    \b
    headway workers
    headway workers --json | jq '.[] | select(.stale)'
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@workers.command("list")
@pass_invocation
def list_(cli: Invocation) -> None:
    """List the registered workers.

    \b
    headway workers list
    """
    app = cli.existing
    found = app.workers()
    now = app.store.run(app.store.ops.now())
    if cli.json:
        emit([merged(worker, stale=is_stale(worker, now)) for worker in found])
    elif not found:
        note(f"no workers on {app.store.describe()}: start one with headway worker module:app")
    else:
        table(_COLUMNS, [_row(worker, now) for worker in found])
        stale = sum(is_stale(worker, now) for worker in found)
        if stale:
            note(f"{stale} stale: a live worker takes over their jobs and removes them in its next rounds")


@workers.command("set")
@click.argument("worker_id", metavar="ID")
@click.option("--queues", metavar="NAMES", help="mail,report-* or mail=5,report-*=20, as headway worker takes them.")
@click.option("--concurrency", type=click.IntRange(1), help="How many jobs to run at a time.")
@click.option("--order", metavar="ORDER", help="Which queue first: turns, strict, or mail=3,report-*=1.")
@pass_invocation
def set_(cli: Invocation, worker_id: str, queues: str | None, concurrency: int | None, order: str | None) -> None:
    """Change what a live worker serves, from its next heartbeat until it ends; what is not given stays.

    Jobs of queues that it serves no longer run on to their end. A worker that is started again has what it is
    started with.

    \b
    headway workers set ID --queues mail,report-* --concurrency 40
    """
    app = cli.existing
    app.set_worker(
        worker_id,
        queues=parse_queues(queues),
        concurrency=concurrency,
        order=None if order is None else parse_order(order),
        actor=actor(),
    )
    if cli.json:
        emit(next((worker for worker in app.workers() if worker.id == worker_id), None))
    else:
        say(f"{worker_id}: changed, from its next heartbeat on")


@workers.command()
@click.argument("worker_id", metavar="ID")
@yes_option
@pass_invocation
def dead(cli: Invocation, worker_id: str, yes: bool) -> None:
    """Declare a worker dead: its jobs are lost now and run again elsewhere, instead of when its lease is over.

    Each is charged a loss. If the worker lives after all, nothing that it writes about these jobs counts, but its code
    may still run: they may do things twice. It starts over under a new id.

    \b
    headway workers dead ID --yes
    """
    app = cli.existing
    worker = next((worker for worker in app.workers() if worker.id == worker_id), None)
    if worker is not None and not yes:
        last = ago(worker.heartbeat_at, app.store.run(app.store.ops.now()))
        confirm(f"take {many(worker.running)} from worker {worker.hostname}:{worker.pid}, last heartbeat {last}")
    reaped = app.declare_dead(worker_id, actor=actor())
    if cli.json:
        emit(reaped)
        return
    say(f"{worker_id}: declared dead, {many(sum(not each.committed for each in reaped))} lost")
    for each in reaped:
        became = "not lost: settled by the outcome that it committed" if each.committed else each.to or each.fault
        say(f"{each.job_id}  {each.kind}  {became}")


_COLUMNS = (
    Column("WORKER"),
    Column("STATE"),
    Column("HOST", shrink=True),
    Column("PID", right=True, wide=90),
    Column("QUEUES", shrink=True),
    Column("BUSY", right=True),
    Column("HEARTBEAT", right=True),
    Column("STARTED", right=True, wide=120),
    Column("KINDS", shrink=True, wide=140),
)


def _row(worker: Worker, now: datetime) -> list[Cell]:
    return [
        worker.id,
        ("stale", "bold red") if is_stale(worker, now) else ("live", "green"),
        worker.hostname,
        str(worker.pid),
        ",".join(f"{queue}={slots}" for queue, slots in worker.queues.items()),
        f"{worker.running}/{worker.concurrency}",
        ago(worker.heartbeat_at, now),
        ago(worker.started_at, now),
        ",".join(worker.kinds),
    ]


def is_stale(worker: Worker, now: datetime) -> bool:
    """Whether its lease is over."""
    return worker.lease_expires_at <= now
