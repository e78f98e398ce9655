"""`headway errors`: what went wrong, the same errors together."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.options import limit_option
from headway.cli.program.output import Cell, Column, ago, at, emit, many, note, status, table
from headway.cli.program.page_parts import block, title, values
from headway.cli.program.params import Moment, Tenant
from headway.cli.triggers.trigger_rows import next_page

if TYPE_CHECKING:
    from headway.model.error_groups import ErrorGroup

_ENDS = ("failed", "timeout", "lost")


@click.group(cls=Group, invoke_without_command=True, short_help="See what went wrong, the same errors together.")
@click.pass_context
def errors(ctx: click.Context) -> None:
    """Look at errors by fingerprint: kind, type and place in the code, whatever numbers the message has.

    \b
    headway errors
    headway errors list --since 1h --order count
    headway errors show 3f9c1d2e4b5a6978
    headway jobs retry --error 3f9c1d2e4b5a6978
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@errors.command("list")
@click.option("--since", type=Moment(past=True), help="Only errors that were seen since this time, or within 6h.")
@click.option("--kind", multiple=True, help="Only errors of this kind; repeatable.")
@click.option("--queue", multiple=True, help="Only errors in this queue; repeatable.")
@click.option("--status", "ends", multiple=True, type=click.Choice(_ENDS), help="Only executions that ended so.")
@click.option("--tenant", type=Tenant(), help="Only errors of this tenant. Default: of all, added up.")
@click.option(
    "--order", type=click.Choice(["last_seen", "count"]), default="last_seen", show_default=True, help="What is first."
)
@limit_option
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip this many.")
@pass_invocation
def list_(
    cli: Invocation,
    /,
    since: datetime | None,
    kind: tuple[str, ...],
    queue: tuple[str, ...],
    ends: Any,
    tenant: str | None,
    order: Any,
    limit: int,
    offset: int,
) -> None:
    """List errors: how often, since when, and what to show or retry them by.

    \b
    headway errors list --kind send_mail --since 1d
    headway errors list --json | jq '.[] | {fingerprint, count, message}'
    """
    app = cli.existing
    found = app.errors(
        since=since,
        kind=kind or None,
        queue=queue or None,
        status=ends or None,
        tenant=tenant,
        order=order,
        limit=limit,
        offset=offset,
    )
    if cli.json:
        emit(found)
        return
    if not found:
        note(f"no such errors in {app.store.describe()}")
        return
    columns = [
        Column("FINGERPRINT"),
        Column("COUNT", right=True),
        Column("DEAD", right=True, spare=True),
        Column("KIND", shrink=True),
        Column("FIRST", right=True, wide=90),
        Column("LAST", right=True),
        Column("ERROR", shrink=True),
        Column("PLACE", shrink=True, spare=True, wide=120),
    ]
    table(columns, [_row(each) for each in found])
    if len(found) == limit:
        flags: dict[str, Any] = {
            "since": since,
            "kind": kind or None,
            "queue": queue or None,
            "status": ends or None,
            "tenant": tenant,
            "order": None if order == "last_seen" else order,
            "limit": limit,
        }
        next_page(cli, "errors", "list", flags, "--offset", str(offset + limit))


@errors.command("show")
@click.argument("fingerprint")
@click.option("--tenant", type=Tenant(), help="Only as this tenant had it. Default: all, added up.")
@pass_invocation
def show(cli: Invocation, /, fingerprint: str, tenant: str | None) -> None:
    """Show one error: how often, since when, and the whole text of the last one.

    \b
    headway errors show 3f9c1d2e4b5a6978
    """
    found = cli.existing.error(fingerprint, tenant=tenant)
    if cli.json:
        emit(found)
        return
    title(found.kind, status(found.status), found.fingerprint)
    values(
        (
            ("seen", f"{found.count:,} × since {at(found.first_seen_at)}, last {ago(found.last_seen_at)}"),
            ("died of it", many(found.dead, "job") if found.dead else None),
            ("tenants", f"{found.tenants:,}" if found.tenants > 1 else None),
            ("type", found.type),
            ("place", found.place),
            ("last job", f"{found.job_id}, attempt {found.fence}, queue {found.queue}"),
        )
    )
    block("error", found.sample)
    note(f"its jobs: {cli.typed('jobs', 'list', '--error', found.fingerprint)}")
    note(f"retry them: {cli.typed('jobs', 'retry', '--status', 'dead', '--error', found.fingerprint)}")


def _row(group: ErrorGroup) -> list[Cell]:
    return [
        group.fingerprint,
        f"{group.count:,}",
        (f"{group.dead:,}", "bold red") if group.dead else "",
        group.kind,
        ago(group.first_seen_at),
        ago(group.last_seen_at),
        group.message,
        group.place or "",
    ]
