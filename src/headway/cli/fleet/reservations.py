"""`headway reservations`: the queues that are reserved for one holder; take one, give one back."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Column, at, emit, note, say, table
from headway.cli.program.params import Duration
from headway.errors import NotFound


@click.group(cls=Group, invoke_without_command=True, short_help="Reserve queues, and give them back.")
@click.pass_context
def reservations(ctx: click.Context) -> None:
    """List the reservations of queues, make and end them. No worker claims from a reserved queue.

    \b
    headway reservations
    headway reservations make gpu --expires 1h
    headway reservations end ID
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@reservations.command("list")
@pass_invocation
def list_(cli: Invocation) -> None:
    """List the reservations that are in force, by queue.

    \b
    headway reservations list --json | jq -r '.[].queue'
    """
    found = cli.existing.reservations()
    if cli.json:
        emit(found)
    elif not found:
        note(f"no queue is reserved in {cli.app.store.describe()}")
    else:
        columns = (Column("QUEUE"), Column("HOLDER"), Column("SINCE"), Column("EXPIRES"), Column("ID"))
        rows = [[each.queue, each.holder, at(each.since), at(each.expires_at), each.id] for each in found]
        table(columns, rows)


@reservations.command()
@click.argument("queue")
@click.option("--expires", type=Duration(), default="10m", show_default=True, help="When it ends by itself.")
@click.option("--id", "reservation_id", metavar="ID", help="Renew this reservation of the queue.")
@pass_invocation
def make(cli: Invocation, /, queue: str, expires: Any, reservation_id: str | None) -> None:
    """Reserve a queue; jobs that run there go on. It ends when it is given back, or by itself.

    \b
    headway reservations make gpu --expires 1h
    """
    made = cli.existing.reserve_queue(queue, expires=expires, reservation_id=reservation_id, actor=actor())
    if cli.json:
        emit(made)
        return
    say(f"queue {made.queue} is reserved until {at(made.expires_at)}")
    note(f"to give it back: {cli.typed('reservations', 'end', made.id)}")


@reservations.command()
@click.argument("reservation_id", metavar="ID")
@pass_invocation
def end(cli: Invocation, reservation_id: str) -> None:
    """End a reservation, no matter who made it.

    \b
    headway reservations end 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    """
    app = cli.existing
    found = [each for each in app.reservations() if each.id == reservation_id]
    if not found or not app.unreserve_queue(found[0].queue, found[0].id, actor=actor()):
        raise NotFound(f"there is no reservation {reservation_id} (any more): {cli.typed('reservations', 'list')}")
    if cli.json:
        emit(found[0])
    else:
        say(f"queue {found[0].queue} is not reserved any more")
