"""`headway audit`: who did what, to jobs, queues, trains and settings."""

from __future__ import annotations

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import Column, ago, emit, note, table

_MOST = 10_000


@click.command(cls=Command, short_help="See who did what.")
@click.option("--actor", help="Only what this person or program did.")
@click.option("--action", help="Only this: pause, cancel, reserve, trigger.created, …")
@click.option("--tenant", help="Only what was done to this tenant.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many at most.")
@click.option("--before", type=int, metavar="NUMBER", help="Continue after the page that ended with this entry.")
@pass_invocation
def audit(
    cli: Invocation, actor: str | None, action: str | None, tenant: str | None, limit: int, before: int | None
) -> None:
    """List what people and programs did, newest first. `headway jobs show ID` has what was done to one job.

    \b
    headway audit --actor ada@web1
    headway audit --action pause --json | jq -r '.[].detail'
    """
    app = cli.existing
    found = app.audit_log(actor=actor, action=action, tenant=tenant, limit=limit, before=before)
    if cli.json:
        emit(found)
        return
    if not found:
        note(f"no such entries in {app.store.describe()}")
        return
    columns = (
        Column("NUMBER", right=True),
        Column("WHEN", right=True),
        Column("ACTOR", shrink=True),
        Column("ACTION", shrink=True),
        Column("JOB", wide=120),
        Column("DETAIL", shrink=True),
    )
    table(
        columns,
        [
            [str(each.id), ago(each.at), each.actor or "–", each.action, each.job_id or "", each.detail or ""]
            for each in found
        ],
    )
    if len(found) == limit:
        flags = {"--actor": actor, "--action": action, "--tenant": tenant}
        given = [part for flag, value in flags.items() if value is not None for part in (flag, value)]
        note(f"next page: {cli.typed('audit', *given, '--limit', str(limit), '--before', str(found[-1].id))}")
