"""`headway backup`: a checked copy of a SQLite file that is in use."""

from __future__ import annotations

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.failure import Refused
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import emit, many, say
from headway.cli.program.progress import Bar

OTHER_TOOL = 3
"""The database is PostgreSQL, which has its own tool for it."""


@click.command(cls=Command, short_help="Copy the database while it is in use (SQLite).")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite the file.")
@pass_invocation
def backup(cli: Invocation, file: str, force: bool) -> None:
    """Copy a SQLite database to FILE while workers go on; check the copy, and only then give it its name.

    The copy is one moment's state, readable by its owner alone. On PostgreSQL it prints the command of pg_dump, and
    exits with 3.

    \b
    headway backup /backups/work-$(date +%F).db
    headway --url sqlite:////srv/work.db backup copy.db --force
    """
    app = cli.existing
    if app.store.dialect == "postgres":
        from headway.app.backup import pg_dump

        raise Refused(f"PostgreSQL has its own backups, use: {pg_dump(app.store, file)}", OTHER_TOOL)
    with Bar(quiet=cli.json) as bar:
        done = app.backup(file, force=force, progress=lambda pages, of: bar.show("backup", pages, of))
    if cli.json:
        emit(done)
    else:
        rows = many(sum(done.rows.values()), "row")
        say(f"{done.path} has {rows} of {app.store.describe()} in {done.bytes / 2**20:,.1f} MiB, checked")
