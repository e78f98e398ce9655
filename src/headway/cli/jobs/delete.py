"""`headway jobs delete`: by id, or every finished job that matches a filter."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import FAILED, WRONG, Refused, describe
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import emit, many, note, say
from headway.cli.program.params import JobId, bulk_limit_option, filter_options, given


@click.command(cls=Command)
@click.argument("ids", type=JobId(), metavar="[ID]...", nargs=-1)
@filter_options
@click.option("--reason", help="Why, for the audit trail.")
@bulk_limit_option
@click.option("--dry-run", is_flag=True, help="Only count them.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
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
    if bool(ids) == bool(given(filters)):
        raise Refused("which jobs? Give their ids, or filters such as: headway jobs delete --status dead", WRONG)
    if ids:
        _delete_each(cli, ids, reason, dry_run)
    else:
        _delete_matching(cli, filters, limit, reason, dry_run, yes)


def _delete_each(cli: Invocation, ids: tuple[str, ...], reason: str | None, dry_run: bool) -> None:
    """One by one, so that each gets its own answer; exits with 1 if one was refused."""
    from headway.errors import HeadwayError

    app = cli.existing
    done: list[dict[str, Any]] = []
    for job_id in ids:
        try:
            if dry_run:
                done.append({"id": job_id, "status": app.get(job_id).status})
            else:
                app.delete(job_id, reason=reason, actor=actor())
                done.append({"id": job_id, "deleted": True})
        except HeadwayError as error:
            if len(ids) == 1:
                raise
            done.append({"id": job_id, "error": describe(error)})
    if cli.json:
        emit(done)
    else:
        for each in done:
            answer = f"not deleted: {each['error']}" if "error" in each else each.get("status", "deleted")
            say(f"{'would touch: ' if dry_run else ''}{each['id']}  {answer}")
    if any("error" in each for each in done):
        raise click.exceptions.Exit(FAILED)


def _delete_matching(
    cli: Invocation, filters: dict[str, Any], limit: int | None, reason: str | None, dry_run: bool, yes: bool
) -> None:
    app = cli.existing
    matching = app.delete_jobs(dry_run=True, limit=limit, **filters)
    if dry_run:
        if cli.json:
            emit({"dry_run": True, "jobs": matching})
        else:
            say(f"would delete {many(matching)}")
        return
    if matching and not yes:
        confirm(f"delete {many(matching)}", ", or look with --dry-run")
    deleted = app.delete_jobs(limit=limit, reason=reason, actor=actor(), **filters)
    if cli.json:
        emit({"dry_run": False, "jobs": deleted})
        return
    say(f"{many(deleted)} deleted")
    if deleted < matching:
        note(f"{many(matching - deleted)} stayed: children of machines that still wait, or retried meanwhile")
