"""What the commands of schedules and of triggers share: find by name, switch, delete, and show what they enqueue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from headway.cli.program.confirm import confirm
from headway.cli.program.failure import Refused
from headway.cli.program.invocation import Invocation, actor
from headway.cli.program.output import emit, note, say
from headway.cli.program.params import as_flags
from headway.shell import command

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.connector import Connector
    from headway.model.template import Template
    from headway.model.trigger import Trigger, TriggerType

NOUNS = {"schedule": "schedules", "event": "triggers"}


def find(cli: Invocation, type_: TriggerType, name: str, tenant: str | None) -> Trigger:
    """The one with this name; raises `Refused`, with the right command if another tenant has one."""
    from headway.errors import NotFound

    app = cli.existing
    try:
        return app.get_schedule(name, tenant=tenant) if type_ == "schedule" else app.get_trigger(name, tenant=tenant)
    except NotFound as error:
        ops = app.store.ops
        namesakes = app.store.run(ops.triggers(tenant_id=None, type=type_, name=name, events=None, limit=1, after=None))
        if not namesakes:
            raise
        typed = cli.typed(*words(cli, "show", namesakes[0]))
        raise Refused(f"{str(error).partition(':')[0]}; tenant {namesakes[0].tenant} has: {typed}") from None


def words(cli: Invocation, verb: str, rule: Trigger) -> list[str]:
    """The words of a command about it."""
    return [NOUNS[rule.type], verb, rule.name, *([] if rule.tenant == cli.tenant else ["--tenant", rule.tenant])]


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
    """Enable or disable them with this verb, unless they are already."""
    found = [find(cli, type_, name, tenant) for name in names]  # check all before changing any
    switched = []
    for before in found:
        stays = before.enabled == to
        after = before if stays else verb(before.name, tenant=UUID(before.tenant_id), actor=actor())
        switched.append(after)
        if not cli.json:
            say(f"{after.name}: {already}" if stays else said(after))
    if cli.json:
        emit(switched)


def answer(cli: Invocation, rule: Trigger, said: str) -> None:
    """Print it, as JSON or in these words."""
    if cli.json:
        emit(rule)
    else:
        say(said)


def delete(cli: Invocation, rule: Trigger, yes: bool) -> None:
    """Delete it, after confirmation."""
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
    """Say so if this kind is unknown, or its jobs are refused."""
    if kind is None:
        return
    found = app.store.run(app.store.ops.definitions([kind]))
    if not found:
        note(f'no worker has declared a kind "{kind}" yet: its payload is not checked')
    elif not found[0].active:
        note(f'kind "{kind}" is not active, and its jobs are refused: {command("definitions activate", kind)}')


# what they enqueue


def with_id(app: Headway, type_: TriggerType, trigger_id: str, tenant: str) -> Trigger | None:
    """A schedule or trigger by its id, if it still exists; `tenant` is its tenant's id."""
    ops = app.store.ops
    page = ops.triggers(tenant_id=tenant, type=type_, name=None, events=None, limit=1, after=_before(trigger_id))
    return next((rule for rule in app.store.run(page) if rule.id == trigger_id), None)


def template_with_id(app: Headway, template_id: str, tenant: str) -> Template | None:
    """A template by its id, if it still exists; `tenant` is its tenant's id."""
    page = app.store.ops.templates(None, tenant_id=tenant, name=None, limit=1, after=_before(template_id))
    return next((template for template in app.store.run(page) if template.id == template_id), None)


def _before(ident: str) -> str:
    """The id just below this one: a page after it begins with this one."""
    return str(UUID(int=UUID(ident).int - 1))


def template_names(app: Headway, rules: Collection[Trigger]) -> dict[str, str]:
    """The names of the templates that these use, by id."""
    wanted = {rule.template_id: rule.tenant_id for rule in rules if rule.template_id is not None}
    found = [template_with_id(app, template_id, tenant) for template_id, tenant in wanted.items()]
    return {template.id: template.name for template in found if template is not None}


def target(rule: Trigger, names: Mapping[str, str]) -> str:
    """What it enqueues or sends: `report`, `template nightly`, or `signal payment to checkout:{{event.order}}`."""
    if rule.signal is not None:
        return f"signal {rule.signal} to {rule.signal_to}"
    if rule.kind is not None:
        return rule.kind
    return f"template {names.get(rule.template_id or '', '(gone)')}"


def foreign(cli: Invocation, rules: Sequence[Trigger | Template | Connector]) -> int:
    """How wide a terminal must be to show the tenants: any width if one is not the default."""
    # commands on another tenant's row must name that tenant
    return 0 if any(rule.tenant != cli.tenant for rule in rules) else 140


def next_page(cli: Invocation, noun: str, verb: str, flags: Mapping[str, Any], *last: str) -> None:
    """Print the command for the next page."""
    given = as_flags({name: value for name, value in flags.items() if (name, value) != ("limit", 50)})
    note(f"next page: {cli.typed(noun, verb, *given, *last)}")
