"""`headway webhooks`: endpoints that get events; add, list, rotate, test, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.cli.connectors.connectors import find, header_option, headers_of
from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import MOST, description_option, limit_option, tenant_option, yes_option
from headway.cli.program.output import Cell, Column, ago, emit, note, say, table
from headway.cli.program.params import Duration, Tenant
from headway.cli.triggers.trigger_rows import foreign

if TYPE_CHECKING:
    from headway.app.webhooks import WebhookKeys
    from headway.model.connector import Connector

_KIND = "connector.webhook.deliver"


@click.group(cls=Group, invoke_without_command=True, short_help="Send events to other services.")
@click.pass_context
def webhooks(ctx: click.Context) -> None:
    """Look at webhook endpoints and operate on them. Workers sign deliveries by HEADWAY_WEBHOOK_SECRET, which has to be
    set here, too, to show an endpoint's own secret.

    \b
    headway webhooks add https://shop.example/hook --events 'headway.job.dead,order.*'
    headway webhooks test shop.example
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@webhooks.command("list")
@click.option("--tenant", type=Tenant(), help="Only endpoints of this tenant. Default: of all.")
@limit_option
@pass_invocation
def list_(cli: Invocation, /, tenant: str | None, limit: int) -> None:
    """List the endpoints, oldest first.

    \b
    headway webhooks list
    """
    app = cli.existing
    shown = app.connectors(kind=_KIND, tenant=tenant, limit=min(limit, MOST))
    if cli.json:
        emit(shown)
        return
    if not shown:
        note(f"no webhook endpoints in {app.store.describe()}: headway webhooks add --help")
        return
    columns = [
        Column("NAME"),
        Column("TENANT", shrink=True, wide=foreign(cli, shown)),
        Column("ENABLED"),
        Column("CHANGED", right=True),
        Column("EVENTS", shrink=True),
        Column("URL", shrink=True),
    ]
    table(columns, [_row(each) for each in shown])


def _row(endpoint: Connector) -> list[Cell]:
    enabled = "yes" if endpoint.enabled else f"no: {endpoint.disabled_reason or 'somebody disabled it'}"
    return [
        endpoint.name,
        endpoint.tenant,
        enabled,
        ago(endpoint.updated_at),
        ", ".join(endpoint.events),
        endpoint.url,
    ]


@webhooks.command()
@click.argument("endpoint_url", metavar="URL")
@click.option("--events", required=True, metavar="EVENT,…", help="Names and patterns: order.*, headway.job.dead.")
@click.option("--name", help="Its name. Default: the URL's host.")
@header_option
@click.option("--ordered", is_flag=True, help="Deliver one after the other, in order.")
@click.option("--ed25519", is_flag=True, help="Sign by ed25519 (v1a), too.")
@click.option("--timeout", type=Duration(), help="How long a delivery may take. Default: 20s.")
@description_option
@tenant_option
@pass_invocation
def add(
    cli: Invocation,
    /,
    endpoint_url: str,
    events: str,
    name: str | None,
    headers: tuple[tuple[str, Any], ...],
    ordered: bool,
    ed25519: bool,
    timeout: str | None,
    description: str | None,
    tenant: str | None,
) -> None:
    """Deliver these events to this URL from now on, and print the secret that the receiver verifies by, once.

    \b
    headway webhooks add https://shop.example/hook --events 'headway.job.dead,order.*'
    """
    options: dict[str, Any] = {"ordered": True} if ordered else {}
    if ed25519:
        options["signatures"] = ["v1", "v1a"]
    if timeout is not None:
        options["timeout"] = timeout
    wanted = [each.strip() for each in events.split(",") if each.strip()]
    if not wanted:
        raise Refused("--events names no event: give some, such as order.* or headway.job.dead", WRONG)
    made = cli.app.add_webhook(
        endpoint_url,
        wanted,
        name=name,
        headers=headers_of(headers, None),
        options=options,
        description=description,
        tenant=tenant,
        actor=actor(),
    )
    _show_keys(cli, made)


@webhooks.command()
@click.argument("name")
@click.option(
    "--overlap",
    type=Duration(),
    default="1d",
    show_default=True,
    help="For how long deliveries are signed by the old secret, too.",
)
@tenant_option
@pass_invocation
def rotate(cli: Invocation, /, name: str, overlap: str, tenant: str | None) -> None:
    """Give an endpoint a new secret, and print it once.

    \b
    headway webhooks rotate shop.example --overlap 2d
    """
    found = find(cli, name, tenant)
    _show_keys(cli, cli.existing.rotate_webhook(UUID(found.id), overlap=overlap, actor=actor()))


@webhooks.command(kinds=True)
@click.argument("name")
@tenant_option
@pass_invocation
def test(cli: Invocation, /, name: str, tenant: str | None) -> None:
    """Enqueue a delivery of the event headway.webhook.test, and print its job.

    \b
    headway webhooks test shop.example
    """
    found = find(cli, name, tenant)
    made = cli.existing_with_kinds.test_webhook(UUID(found.id), actor=actor())
    if cli.json:
        emit(made)
    else:
        click.echo(made.id)


@webhooks.command()
@click.argument("name")
@tenant_option
@yes_option
@pass_invocation
def remove(cli: Invocation, /, name: str, tenant: str | None, yes: bool) -> None:
    """Delete an endpoint and its triggers; deliveries that wait are canceled when they run.

    \b
    headway webhooks remove shop.example --yes
    """
    found = find(cli, name, tenant)
    if found.kind != _KIND:
        raise Refused(f"{found.name} is no webhook endpoint, but a connector for {found.kind}")
    if not yes:
        confirm(f"remove webhook endpoint {found.name} of tenant {found.tenant}")
    cli.existing.delete_connector(UUID(found.id), actor=actor())
    if cli.json:
        emit({"removed": found.name, "id": found.id, "tenant": found.tenant})
    else:
        say(f"{found.name}: removed")


def _show_keys(cli: Invocation, made: WebhookKeys) -> None:
    if cli.json:
        emit(made)
        return
    say(f"{made.endpoint.name}: {made.endpoint.url} gets {', '.join(made.endpoint.events)}")
    click.echo(f"secret      {made.secret}")
    if "v1a" in made.endpoint.options.get("signatures", ()):
        click.echo(f"public key  {made.public_key}")
    note("the secret is shown only now: give it to the receiver, which verifies by it")
