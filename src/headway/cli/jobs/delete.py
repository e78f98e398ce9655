"""`headway jobs delete`: by id, or every finished job that matches a filter."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.jobs.several_jobs import Done, by_filter, by_id, each_by_id, is_wanted
from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import emit, many, note, say
from headway.cli.program.params import JobId, bulk_options, filter_options


@click.command(cls=Command)
@click.argument("ids", type=JobId(), metavar="[ID]...", nargs=-1)
@filter_options
@click.option("--reason", help="Why, for the audit trail.")
@bulk_options
@pass_invocation
def delete(
    cli: Invocation,
    /,
    ids: tuple[str, ...],
    reason: str | None,
    limit: int | None,
    dry_run: bool,
    yes: bool,
    **filters: Any,
) -> None:
    """Delete finished jobs for good, with their attempts and signals; cancel others first.

    \b
    headway jobs delete ID ID
    headway jobs delete --status dead --kind newsletter --created-before 30d --dry-run
    """
    if ids:
        app = by_id(cli, filters)

        def act(job_id: str) -> Done:
            app.delete(job_id, reason=reason, actor=actor())
            return {"id": job_id, "deleted": True}

        each_by_id(cli, ids, dry_run, act)
        return
    app = by_filter(cli, "delete", filters)
    matching = app.delete_jobs(dry_run=True, limit=limit, **filters)
    if not is_wanted(cli, "delete", matching, dry_run=dry_run, yes=yes):
        return
    deleted = app.delete_jobs(limit=limit, reason=reason, actor=actor(), **filters)
    if cli.json:
        emit({"dry_run": False, "jobs": deleted})
        return
    say(f"{many(deleted)} deleted")
    if deleted < matching:
        note(f"{many(matching - deleted)} stayed: children of machines that still wait, or retried meanwhile")
