"""`headway transfer`: moves the work of a SQLite file into PostgreSQL, or back."""

from __future__ import annotations

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.confirm import confirm
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import Column, emit, many, merged, note, say, table
from headway.cli.program.params import Duration
from headway.cli.program.progress import Bar


@click.command(cls=Command, short_help="Move the work of a SQLite file into PostgreSQL, or back.")
@click.argument("source", metavar="SOURCE_URL")
@click.argument("target", metavar="TARGET_URL")
@click.option("--history", is_flag=True, help="Also move finished jobs, handled events, the audit and stats.")
@click.option(
    "--timeout", type=Duration(), default="5m", show_default=True, help="How long running jobs may take to end."
)
@click.option("--dry-run", is_flag=True, help="Only count what would be moved.")
@click.option("--abort", is_flag=True, help="Go back: open the source again, and empty the target.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@pass_invocation
def transfer(
    cli: Invocation,
    source: str,
    target: str,
    history: bool,
    timeout: str | float,
    dry_run: bool,
    abort: bool,
    yes: bool,
) -> None:
    """Move all work of one database into another, which is empty: SQLite to PostgreSQL, or back.

    Workers and applications may go on. It copies; pauses the queues of the source and waits for what runs; makes the
    source refuse every write; copies what has changed; compares counts and digests of every table; and opens the
    target. From then on the source answers "moved to …". If it is killed, run it again: it goes on.

    \b
    headway --url postgresql://me@db/work migrate
    headway transfer sqlite:///headway.db postgresql://me@db/work --dry-run
    headway transfer sqlite:///headway.db postgresql://me@db/work
    """
    from headway.app.transfer import abort_transfer, plan_transfer
    from headway.app.transfer import transfer as move
    from headway.secrets import show_url

    if abort:
        if dry_run or history:
            raise click.UsageError("--abort takes neither --dry-run nor --history")
        abort_transfer(source, target)
        if cli.json:
            emit({"aborted": True, "source": show_url(source), "target": show_url(target)})
        else:
            say(f"{show_url(source)} is in use again, and {show_url(target)} is empty")
        return
    plan = plan_transfer(source, target, history=history)
    if dry_run:
        if cli.json:
            emit({"dry_run": True, "rows": plan})
        else:
            _show(plan)
        return
    if not yes:
        confirm(
            f"move {many(sum(plan.values()), 'row')} to {show_url(target)} and close {show_url(source)}",
            ", or look with --dry-run",
        )
    with Bar(quiet=cli.json) as bar:
        done = move(
            source,
            target,
            history=history,
            timeout=timeout,
            progress=lambda step: bar.show(step.stage, step.done, step.total),
        )
    if cli.json:
        emit({"dry_run": False} | merged(done))
        return
    _show({part.table: part.rows for part in done.tables})
    say(f"the work of {done.source} is in {done.target} now, equal in every row that was moved")
    for name in done.artifact_stores:
        if name.startswith("folder:"):
            place = name.partition("@")[2]
            note(f"artifacts stay in {place}: name that folder in the setting artifacts, or workers will not find them")
    note("start the workers there, and set HEADWAY_URL; the old database refuses every write")


def _show(rows: dict[str, int]) -> None:
    table(
        (Column("TABLE"), Column("ROWS", right=True)), [[name, f"{count:,}"] for name, count in rows.items() if count]
    )
