"""`headway schedules preview`, `explain` and `backfill`: the times of a schedule, to come and past, also in words."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.confirm import confirm
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import MOST, payload_option, tenant_option, yes_option
from headway.cli.program.output import emit, note, say
from headway.cli.program.params import Duration, Moment, Zone
from headway.cli.triggers.trigger_rows import find, words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option("--cron", metavar="EXPRESSION", help='What is not stored: "0 2 * * *", or @daily.')
@click.option("--every", type=Duration(), help="An interval that is not stored: 5m.")
@click.option("--tz", type=Zone(), help="The time zone. Default: the app's, else UTC.")
@click.option("-n", "--count", type=click.IntRange(1, MOST), default=10, show_default=True, help="How many times.")
@click.option("--after", type=Moment(), help="The times after this one. Default: after now.")
@tenant_option
@pass_invocation
def preview(
    cli: Invocation,
    /,
    name: str | None,
    cron: str | None,
    every: Any,
    tz: str | None,
    count: int,
    after: datetime | None,
    tenant: str | None,
) -> None:
    """Show when a schedule is due, in its own zone and in UTC; also for one that is not stored yet.

    A line says so if the clock is set forward or back there.

    \b
    headway schedules preview nightly
    headway schedules preview --cron "30 2 * * *" --tz Europe/Berlin --after 2026-03-27T00:00:00Z
    headway schedules preview --every 90m -n 3
    """
    if (name is not None) + (cron is not None) + (every is not None) != 1:
        raise click.UsageError('which times? Give the NAME of a schedule, or one of --cron "0 2 * * *" and --every 5m')
    if name is not None and (" " in name or name.startswith("@")):
        raise click.UsageError(f"{name!r} is no schedule's name: to preview an expression, give --cron {name!r}")
    if name is not None and tz is not None:
        raise click.UsageError(f"{name} has a zone of its own: leave --tz out, or give --cron instead of the name")
    schedule = None if name is None else find(cli, "schedule", name, tenant)
    if schedule is not None:
        times = cli.existing.preview_schedule(name, count, after=after, tenant=UUID(schedule.tenant_id))
    else:
        # this needs no database
        times = cli.app.preview_schedule(None, count, cron=cron, every=every, tz=tz, after=after)
    if cli.json:
        emit(_as_json(times, after))
        return
    _show(times, after)
    if schedule is not None and not schedule.enabled:
        note(f"it is paused, and fires at none of them: {cli.typed(*words(cli, 'resume', schedule))}")
    _say_end(times, count)


@click.command(cls=Command)
@click.argument("expression")
@click.option("--tz", type=Zone(), help="The time zone to show times in. Default: the app's, else UTC.")
@click.option("-n", "--count", type=click.IntRange(1, MOST), default=5, show_default=True, help="How many times.")
@click.option("--after", type=Moment(), help="The times after this one. Default: after now.")
@pass_invocation
def explain(cli: Invocation, /, expression: str, tz: str | None, count: int, after: datetime | None) -> None:
    """Say a cron expression in words, and when it is due next.

    \b
    headway schedules explain "0 2 * * MON-FRI"
    headway schedules explain "0 9 L * ?" --tz Europe/Berlin -n 12
    """
    from headway.model.cron_words import explain_cron

    text = explain_cron(expression)
    # this needs no database
    times = cli.app.preview_schedule(None, count, cron=expression, tz=tz, after=after)
    if cli.json:
        emit({"cron": expression, "words": text, "tz": tz or cli.app.settings.tz, "times": _as_json(times, after)})
        return
    say(text)
    _show(times, after)
    _say_end(times, count)


@click.command(cls=Command, kinds=True)
@click.argument("name")
@click.option("--from", "start", type=Moment(), required=True, help="The first time: 2031-01-31T00:00:00Z.")
@click.option("--to", "end", type=Moment(), required=True, help="The last time, which is included.")
@payload_option
@click.option("--dry-run", is_flag=True, help="Only show what it would make.")
@tenant_option
@yes_option
@pass_invocation
def backfill(
    cli: Invocation,
    /,
    name: str,
    start: datetime,
    end: datetime,
    payload: Any,
    dry_run: bool,
    tenant: str | None,
    yes: bool,
) -> None:
    """Fire a schedule for each time of its past that it has not fired for, whether it is paused or not.

    \b
    headway schedules backfill nightly --from 2031-01-01T00:00:00Z --to 2031-01-31T23:59:59Z --dry-run
    headway schedules backfill nightly --from 2031-01-01T00:00:00Z --to 2031-01-31T23:59:59Z --yes
    """
    schedule = find(cli, "schedule", name, tenant)
    app = cli.existing_with_kinds
    asked: dict[str, Any] = {"tenant": UUID(schedule.tenant_id), "actor": actor()}
    found = app.backfill_schedule(name, start, end, payload, dry_run=True, **asked)
    count = sum(each.status == "planned" for each in found)
    if not dry_run and count:
        if not yes:
            confirm(f"fire {name} for {count:,} of its past times", ", or look with --dry-run")
        found = app.backfill_schedule(name, start, end, payload, **asked)
    if cli.json:
        emit(found)
        return
    from headway.cli.triggers.schedule_page import show_backfill

    show_backfill(schedule, found)
    fired = sum(each.status == "fired" for each in found)
    if not found:
        note("it has no time in between")
    elif dry_run:
        note(f"{count:,} would be fired, {fired:,} had fired before: leave out --dry-run to fire them")
    else:
        note(f"{len(found) - fired:,} fired, {fired:,} had fired before")


def _as_json(times: Sequence[datetime], after: datetime | None) -> list[dict[str, Any]]:
    from headway.cli.triggers.schedule_page import changes_of_clock

    marks = changes_of_clock(times, after)
    return [
        {"local": time, "utc": time.astimezone(UTC), "note": mark or None}
        for time, mark in zip(times, marks, strict=True)
    ]


def _show(times: Sequence[datetime], after: datetime | None) -> None:
    from headway.cli.triggers.schedule_page import show_times

    if times:
        show_times(times, after)


def _say_end(times: Sequence[datetime], count: int) -> None:
    if len(times) < count:
        note("there is no further time" if times else "it is never due after that")
