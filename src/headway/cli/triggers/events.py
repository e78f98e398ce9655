"""`headway events`: what was emitted, and what triggers did with it; emit one, retry what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import FAILED
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import MOST, limit_option, yes_option
from headway.cli.program.output import (
    COLORS,
    Cell,
    Column,
    ago,
    at,
    emit,
    first_line,
    many,
    merged,
    note,
    say,
    status,
    table,
)
from headway.cli.program.page_parts import block, heading, pretty, title, values
from headway.cli.program.params import Json, Tenant
from headway.cli.triggers.fires import fires_as_json, fires_table
from headway.cli.triggers.trigger_rows import next_page, with_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headway.app import Headway
    from headway.model.event import Event
    from headway.model.trigger import Fire

_STATUSES = ("pending", "handled", "failed")
_PAGE = 1_000


@click.group(cls=Group, invoke_without_command=True, short_help="See events and what triggers did with them.")
@click.pass_context
def events(ctx: click.Context) -> None:
    """Look at events and operate on them: named facts that make triggers enqueue jobs.

    \b
    headway events list --failed
    headway events show ID
    headway events emit folder.updated --payload '{"folder": {"id": 7}}'
    headway events retry ID
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@events.command("list")
@click.option("--name", help="Only events of this name.")
@click.option("--status", "status_", type=click.Choice(_STATUSES), help="Only events of this status.")
@click.option("--failed", is_flag=True, help="Only those that a trigger could not handle.")
@click.option("--tenant", type=Tenant(), help="Only events of this tenant. Default: of all.")
@limit_option
@click.option("--before", metavar="ID", help="Continue after the page that ended with this event.")
@pass_invocation
def list_(
    cli: Invocation,
    /,
    name: str | None,
    status_: Any,
    failed: bool,
    tenant: str | None,
    limit: int,
    before: str | None,
) -> None:
    """List the newest events that match, newest first.

    \b
    headway events list --failed
    headway events list --name folder.updated --json | jq '.[].payload'
    """
    if failed and status_ not in (None, "failed"):
        raise click.UsageError(f"--failed and --status {status_} exclude each other: give one")
    wanted: Any = "failed" if failed else status_
    app = cli.existing
    found = app.events(name=name, status=wanted, tenant=tenant, limit=min(limit + 1, MOST), before=before)
    shown = found[:limit]
    if cli.json:
        emit(shown)
        return
    if not shown:
        kind = f" {wanted}" if wanted else ""
        of = f" named {name}" if name else ""
        note(f"no{kind} events{of} in {app.store.describe()}")
        return
    columns = [
        Column("ID"),
        Column("STATUS"),
        Column("NAME", shrink=True),
        Column("TENANT", shrink=True, wide=130),
        Column("EMITTED", right=True),
        Column("NOTE", shrink=True, spare=True),
    ]
    table(columns, [_row(event) for event in shown])
    if len(found) > limit:
        flags = {"name": name, "status": wanted, "tenant": tenant, "limit": limit}
        next_page(cli, "events", "list", flags, "--before", shown[-1].id)


def _row(event: Event) -> list[Cell]:
    about = f"job {event.job_id}" if event.job_id else ""
    return [
        event.id,
        status(event.status),
        event.name,
        event.tenant,
        ago(event.emitted_at),
        (first_line(event.error), COLORS["failed"]) if event.error else about,
    ]


@events.command()
@click.argument("event_id", metavar="ID")
@pass_invocation
def show(cli: Invocation, event_id: str) -> None:
    """Show everything about one event: its payload, and what each trigger did with it.

    \b
    headway events show 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    """
    _check([event_id])
    app = cli.existing
    event = app.get_event(event_id)
    fired = app.fires(event_id=event.id, limit=MOST)
    names = _names(app, fired)
    if cli.json:
        fires = [{**fire, "trigger": names.get(fire["trigger_id"])} for fire in fires_as_json(app, fired)]
        emit(merged(event, fires=fires))
        return
    title(event.name, status(event.status), event.id)
    by = f" by {event.created_by}" if event.created_by else ""
    values(
        [
            ("tenant", event.tenant if event.tenant != "default" else None),
            ("emitted", f"{at(event.emitted_at)}{by}"),
            ("handled", at(event.handled_at) if event.handled_at else None),
            ("about job", event.job_id),
            ("correlation", event.correlation_id),
        ]
    )
    block("payload", pretty(event.payload))
    if event.error:
        block("error", event.error, COLORS["failed"])
    if fired:
        heading("fired")
        fires_table(app, fired, triggers=names)
    elif event.status == "handled":
        note("no trigger met it: nothing was enqueued")
    if event.status == "failed":
        note(f"once that is fixed: {cli.typed('events', 'retry', event.id)}")


@events.command("emit")
@click.argument("name")
@click.option(
    "--payload", type=Json(), metavar="JSON|@FILE|-", help="Any JSON value, @file, or - for stdin. Default: null."
)
@click.option("--correlation-id", metavar="ID", help="An id that related jobs share.")
@click.option("--tenant", type=Tenant(), help="The tenant it belongs to. Default: that of the settings.")
@pass_invocation
def emit_(cli: Invocation, /, name: str, payload: Any, correlation_id: str | None, tenant: str | None) -> None:
    """Emit an event and print its id; once printed it is durable, and a worker handles it.

    \b
    headway events emit folder.updated --payload '{"folder": {"id": 7}}'
    headway events emit order.paid --payload @order.json --tenant acme
    """
    from headway.model.event import covers

    app = cli.app
    made = app.emit(name, payload, tenant=tenant, correlation_id=correlation_id, created_by=actor())
    if cli.json:
        emit({"id": made, "name": name, "tenant": tenant or cli.tenant})
        return
    click.echo(made)
    listeners = app.triggers(tenant=tenant or cli.tenant, limit=MOST)
    if not any(each.enabled and covers(str(each.event), name) for each in listeners):
        note(f"no enabled trigger of tenant {tenant or cli.tenant} waits for {name} now: nothing comes of it")


@events.command()
@click.argument("ids", metavar="[ID...]", nargs=-1)
@click.option("--failed", is_flag=True, help="All failed events, instead of ids.")
@click.option("--name", help="With --failed: only events of this name.")
@click.option("--tenant", type=Tenant(), help="With --failed: only events of this tenant.")
@yes_option
@pass_invocation
def retry(
    cli: Invocation, /, ids: tuple[str, ...], failed: bool, name: str | None, tenant: str | None, yes: bool
) -> None:
    """Handle failed events again, by the triggers that could not fire; the others do not fire twice.

    \b
    headway events retry ID
    headway events retry --failed --name folder.updated --yes
    """
    if bool(ids) == failed or (ids and (name or tenant)):
        raise click.UsageError("which events? Give their IDs, or --failed, with --name and --tenant if you like")
    _check(ids)
    if failed:
        _retry_all(cli, name, tenant, yes)
    else:
        _retry_each(cli, ids)


def _check(ids: Iterable[str]) -> None:
    """Raises `UsageError` for what cannot be an event's id, before anything is changed."""
    for event_id in ids:
        try:
            UUID(event_id)
        except ValueError:
            raise click.UsageError(
                f"{event_id!r} is not an event's id: ids are UUIDs, as headway events list has them"
            ) from None


def _retry_each(cli: Invocation, ids: tuple[str, ...]) -> None:
    from headway.cli.program.failure import describe
    from headway.errors import NotAllowed, NotFound

    app = cli.existing
    if len(ids) == 1:
        app.retry_event(ids[0], actor=actor())
        if cli.json:
            emit([{"id": ids[0], "status": "pending"}])
        else:
            say(f"event {ids[0]} will be handled again")
        return
    answers: list[dict[str, str]] = []
    for event_id in ids:
        try:
            app.retry_event(event_id, actor=actor())
            answers.append({"id": event_id, "status": "pending"})
        except (NotFound, NotAllowed) as error:
            answers.append({"id": event_id, "error": describe(error)})
    if cli.json:
        emit(answers)
    for answer in () if cli.json else answers:
        say(answer.get("error", f"event {answer['id']} will be handled again"))
    if any("error" in answer for answer in answers):
        raise click.exceptions.Exit(FAILED)


def _retry_all(cli: Invocation, name: str | None, tenant: str | None, yes: bool) -> None:
    app = cli.existing
    ids: list[str] = []
    before: str | None = None
    while page := app.events(name=name, status="failed", tenant=tenant, limit=_PAGE, before=before):
        ids += [event.id for event in page]
        before = page[-1].id
    if ids and not yes:
        confirm(f"retry {many(len(ids), 'event')}")
    done = [each for start in range(0, len(ids), _PAGE) for each in _retried(app, ids[start : start + _PAGE])]
    if cli.json:
        emit([{"id": event_id, "status": "pending"} for event_id in done])
    else:
        say(f"{many(len(done), 'event')} will be handled again" if done else "nothing to retry: no such event failed")


def _retried(app: Headway, ids: list[str]) -> list[str]:
    return app.retry_events(ids, actor=actor())


def _names(app: Headway, fired: list[Fire]) -> dict[str, str]:
    """The names of the triggers that fired; one that was deleted is missing."""
    found = [with_id(app, "event", fire.trigger_id, fire.tenant_id) for fire in fired]
    return {trigger.id: trigger.name for trigger in found if trigger is not None}
