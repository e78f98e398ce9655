"""`headway prune`: deletes what is older than its retention, or counts it."""

from __future__ import annotations

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.confirm import confirm
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import Column, emit, many, note, span, table
from headway.cli.program.params import Duration
from headway.config import Settings

_NAMES = tuple(Settings().retention_ms)


@click.command(cls=Command, short_help="Delete what is older than its retention.")
@click.option("--only", type=click.Choice(_NAMES), multiple=True, help="Only this; repeatable. Default: all.")
@click.option("--older-than", type=Duration(), help="Use this age instead of the retention: 90s, 2h, 7d.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@pass_invocation
def prune(cli: Invocation, only: tuple[str, ...], older_than: str | float | None, dry_run: bool, yes: bool) -> None:
    """Delete finished jobs, events and fires that are older than their retention.

    Workers do this every few minutes, by the `retention` of the app or headway.toml; this does all of it now.
    Jobs whose kind or queue has a retention of its own are kept that long, whatever --older-than says.

    \b
    headway prune --dry-run
    headway prune --only succeeded --only canceled --older-than 1d
    """
    app = cli.existing_with_kinds
    kept = {name: ms for name, ms in app.settings.retention_ms.items() if not only or name in only}
    ages = {name: ms / 1_000 if older_than is None else older_than for name, ms in kept.items()}
    found = app.prunable(ages)
    if dry_run:
        if cli.json:
            emit({"dry_run": True, "pruned": found})
        else:
            _show(found, ages)
        return
    count = sum(found.values())
    if count and older_than is not None and not yes:
        confirm(f"delete {many(count, 'row')} that the retention would keep", ", or look with --dry-run")
    pruned = app.prune(ages)
    if cli.json:
        emit({"dry_run": False, "pruned": pruned})
        return
    _show(pruned, ages)
    if not sum(pruned.values()):
        note(f"nothing in {app.store.describe()} is that old")


def _show(found: dict[str, int], ages: dict[str, str | float]) -> None:
    from headway.model.duration import to_ms
    from headway.model.retention import FOREVER, FOREVER_MS

    columns = (Column("WHAT"), Column("OLDER THAN", right=True), Column("COUNT", right=True))
    kept = {name: to_ms(age) for name, age in ages.items()}
    shown = {name: FOREVER if ms >= FOREVER_MS else span(ms) for name, ms in kept.items()}
    table(columns, [[name, shown[name], f"{count:,}"] for name, count in found.items()])
