"""`headway templates`: a kind, a payload and options under a name; list, show, create, change, run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import (
    MOST,
    job_options,
    limit_option,
    options_of,
    run_options,
    tenant_option,
    yes_option,
)
from headway.cli.program.output import Cell, Column, ago, at, emit, merged, note, say, table
from headway.cli.program.page_parts import blocks, brief, title, values
from headway.cli.program.params import Tenant, given
from headway.cli.triggers.trigger_rows import foreign, next_page, warn_of_kind

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.template import Template

_CELL = 500


@click.group(cls=Group, invoke_without_command=True, short_help="Keep jobs to run again under a name.")
@click.pass_context
def templates(ctx: click.Context) -> None:
    """Look at templates and operate on them: a kind, a payload and options under a name.

    \b
    headway templates create weekly --kind report --payload '{"days": 7}' --option queue=slow
    headway templates run weekly --payload '{"days": 14}'
    headway schedules create weekly --cron @weekly --template weekly
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@templates.command("list")
@click.option("--tenant", type=Tenant(), help="Only templates of this tenant. Default: of all.")
@limit_option
@click.option("--after", metavar="ID", help="Continue after the page that ended with this template.")
@pass_invocation
def list_(cli: Invocation, /, tenant: str | None, limit: int, after: str | None) -> None:
    """List the templates, oldest first.

    \b
    headway templates list
    """
    app = cli.existing
    found = app.templates(tenant=tenant, limit=min(limit + 1, MOST), after=after)
    shown = found[:limit]
    if cli.json:
        emit(shown)
        return
    if not shown:
        note(f"no templates in {app.store.describe()}: headway templates create --help")
        return
    columns = [
        Column("NAME"),
        Column("TENANT", shrink=True, wide=foreign(cli, shown)),
        Column("KIND", shrink=True),
        Column("REVISION", right=True, wide=90),
        Column("CHANGED", right=True),
        Column("PAYLOAD", shrink=True),
        Column("FOR", shrink=True, wide=110, spare=True),
    ]
    table(columns, [_row(template) for template in shown])
    if len(found) > limit:
        next_page(cli, "templates", "list", {"tenant": tenant, "limit": limit}, "--after", shown[-1].id)


def _row(template: Template) -> list[Cell]:
    return [
        template.name,
        template.tenant,
        template.kind,
        str(template.revision),
        ago(template.updated_at),
        brief(template.payload)[:_CELL],
        template.description,
    ]


@templates.command()
@click.argument("name")
@tenant_option
@pass_invocation
def show(cli: Invocation, /, name: str, tenant: str | None) -> None:
    """Show everything about one template, and which schedules and triggers use it.

    \b
    headway templates show weekly
    """
    app = cli.existing
    template = _find(cli, name, tenant)
    users = _users(app, template)
    if cli.json:
        emit(merged(template, used_by=users))
        return
    by = f" by {template.created_by}" if template.created_by else ""
    title(template.name, template.kind, template.id)
    values(
        [
            ("for", template.description),
            ("tenant", template.tenant if template.tenant != "default" else None),
            ("made", f"{at(template.created_at)}{by}"),
            ("changed", f"{at(template.updated_at)}, revision {template.revision}" if template.revision > 1 else None),
            ("used by", ", ".join(f"{user['type']} {user['name']}" for user in users) or "no schedule, no trigger"),
        ]
    )
    blocks({"payload": template.payload, "options": template.options})


@templates.command()
@click.argument("name")
@click.option("--kind", required=True, help="The kind of its jobs.")
@job_options
@tenant_option
@pass_invocation
def create(cli: Invocation, /, name: str, kind: str, tenant: str | None, **options: Any) -> None:
    """Create a template. Its payload may be incomplete: it is validated when a job is made from it.

    \b
    headway templates create weekly --kind report --payload '{"days": 7}' --option queue=slow --option timeout=10m
    headway templates create weekly --kind report --payload @weekly.json
    """
    app = cli.app
    made = app.create_template(name, kind, tenant=tenant, actor=actor(), **options_of(given(options)))
    _answer(cli, made)
    if not cli.json:
        warn_of_kind(app, kind)


@templates.command()
@click.argument("name")
@click.option("--new-name", metavar="NAME", help="Another name.")
@click.option("--kind", help="Another kind.")
@job_options
@tenant_option
@pass_invocation
def change(cli: Invocation, /, name: str, tenant: str | None, **options: Any) -> None:
    """Change a template; what is not given stays, and so do the jobs made from it before.

    --option overrides single options, --options and --payload replace all.

    \b
    headway templates change weekly --payload '{"days": 7, "format": "csv"}'
    headway templates change weekly --option priority=10
    """
    template = _find(cli, name, tenant)
    changes = options_of(given(options), template.options)
    if not changes:
        raise Refused("there is nothing to change: give some of --new-name --kind --payload --option …", WRONG)
    changed = cli.app.change_template(name, tenant=UUID(template.tenant_id), actor=actor(), **changes)
    _answer(cli, changed)
    if not cli.json and "kind" in changes:
        warn_of_kind(cli.existing, changed.kind)


@templates.command()
@click.argument("name")
@tenant_option
@yes_option
@pass_invocation
def delete(cli: Invocation, /, name: str, tenant: str | None, yes: bool) -> None:
    """Delete a template that nothing uses; the jobs made from it stay.

    \b
    headway templates delete weekly --yes
    """
    template = _find(cli, name, tenant)
    users = _users(cli.existing, template)
    if users:
        # before asking: the store would refuse it anyway
        named = ", ".join(f"{user['type']} {user['name']}" for user in users)
        raise Refused(f"{name} is used by {named}: delete those first, or change what they enqueue")
    if not yes:
        confirm(f"delete template {name} of tenant {template.tenant}")
    cli.existing.delete_template(name, tenant=UUID(template.tenant_id), actor=actor())
    if cli.json:
        emit({"deleted": name, "id": template.id, "tenant": template.tenant})
    else:
        say(f"{name}: deleted; its jobs stay")


@templates.command(kinds=True)
@click.argument("name")
@run_options
@tenant_option
@pass_invocation
def run(cli: Invocation, /, name: str, tenant: str | None, **options: Any) -> None:
    """Enqueue a job from a template and print its id; what is given overrides the template's own.

    \b
    headway templates run weekly
    headway templates run weekly --payload '{"days": 14}' --option delay=5m
    """
    template = _find(cli, name, tenant)
    payload = options.pop("payload")
    wanted: Any = {"created_by": actor(), "tenant": UUID(template.tenant_id), **options_of(options).get("options", {})}
    made = cli.existing_with_kinds.run_template(name, payload, **wanted)
    if cli.json:
        emit(made)
        return
    click.echo(made.id)
    if not made.created:
        note(f"this job exists already, and is {made.status}: nothing new was enqueued")


def _find(cli: Invocation, name: str, tenant: str | None) -> Template:
    from headway.errors import NotFound

    app = cli.existing
    try:
        return app.get_template(name, tenant=tenant)
    except NotFound as error:
        namesakes = app.store.run(app.store.ops.templates(None, tenant_id=None, name=name, limit=1, after=None))
        if not namesakes:
            raise
        whose = namesakes[0].tenant
        typed = cli.typed("templates", "show", name, "--tenant", whose)
        raise Refused(f"{str(error).partition(':')[0]}; tenant {whose} has: {typed}") from None


def _users(app: Headway, template: Template) -> list[dict[str, str]]:
    """The schedules and triggers that use it."""
    ops = app.store.ops
    page = ops.triggers(tenant_id=template.tenant_id, type=None, name=None, events=None, limit=MOST, after=None)
    return [
        {"type": "schedule" if rule.type == "schedule" else "trigger", "name": rule.name}
        for rule in app.store.run(page)
        if rule.template_id == template.id
    ]


def _answer(cli: Invocation, template: Template) -> None:
    if cli.json:
        emit(template)
    else:
        say(f"{template.name}: {template.kind}, revision {template.revision}")
