"""`headway triggers`: what enqueues jobs or sends signals when events arrive: list, create, change, test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.failure import FAILED, WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import MOST, job_options, limit_option, options_of, tenant_option, yes_option
from headway.cli.program.output import (
    COLORS,
    Cell,
    Column,
    ago,
    at,
    emit,
    first_line,
    merged,
    note,
    say,
    span,
    status,
    table,
)
from headway.cli.program.page_parts import block, blocks, brief, heading, pretty, title, values
from headway.cli.program.params import Duration, Json, Pair, Tenant, taken_back
from headway.cli.triggers.fires import fires_as_json, fires_table, list_fires
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
    from collections.abc import Mapping, Sequence

    from headway.app import Headway
    from headway.app.triggers import Rehearsal
    from headway.model.trigger import Fire, Trigger


@click.group(cls=Group, invoke_without_command=True, short_help="Enqueue jobs when events arrive.")
@click.pass_context
def triggers(ctx: click.Context) -> None:
    """Look at triggers and operate on them: each enqueues a job, or sends a signal, for every event of a name.

    The engine's own events are headway.job.succeeded, .failed, .dead and .canceled.

    \b
    headway triggers list
    headway triggers create sync --event folder.updated --kind sync --payload '{"folder": "{{event.folder.id}}"}'
    headway triggers create paid --event order.paid --signal payment --to 'checkout:{{event.order}}'
    headway triggers test sync --payload '{"folder": {"id": 7}}'
    headway triggers fires sync
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@triggers.command("list")
@click.option("--event", multiple=True, metavar="NAME", help="Only triggers on this event; repeatable.")
@click.option("--tenant", type=Tenant(), help="Only triggers of this tenant. Default: of all.")
@limit_option
@click.option("--after", metavar="ID", help="Continue after the page that ended with this trigger.")
@pass_invocation
def list_(cli: Invocation, /, event: tuple[str, ...], tenant: str | None, limit: int, after: str | None) -> None:
    """List the triggers, oldest first, and what is wrong with them.

    \b
    headway triggers list --event folder.updated
    """
    app = cli.existing
    found = app.triggers(event=event or None, tenant=tenant, limit=min(limit + 1, MOST), after=after)
    shown = found[:limit]
    if cli.json:
        emit(shown)
        return
    if not shown:
        on = f" on {' or '.join(event)}" if event else ""
        note(f"no triggers{on} in {app.store.describe()}: headway triggers create --help")
        return
    names = template_names(app, shown)
    columns = [
        Column("NAME"),
        Column("TENANT", shrink=True, wide=foreign(cli, shown)),
        Column("EVENT", shrink=True),
        Column("ENQUEUES", shrink=True),
        Column("STATE"),
        Column("LAST", right=True),
        Column("DEDUPE", right=True, wide=110),
        Column("NOTE", shrink=True, spare=True),
    ]
    table(columns, [_row(trigger, names) for trigger in shown])
    if len(found) > limit:
        flags = {"event": event, "tenant": tenant, "limit": limit}
        next_page(cli, "triggers", "list", flags, "--after", shown[-1].id)


def _row(trigger: Trigger, names: Mapping[str, str]) -> list[Cell]:
    return [
        trigger.name,
        trigger.tenant,
        trigger.event or "–",
        target(trigger, names),
        status(_state(trigger)),
        ago(trigger.last_fired_at),
        _window(trigger) or "–",
        (f"failed: {first_line(trigger.error)}", COLORS["failed"]) if trigger.error else "",
    ]


@triggers.command()
@click.argument("name")
@tenant_option
@pass_invocation
def show(cli: Invocation, /, name: str, tenant: str | None) -> None:
    """Show everything about one trigger, and what it fired last.

    \b
    headway triggers show sync
    """
    app = cli.existing
    trigger = find(cli, "event", name, tenant)
    names = template_names(app, [trigger])
    fired = app.fires(trigger=name, tenant=UUID(trigger.tenant_id), limit=5)
    if cli.json:
        emit(merged(trigger, template=names.get(trigger.template_id or ""), fires=fires_as_json(app, fired)))
        return
    _page(app, trigger, names, fired)
    if fired:
        note(f"all that it fired: {cli.typed(*words(cli, 'fires', trigger))}")


def _page(app: Headway, trigger: Trigger, names: Mapping[str, str], fired: Sequence[Fire]) -> None:
    title(trigger.name, status(_state(trigger)), trigger.id)
    by = f" by {trigger.created_by}" if trigger.created_by else ""
    values(
        [
            ("label", trigger.label),
            ("for", trigger.description),
            ("event", trigger.event),
            ("sends" if trigger.signal else "enqueues", target(trigger, names).removeprefix("signal ")),
            ("dedupe", _deduping(trigger)),
            ("last", f"fired {at(trigger.last_fired_at)}" if trigger.last_fired_at else "has not fired yet"),
            ("last receiver" if trigger.signal else "last job", trigger.last_job_id),
            ("tenant", trigger.tenant if trigger.tenant != "default" else None),
            ("made", f"{at(trigger.created_at)}{by}"),
            ("changed", f"{at(trigger.updated_at)}, revision {trigger.revision}" if trigger.revision > 1 else None),
        ]
    )
    if trigger.error:
        block("error of its last fire", trigger.error, COLORS["failed"])
    blocks({"when": trigger.when, "payload": trigger.payload, "options": trigger.options})
    if fired:
        heading("fired last")
        fires_table(app, fired)


def _event_options(fn: Any) -> Any:
    options = (
        click.option("--event", metavar="NAME", help="The event that it waits for: folder.updated."),
        click.option("--kind", help="What it enqueues: a job of this kind,"),
        click.option("--template", metavar="NAME", help="or one of this template."),
        click.option("--signal", metavar="NAME", help="Or what it sends: a signal of this name,"),
        click.option(
            "--to",
            metavar="KIND:KEY|ID",
            help="to the machine of this kind and unique key, checkout:{{event.order}}, or to the job of this id.",
        ),
        click.option(
            "--when",
            "conditions",
            type=Pair(),
            multiple=True,
            metavar="PATH=VALUE",
            help="Only events that have this: event.kind=checkout, or a list of values as JSON; repeatable.",
        ),
        click.option(
            "--dedupe-window",
            type=Duration(),
            help="Within this time the same payload makes one job; 0: each event makes one. Default: 5m.",
        ),
        click.option(
            "--dedupe-key",
            metavar="TEXT|none",
            help="Compare this instead of the payload: {{event.folder.id}}.",
        ),
        click.option("--label", metavar="TEXT", help="What people call it: any text, beside its name."),
    )
    for option in reversed(options):
        fn = option(fn)
    return fn


@triggers.command()
@click.argument("name")
@_event_options
@job_options
@click.option("--disabled", is_flag=True, help="Create it disabled.")
@click.option(
    "--test",
    "sample",
    type=Json(),
    metavar="JSON|@FILE|-",
    help="Create nothing: show what it would do with an event of this payload.",
)
@tenant_option
@pass_invocation
def create(cli: Invocation, /, name: str, disabled: bool, sample: Any, tenant: str | None, **options: Any) -> None:
    """Create a trigger. Its payload may have placeholders: {{event.a.b}}, {{meta.event_id}}, …; it runs no code.

    \b
    headway triggers create sync --event folder.updated --kind sync --payload '{"folder": "{{event.folder.id}}"}'
    headway triggers create paid --event order.paid --signal payment --to 'checkout:{{event.order}}'
    headway triggers create alarm --event headway.job.dead --template page --when event.queue=billing --dedupe-window 1h
    """
    wanted = _wanted(options)
    if "event" not in wanted:
        raise click.UsageError("which event does it wait for? Give --event folder.updated")
    if sum(name in wanted for name in ("kind", "template", "signal")) != 1:
        raise click.UsageError("what does it do? Give one of --kind, --template and --signal")
    if ("signal" in wanted) != ("to" in wanted):
        raise click.UsageError("--signal and --to go together: what it sends, and to which machine")
    app = cli.app
    if sample is not None:
        found = app.preview_trigger(name, **{**wanted, "sample": sample}, tenant=tenant)
        _tell_rehearsal(cli, app, found, wanted.get("when", {}), sample)
        return
    made = app.create_trigger(name, **wanted, enabled=not disabled, tenant=tenant, actor=actor())
    answer(cli, made, _waits(made))
    if not cli.json and made.signal is None:
        warn_of_kind(app, made.kind)


@triggers.command()
@click.argument("name")
@click.option("--new-name", metavar="NAME", help="Another name.")
@_event_options
@job_options
@tenant_option
@pass_invocation
def change(cli: Invocation, /, name: str, tenant: str | None, **options: Any) -> None:
    """Change a trigger; what is not given stays.

    --option overrides single options; --options, --payload and --when replace all. --dedupe-key none removes the key.

    \b
    headway triggers change sync --payload '{"folder": "{{event.folder.id}}", "why": "{{event.why?}}"}'
    headway triggers change sync --dedupe-window 0
    """
    trigger = find(cli, "event", name, tenant)
    changes = _wanted(options, trigger.options)
    if not changes:
        raise Refused("there is nothing to change: give some of --event --payload --when --dedupe-window …", WRONG)
    changed = cli.existing.change_trigger(name, tenant=UUID(trigger.tenant_id), actor=actor(), **changes)
    answer(cli, changed, _waits(changed))
    if not cli.json and "kind" in changes:
        warn_of_kind(cli.existing, changed.kind)


@triggers.command("delete")
@click.argument("name")
@tenant_option
@yes_option
@pass_invocation
def delete_(cli: Invocation, /, name: str, tenant: str | None, yes: bool) -> None:
    """Delete a trigger; the jobs it enqueued stay.

    \b
    headway triggers delete sync --yes
    """
    delete(cli, find(cli, "event", name, tenant), yes)


@triggers.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@pass_invocation
def enable(cli: Invocation, /, names: tuple[str, ...], tenant: str | None) -> None:
    """Let triggers fire again.

    \b
    headway triggers enable sync
    """
    verb = cli.existing.enable_trigger
    switch(cli, "event", names, tenant, verb, to=True, already="was enabled already", said=_said)


@triggers.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@pass_invocation
def disable(cli: Invocation, /, names: tuple[str, ...], tenant: str | None) -> None:
    """Stop triggers, including for pending events; events handled meanwhile are not made up for.

    \b
    headway triggers disable sync
    """
    verb = cli.existing.disable_trigger
    switch(cli, "event", names, tenant, verb, to=False, already="was disabled already", said=_said)


@triggers.command(kinds=True)
@click.argument("name")
@click.option(
    "--payload", type=Json(), metavar="JSON|@FILE|-", help="The payload of the event: JSON, @file, or - for stdin."
)
@tenant_option
@pass_invocation
def test(cli: Invocation, /, name: str, payload: Any, tenant: str | None) -> None:
    """Show which job a trigger would make from an event, or which signal; if none, why not, and exit with 1.

    Nothing is stored. The payload is validated as by an enqueue.

    \b
    headway triggers test sync --payload '{"folder": {"id": 7}}'
    headway events show ID --json | jq .payload | headway triggers test sync --payload -
    """
    trigger = find(cli, "event", name, tenant)
    app = cli.existing_with_kinds
    found = app.test_trigger(name, payload, tenant=UUID(trigger.tenant_id))
    _tell_rehearsal(cli, app, found, trigger.when, payload)
    if not cli.json and not trigger.enabled:
        note(f"the trigger is disabled, and fires for nothing: {cli.typed(*words(cli, 'enable', trigger))}")


def _tell_rehearsal(
    cli: Invocation, app: Headway, found: Rehearsal, conditions: Mapping[str, Any], payload: Any
) -> None:
    if cli.json:
        emit(found)
        if found.error is not None or not found.met:
            raise click.exceptions.Exit(FAILED)
        return
    if not found.met:
        raise Refused(f"the event does not meet the trigger: {_unmet(conditions, payload)}")
    if found.error is not None:
        raise Refused(f"it would {'make no job' if found.signal is None else 'send no signal'}: {found.error}")
    say(pretty(found.payload))
    if found.signal is not None:
        note(f"that is the data of signal {found.signal} to {found.to}; nothing was sent")
    else:
        note(f"that is the payload of a {found.kind} job, for queue {found.queue}; nothing was stored")
        _warn_of_schema(app, found)


def _warn_of_schema(app: Headway, found: Rehearsal) -> None:
    if found.kind not in [kind.name for kind in app.kinds] and not _has_schema(app, found.kind or ""):
        note("its kind has no stored schema: with --app MODULE:APP, the code's own checks are made too")


def _has_schema(app: Headway, kind: str) -> bool:
    stored = app.store.run(app.store.ops.definitions([kind]))
    return bool(stored) and stored[0].schema is not None


def _unmet(conditions: Mapping[str, Any], payload: Any) -> str:
    """The conditions that it does not meet."""
    from headway.model.render import look_up

    reasons = []
    for path, wanted in conditions.items():
        there, value = look_up({"event": payload}, path)
        allowed = wanted if isinstance(wanted, list) else [wanted]
        if not there or value not in allowed:
            is_ = f"is {brief(value)}" if there else "is not there"
            reasons.append(f"{path} {is_}, and must be {' or '.join(brief(each) for each in allowed)}")
    return "; ".join(reasons) or "its condition is not met"


@triggers.command()
@click.argument("name")
@tenant_option
@limit_option
@click.option("--before", metavar="ID", help="Continue after the page that ended with this fire.")
@pass_invocation
def fires(cli: Invocation, /, name: str, tenant: str | None, limit: int, before: str | None) -> None:
    """List what a trigger fired, newest first: the event, and the job it enqueued or signaled.

    undelivered: nobody was there to get its signal.
    deduped: an earlier event's job covers it. failed: the event can be retried with headway events retry.

    \b
    headway triggers fires sync --limit 10
    """
    list_fires(cli, find(cli, "event", name, tenant), tenant, limit=limit, before=before)


def _wanted(options: dict[str, Any], over: Mapping[str, Any] | None = None) -> dict[str, Any]:
    conditions = dict(options.pop("conditions"))
    wanted = options_of(taken_back(options, "dedupe_key"), over)
    return {**wanted, "when": conditions} if conditions else wanted


def _waits(trigger: Trigger) -> str:
    return f"{trigger.name}: {'waits for' if trigger.enabled else 'disabled; it would wait for'} {trigger.event}"


def _state(trigger: Trigger) -> str:
    return "enabled" if trigger.enabled else "disabled"


def _said(trigger: Trigger) -> str:
    return f"{trigger.name}: {_state(trigger)}"


def _window(trigger: Trigger) -> str:
    return span(trigger.dedupe_window_ms) if trigger.dedupe_window_ms and trigger.signal is None else ""


def _deduping(trigger: Trigger) -> str:
    key = trigger.dedupe_key
    if trigger.signal is not None:
        return "none: each event sends a signal" if key is None else f"a machine gets one signal for each {key}"
    window = _window(trigger)
    if not window:
        return "none: each event makes a job"
    return f"the same {key or 'payload'} makes one job in {window}"
