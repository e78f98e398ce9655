"""What schedules and triggers have in common here: found by name, what they enqueue, and what they fired."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from headway.cli.program.confirm import confirm
from headway.cli.program.failure import Refused
from headway.cli.program.invocation import Invocation, actor
from headway.cli.program.output import Cell, Column, ago, emit, first_line, local, merged, note, say, status, table
from headway.cli.program.page_parts import brief
from headway.cli.program.params import JsonObject, Pair, Tenant, as_flags

if TYPE_CHECKING:
    from datetime import tzinfo

    from headway.app import Headway
    from headway.model.template import Template
    from headway.model.trigger import Fire, Trigger, TriggerType

F = TypeVar("F", bound=Callable[..., Any])

MOST = 10_000
_TEXTS = (
    *("queue", "train", "partition", "concurrency_key", "rate_key"),
    *("idempotency_key", "unique_key", "correlation_id", "trace_id"),
)
_NOUNS = {"schedule": "schedules", "event": "triggers"}

tenant_option = click.option("--tenant", type=Tenant(), help="Whose it is. Default: the tenant of the settings.")
limit_option = click.option(
    "--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="How many at most."
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
payload_option = click.option(
    "--payload", type=JsonObject(), metavar="JSON|@FILE|-", help="The arguments: a JSON object, @file, or - for stdin."
)
_option = click.option(
    "--option",
    "pairs",
    type=Pair(*_TEXTS),
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of its jobs, as in headway enqueue: queue=mail, timeout=30s, max_attempts=3; repeatable.",
)
_options = click.option("--options", type=JsonObject(), metavar="JSON|@FILE", help="All options, as one JSON object.")
description_option = click.option("--description", help="What it is for, for people.")


def job_options(fn: F) -> F:
    """Add --payload, --option, --options and --description."""
    for option in (description_option, _options, _option, payload_option):
        fn = option(fn)
    return fn


def run_options(fn: F) -> F:
    """Add --payload and --option."""
    return payload_option(_option(fn))


def options_of(given: dict[str, Any], over: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What was given, with --option and --options made one: single ones go over `over`, the whole replaces it."""
    from headway.secrets import REDACTED

    pairs, whole = dict(given.pop("pairs", ())), given.pop("options", None)
    if pairs and whole is None and REDACTED in brief(over or {}):
        # what was read for people must not be written back
        raise Refused("it has an option that is not shown: give all of them anew, with --options")
    if pairs or whole is not None:
        given["options"] = {**(over or {} if whole is None else whole), **pairs}
    return given


def find(cli: Invocation, type_: TriggerType, name: str, tenant: str | None) -> Trigger:
    """The one of this name; raises `Refused` with the command that means the one of another tenant."""
    from headway.errors import NotFound

    app = cli.existing
    try:
        return app.get_schedule(name, tenant=tenant) if type_ == "schedule" else app.get_trigger(name, tenant=tenant)
    except NotFound as error:
        ops = app.store.ops
        namesakes = app.store.run(ops.triggers(tenant_id=None, type=type_, name=name, event=None, limit=1, after=None))
        if not namesakes:
            raise
        typed = cli.typed(*words(cli, "show", namesakes[0]))
        raise Refused(f"{str(error).partition(':')[0]}; tenant {namesakes[0].tenant} has: {typed}") from None


def words(cli: Invocation, verb: str, rule: Trigger) -> list[str]:
    """The words of a command about it."""
    return [_NOUNS[rule.type], verb, rule.name, *([] if rule.tenant == cli.tenant else ["--tenant", rule.tenant])]


def switch(
    cli: Invocation,
    type_: TriggerType,
    names: tuple[str, ...],
    tenant: str | None,
    verb: Callable[..., Trigger],
    *,
    to: bool,
    already: str,
    said: Callable[[Trigger], str],
) -> None:
    """Enable or disable them by this verb; one that is so already is left alone."""
    found = [find(cli, type_, name, tenant) for name in names]  # all are known, or none is touched
    switched = []
    for before in found:
        stays = before.enabled == to
        after = before if stays else verb(before.name, tenant=UUID(before.tenant_id), actor=actor())
        switched.append(after)
        if not cli.json:
            say(f"{after.name}: {already}" if stays else said(after))
    if cli.json:
        emit(switched)


def delete(cli: Invocation, rule: Trigger, yes: bool) -> None:
    """Delete it, if that is meant."""
    noun = "schedule" if rule.type == "schedule" else "trigger"
    app = cli.existing
    if not yes:
        confirm(f"delete {noun} {rule.name} of tenant {rule.tenant}")
    if rule.type == "schedule":
        app.delete_schedule(rule.name, tenant=UUID(rule.tenant_id), actor=actor())
    else:
        app.delete_trigger(rule.name, tenant=UUID(rule.tenant_id), actor=actor())
    if cli.json:
        emit({"deleted": rule.name, "id": rule.id, "tenant": rule.tenant})
        return
    say(f"{rule.name}: deleted; its jobs stay")
    if rule.origin == "code":
        pause = cli.typed(*words(cli, "pause", rule))
        note(f"the code declares it: it comes back when a worker of that code starts (to stop it: {pause})")


def warn_of_kind(app: Headway, kind: str | None) -> None:
    """Say if nothing is known of this kind yet, or if its jobs are refused."""
    if kind is None:
        return
    found = app.store.run(app.store.ops.definitions([kind]))
    if not found:
        note(f'no worker has declared a kind "{kind}" yet: its payload is not checked')
    elif not found[0].active:
        note(f'kind "{kind}" is not active, and its jobs are refused: headway definitions activate {kind}')


# what they point at


def with_id(app: Headway, type_: TriggerType, trigger_id: str, tenant: str) -> Trigger | None:
    """A schedule or trigger by its id, if it is there still; `tenant` is its tenant's id."""
    ops = app.store.ops
    page = ops.triggers(tenant_id=tenant, type=type_, name=None, event=None, limit=1, after=_before(trigger_id))
    return next((rule for rule in app.store.run(page) if rule.id == trigger_id), None)


def template_with_id(app: Headway, template_id: str, tenant: str) -> Template | None:
    """A template by its id, if it is there still; `tenant` is its tenant's id."""
    page = app.store.ops.templates(None, tenant_id=tenant, name=None, limit=1, after=_before(template_id))
    return next((template for template in app.store.run(page) if template.id == template_id), None)


def _before(ident: str) -> str:
    """The id that a page continues after so that it begins with this one."""
    return str(UUID(int=UUID(ident).int - 1))


def template_names(app: Headway, rules: Collection[Trigger]) -> dict[str, str]:
    """The names of the templates that these point at, by id."""
    wanted = {rule.template_id: rule.tenant_id for rule in rules if rule.template_id is not None}
    found = [template_with_id(app, template_id, tenant) for template_id, tenant in wanted.items()]
    return {template.id: template.name for template in found if template is not None}


def target(rule: Trigger, names: Mapping[str, str]) -> str:
    """What it enqueues: `report`, or `template nightly`."""
    if rule.kind is not None:
        return rule.kind
    return f"template {names.get(rule.template_id or '', '(gone)')}"


def foreign(cli: Invocation, rules: Sequence[Trigger | Template]) -> int:
    """How wide a terminal must be for the column of tenants: any, where one is not the usual one."""
    # one of another tenant can only be operated on by naming that tenant
    return 0 if any(rule.tenant != cli.tenant for rule in rules) else 140


def next_page(cli: Invocation, noun: str, verb: str, flags: Mapping[str, Any], *last: str) -> None:
    """Say how the list goes on."""
    given = as_flags({name: value for name, value in flags.items() if (name, value) != ("limit", 50)})
    note(f"next page: {cli.typed(noun, verb, *given, *last)}")


# what they fired


def job_statuses(app: Headway, found: Sequence[Fire]) -> dict[str, str]:
    """How the jobs of these fires are now; one that was pruned is missing."""
    ids = [fire.job_id for fire in found if fire.job_id is not None]
    outcomes = app.store.run(app.store.ops.results(ids, tenant_id=None)) if ids else {}
    return {job_id: outcome.status for job_id, outcome in outcomes.items()}


def fires_as_json(app: Headway, found: Sequence[Fire]) -> list[dict[str, Any]]:
    statuses = job_statuses(app, found)
    return [merged(fire, job_status=statuses.get(fire.job_id or "")) for fire in found]


def fires_table(
    app: Headway, found: Sequence[Fire], *, zone: tzinfo | None = None, triggers: Mapping[str, str] | None = None
) -> None:
    """Fires, newest first: in a schedule's zone with their nominal times, or with the names of their triggers."""
    statuses = job_statuses(app, found)
    about = Column("EVENT", wide=110) if triggers is None else Column("TRIGGER", shrink=True)
    columns = [
        Column("FIRED", right=True),
        about if zone is None else Column("NOMINAL", wide=90),
        Column("FIRE"),
        Column("JOB"),
        Column("JOB STATUS", wide=110),
        Column("ERROR", shrink=True, spare=True),
    ]
    table(columns, [_fire(fire, zone, triggers, statuses) for fire in found])


def _fire(
    fire: Fire, zone: tzinfo | None, triggers: Mapping[str, str] | None, statuses: Mapping[str, str]
) -> list[Cell]:
    if zone is not None:
        about = "by hand" if fire.nominal_at is None else local(fire.nominal_at, zone)
    else:
        about = fire.event_id or "–" if triggers is None else triggers.get(fire.trigger_id, "(gone)")
    gone = "–" if fire.job_id is None else "(pruned)"
    return [
        ago(fire.fired_at),
        about,
        status(fire.status),
        fire.job_id or "–",
        status(statuses.get(fire.job_id or "", gone)),
        (first_line(fire.error), "red"),
    ]
