"""`headway schedules`: what enqueues jobs by the clock; list, show, create, change, pause, run, preview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import (
    MOST,
    job_options,
    limit_option,
    options_of,
    payload_option,
    tenant_option,
    yes_option,
)
from headway.cli.program.output import Cell, Column, ago, emit, local, merged, note, table
from headway.cli.program.params import Duration, Moment, Tenant, Zone, taken_back
from headway.cli.triggers.fires import fires_as_json, list_fires
from headway.cli.triggers.schedule_times import backfill, explain, preview
from headway.cli.triggers.trigger_rows import (
    answer,
    delete,
    find,
    foreign,
    next_page,
    switch,
    target,
    template_names,
    warn_of_kind,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from headway.model.trigger import Trigger

_CATCH_UP = click.Choice(("none", "latest", "all"))
_OVERLAP = click.Choice(("allow", "skip"))


@click.group(cls=Group, invoke_without_command=True, short_help="Enqueue jobs by the clock.")
@click.pass_context
def schedules(ctx: click.Context) -> None:
    """Look at schedules and operate on them: what enqueues jobs by the clock.

    \b
    headway schedules list
    headway schedules explain "30 2 * * MON-FRI" --tz Europe/Berlin
    headway schedules create nightly --cron "0 2 * * *" --tz Europe/Berlin --kind report
    headway schedules pause nightly
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


schedules.add_command(preview)
schedules.add_command(explain)
schedules.add_command(backfill)


@schedules.command("list")
@click.option("--tenant", type=Tenant(), help="Only schedules of this tenant. Default: of all.")
@limit_option
@click.option("--after", metavar="ID", help="Continue after the page that ended with this schedule.")
@pass_invocation
def list_(cli: Invocation, /, tenant: str | None, limit: int, after: str | None) -> None:
    """List the schedules, oldest first: when each is due next, in its own zone, and what is wrong with it.

    Those FROM code are declared in an app's code and follow it.

    \b
    headway schedules list
    headway schedules list --json | jq -r '.[] | select(.error) | .name'
    """
    app = cli.existing
    found = app.schedules(tenant=tenant, limit=min(limit + 1, MOST), after=after)
    shown = found[:limit]
    if cli.json:
        emit(shown)
        return
    if not shown:
        note(f"no schedules in {app.store.describe()}: headway schedules create --help")
        return
    now = app.store.run(app.store.ops.now())
    names = template_names(app, shown)
    table(_columns(cli, shown), [_row(schedule, names, now) for schedule in shown])
    if len(found) > limit:
        next_page(cli, "schedules", "list", {"tenant": tenant, "limit": limit}, "--after", shown[-1].id)


def _columns(cli: Invocation, found: list[Trigger]) -> list[Column]:
    return [
        Column("NAME"),
        Column("TENANT", shrink=True, wide=foreign(cli, found)),
        Column("DUE", shrink=True),
        Column("ZONE", shrink=True, wide=130),
        Column("ENQUEUES", shrink=True, wide=100),
        Column("NEXT"),
        Column("IN", right=True),
        Column("LAST", right=True, wide=90),
        Column("FROM", wide=100),
        Column("NOTE", shrink=True, spare=True),
    ]


def _row(schedule: Trigger, names: Mapping[str, str], now: datetime) -> list[Cell]:
    from headway.cli.triggers.schedule_page import due, remark
    from headway.model.cron import zone

    return [
        schedule.name,
        schedule.tenant,
        due(schedule),
        schedule.tz,
        target(schedule, names),
        local(schedule.next_fire_at, zone(schedule.tz)),
        ago(schedule.next_fire_at, now).removeprefix("in "),
        ago(schedule.last_fired_at, now),
        schedule.origin,
        remark(schedule, now),
    ]


@schedules.command()
@click.argument("name")
@tenant_option
@pass_invocation
def show(cli: Invocation, /, name: str, tenant: str | None) -> None:
    """Show everything about one schedule: its values, its next times, and what it fired last.

    \b
    headway schedules show nightly
    """
    app = cli.existing
    schedule = find(cli, "schedule", name, tenant)
    names = template_names(app, [schedule])
    coming = app.preview_schedule(name, 5, tenant=UUID(schedule.tenant_id)) if schedule.enabled else []
    fired = app.fires(schedule=name, tenant=UUID(schedule.tenant_id), limit=5)
    if cli.json:
        template = names.get(schedule.template_id or "")
        emit(merged(schedule, template=template, upcoming=coming, fires=fires_as_json(app, fired)))
        return
    from headway.cli.triggers.schedule_page import show_schedule

    show_schedule(app, schedule, names, coming, fired)
    if fired:
        note(f"all that it fired: {cli.typed(*words(cli, 'fires', schedule))}")


def _timing_options(fn: Any) -> Any:
    options = (
        click.option(
            "--cron", metavar="EXPRESSION", help='"0 2 * * *", with seconds "*/30 * * * * *", or @daily, @weekly, …'
        ),
        click.option("--every", type=Duration(), help="Or an interval: 30s, 5m, 1h; counted from --start, or 1970."),
        click.option("--tz", type=Zone(), help="Its time zone: Europe/Berlin. Default: the app's, else UTC."),
        click.option("--kind", help="What it enqueues: a job of this kind,"),
        click.option("--template", metavar="NAME", help="or one of this template."),
        click.option(
            "--catch-up",
            type=_CATCH_UP,
            help="After an outage: fire nothing, the latest missed time, or all of them. Default: latest.",
        ),
        click.option("--catch-up-window", type=Duration(), help="How far back --catch-up all goes. Default: 1d."),
        click.option(
            "--overlap", type=_OVERLAP, help="While its last job is unfinished: fire or skip. Default: allow."
        ),
        click.option("--jitter", type=Duration(), help="Start each job up to this much later, at random. Default: 0."),
        click.option("--start", type=Moment("none"), help="Fire it no sooner than 2026-01-31T09:30:00Z."),
        click.option("--end", type=Moment("none"), help="Fire it no later than this."),
        click.option("--label", metavar="TEXT", help="What people call it: any text, beside its name."),
    )
    for option in reversed(options):
        fn = option(fn)
    return fn


@schedules.command()
@click.argument("name")
@_timing_options
@job_options
@click.option("--disabled", is_flag=True, help="Create it paused.")
@tenant_option
@pass_invocation
def create(cli: Invocation, /, name: str, disabled: bool, tenant: str | None, **options: Any) -> None:
    """Create a schedule. Its payload may have placeholders: {{schedule.nominal_at}}, {{schedule.date}}, …

    \b
    headway schedules create nightly --cron "0 2 * * *" --tz Europe/Berlin --kind report
    headway schedules create sync --every 5m --template sync --overlap skip --payload '{"day": "{{schedule.date}}"}'
    headway schedules create bill --cron @monthly --kind bill --option queue=slow --option max_attempts=3 --disabled
    """
    wanted = _wanted(options)
    app = cli.app
    made = app.create_schedule(name, **wanted, enabled=not disabled, tenant=tenant, actor=actor())
    answer(cli, made, _said(made))
    if not cli.json:
        warn_of_kind(app, made.kind)


@schedules.command()
@click.argument("name")
@_timing_options
@job_options
@tenant_option
@pass_invocation
def ensure(cli: Invocation, /, name: str, tenant: str | None, **options: Any) -> None:
    """Make a schedule, or change what differs in the one of this name; what is not given has its default.

    Where nothing differs nothing is written, so a deploy may run it each time. A paused one stays paused.

    \b
    headway schedules ensure nightly --cron "0 2 * * *" --tz Europe/Berlin --kind report
    """
    wanted = _wanted(options)
    app = cli.app
    ensured = app.ensure_schedule(name, **wanted, tenant=tenant, actor=actor())
    answer(cli, ensured, _said(ensured))
    if not cli.json:
        warn_of_kind(app, ensured.kind)


def _wanted(options: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a whole schedule."""
    wanted = options_of(taken_back(options, "start", "end"))
    if ("cron" in wanted) == ("every" in wanted):
        raise click.UsageError('when is it due? Give one of --cron "0 2 * * *" and --every 5m')
    if ("kind" in wanted) == ("template" in wanted):
        raise click.UsageError("what does it enqueue? Give one of --kind and --template")
    return wanted


@schedules.command()
@click.argument("name")
@click.option("--new-name", metavar="NAME", help="Another name.")
@_timing_options
@job_options
@tenant_option
@pass_invocation
def change(cli: Invocation, /, name: str, tenant: str | None, **options: Any) -> None:
    """Change a schedule; what is not given stays. One that the code declares must be changed there.

    --option overrides single options, --options and --payload replace all; --start none and --end none remove those.
    When its times change, times that were due but have not fired are dropped.

    \b
    headway schedules change nightly --cron "30 3 * * *" --overlap skip
    headway schedules change nightly --option queue=slow
    """
    schedule = find(cli, "schedule", name, tenant)
    changes = options_of(taken_back(options, "start", "end"), schedule.options)
    if not changes:
        raise Refused("there is nothing to change: give some of --cron --every --tz --payload …", WRONG)
    changed = cli.existing.change_schedule(name, tenant=UUID(schedule.tenant_id), actor=actor(), **changes)
    answer(cli, changed, _said(changed))
    if not cli.json and "kind" in changes:
        warn_of_kind(cli.existing, changed.kind)


@schedules.command("delete")
@click.argument("name")
@tenant_option
@yes_option
@pass_invocation
def delete_(cli: Invocation, /, name: str, tenant: str | None, yes: bool) -> None:
    """Delete a schedule; the jobs it enqueued stay.

    \b
    headway schedules delete nightly --yes
    """
    delete(cli, find(cli, "schedule", name, tenant), yes)


@schedules.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@pass_invocation
def pause(cli: Invocation, /, names: tuple[str, ...], tenant: str | None) -> None:
    """Stop firing schedules until they are resumed; times that are due now or meanwhile are dropped.

    \b
    headway schedules pause nightly
    """
    verb = cli.existing.pause_schedule
    switch(cli, "schedule", names, tenant, verb, to=False, already="was paused already", said=_said)


@schedules.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@pass_invocation
def resume(cli: Invocation, /, names: tuple[str, ...], tenant: str | None) -> None:
    """Fire paused schedules again, from their next time on.

    \b
    headway schedules resume nightly
    """
    verb = cli.existing.resume_schedule
    switch(cli, "schedule", names, tenant, verb, to=True, already="was not paused", said=_said)


@schedules.command(kinds=True)
@click.argument("name")
@payload_option
@tenant_option
@pass_invocation
def run(cli: Invocation, /, name: str, payload: Any, tenant: str | None) -> None:
    """Fire a schedule once, now, and print its job's id; its next time does not change.

    \b
    headway schedules run nightly
    headway schedules run nightly --payload '{"day": "2031-05-06"}'
    """
    schedule = find(cli, "schedule", name, tenant)
    fire = cli.existing_with_kinds.run_schedule(name, payload, tenant=UUID(schedule.tenant_id), actor=actor())
    if cli.json:
        emit(fire)
    else:
        click.echo(fire.job_id)


@schedules.command()
@click.argument("name")
@tenant_option
@limit_option
@click.option("--before", metavar="ID", help="Continue after the page that ended with this fire.")
@pass_invocation
def fires(cli: Invocation, /, name: str, tenant: str | None, limit: int, before: str | None) -> None:
    """List what a schedule fired, newest first: the nominal time, and the job it enqueued.

    \b
    headway schedules fires nightly
    headway schedules fires nightly --json | jq -r '.[] | select(.status == "failed") | .error'
    """
    list_fires(cli, find(cli, "schedule", name, tenant), tenant, limit=limit, before=before)


def _said(schedule: Trigger) -> str:
    from headway.model.cron import zone

    if not schedule.enabled:
        return f"{schedule.name}: paused"
    if schedule.next_fire_at is None:
        return f"{schedule.name}: will not fire, its end has passed"
    at = local(schedule.next_fire_at, zone(schedule.tz))
    return f"{schedule.name}: next at {at} ({ago(schedule.next_fire_at)})"
