"""`headway jobs wait`: wait until a job has a status, or is over."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.failure import FAILED
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import emit, first_line, note, say
from headway.cli.program.params import Duration, JobId
from headway.model.status import FINISHED, STATUSES


@click.command(cls=Command)
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(STATUSES),
    help="Until it has this one; repeatable. Default: until it is over.",
)
@click.option("--timeout", type=Duration(), help="How long to wait at most.")
@pass_invocation
def wait(cli: Invocation, /, job_id: str, statuses: tuple[Any, ...], timeout: Any) -> None:
    """Wait until a job has a status, or is over; prints the status that it has then.

    Exits with 1 if that is another one: the job ended otherwise, or the time is up.

    \b
    headway jobs wait ID
    headway jobs wait ID --status waiting --timeout 30s
    """
    wanted = statuses or FINISHED
    outcome = cli.existing.wait(job_id, status=wanted, timeout=timeout)
    if cli.json:
        emit({"id": job_id, "status": outcome.status, "result": outcome.value, "error": outcome.error})
    else:
        say(outcome.status)
        if outcome.error:
            note(first_line(outcome.error))
    if outcome.status not in wanted:
        click.get_current_context().exit(FAILED)
