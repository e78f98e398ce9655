"""`headway connectors`: where connectors send requests and what they carry; list, show, create, change, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import MOST, description_option, limit_option, tenant_option, yes_option
from headway.cli.program.output import Cell, Column, ago, at, emit, note, say, table
from headway.cli.program.page_parts import blocks, title, values
from headway.cli.program.params import JsonObject, Pair, Tenant, given
from headway.cli.triggers.trigger_rows import foreign, next_page
from headway.model.ids import is_id

if TYPE_CHECKING:
    from headway.model.connector import Connector

header_option = click.option(
    "--header",
    "headers",
    type=Pair(),
    multiple=True,
    metavar="NAME=VALUE",
    help='A header of every request; a secret is a reference: X-Key={"$secret": "SHOP_KEY"}. Repeatable.',
)
bearer_option = click.option(
    "--bearer", metavar="VARIABLE", help="Send Authorization: Bearer with this variable of the worker's environment."
)
_option = click.option(
    "--option",
    "options",
    type=Pair(),
    multiple=True,
    metavar="NAME=VALUE",
    help="timeout=10s, max_response=65536, redirects=3 or expect=[404]; repeatable.",
)


@click.group(cls=Group, invoke_without_command=True, short_help="Name the services that jobs call.")
@click.pass_context
def connectors(ctx: click.Context) -> None:
    """Look at connectors' configurations and change them: a base URL, headers and limits under a name.

    \b
    headway connectors create shop https://api.shop.example --bearer SHOP_TOKEN
    headway enqueue connector.http.request '{"config": "shop", "path": "/v1/orders"}'
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@connectors.command("list")
@click.option("--kind", help="Only those of this connector, such as connector.webhook.deliver.")
@click.option("--tenant", type=Tenant(), help="Only those of this tenant. Default: of all.")
@limit_option
@click.option("--after", metavar="ID", help="Continue after the page that ended with this one.")
@pass_invocation
def list_(cli: Invocation, /, kind: str | None, tenant: str | None, limit: int, after: str | None) -> None:
    """List the configurations, oldest first.

    \b
    headway connectors list
    """
    app = cli.existing
    found = app.connectors(kind=kind, tenant=tenant, limit=min(limit + 1, MOST), after=after)
    shown = found[:limit]
    if cli.json:
        emit(shown)
        return
    if not shown:
        note(f"no connectors in {app.store.describe()}: headway connectors create --help")
        return
    columns = [
        Column("NAME"),
        Column("TENANT", shrink=True, wide=foreign(cli, shown)),
        Column("KIND", shrink=True),
        Column("ENABLED"),
        Column("CHANGED", right=True),
        Column("URL", shrink=True),
        Column("FOR", shrink=True, wide=110, spare=True),
    ]
    table(columns, [_row(each) for each in shown])
    if len(found) > limit:
        filters = {"kind": kind, "tenant": tenant, "limit": limit}
        next_page(cli, "connectors", "list", filters, "--after", shown[-1].id)


def _row(connector: Connector) -> list[Cell]:
    return [
        connector.name,
        connector.tenant,
        connector.kind,
        "yes" if connector.enabled else "no",
        ago(connector.updated_at),
        connector.url,
        connector.description,
    ]


@connectors.command()
@click.argument("name")
@tenant_option
@pass_invocation
def show(cli: Invocation, /, name: str, tenant: str | None) -> None:
    """Show everything about one configuration; it holds no secret, only the names of secrets.

    \b
    headway connectors show shop
    """
    found = find(cli, name, tenant)
    if cli.json:
        emit(found)
        return
    by = f" by {found.created_by}" if found.created_by else ""
    title(found.name, found.kind, found.id)
    values(
        [
            ("for", found.description),
            ("url", found.url),
            ("enabled", "yes" if found.enabled else f"no: {found.disabled_reason or 'somebody disabled it'}"),
            ("tenant", found.tenant if found.tenant != "default" else None),
            ("made", f"{at(found.created_at)}{by}"),
            ("changed", f"{at(found.updated_at)}, revision {found.revision}" if found.revision > 1 else None),
            ("events", ", ".join(found.events)),
        ]
    )
    blocks({"headers": found.headers, "options": found.options})


@connectors.command()
@click.argument("name")
@click.argument("base_url", metavar="URL")
@header_option
@bearer_option
@_option
@description_option
@tenant_option
@pass_invocation
def create(
    cli: Invocation,
    /,
    name: str,
    base_url: str,
    headers: tuple[tuple[str, Any], ...],
    bearer: str | None,
    options: tuple[tuple[str, Any], ...],
    description: str | None,
    tenant: str | None,
) -> None:
    """Store where connector.http.request sends requests, under a name.

    A secret is never stored: name a variable of the worker's environment, which its headway.toml gives to
    connector.http.request for this host.

    \b
    headway connectors create shop https://api.shop.example/v1 --bearer SHOP_TOKEN --option timeout=10s
    headway connectors create shop https://shop.example --header 'X-Key={"$secret": "SHOP_KEY"}'
    """
    made = cli.app.create_connector(
        name,
        base_url,
        headers=headers_of(headers, bearer),
        options=dict(options),
        description=description,
        tenant=tenant,
        actor=actor(),
    )
    _answer(cli, made)


@connectors.command()
@click.argument("name")
@click.option("--new-name", metavar="NAME", help="Another name.")
@click.option("--base-url", metavar="URL", help="Another URL.")
@header_option
@bearer_option
@click.option("--headers", "all_headers", type=JsonObject(), metavar="JSON|@FILE", help="All headers, as one object.")
@_option
@click.option("--options", "all_options", type=JsonObject(), metavar="JSON|@FILE", help="All options, as one object.")
@description_option
@click.option("--enable/--disable", "enabled", default=None, help="Send requests, or none.")
@tenant_option
@pass_invocation
def change(cli: Invocation, /, name: str, tenant: str | None, **options: Any) -> None:
    """Change a configuration; what is not given stays. Requests that are under way go on as they were.

    --header and --option override single ones, --headers and --options replace all.

    \b
    headway connectors change shop --base-url https://api2.shop.example
    headway connectors change shop --disable
    """
    found = find(cli, name, tenant)
    headers = headers_of(options.pop("headers"), options.pop("bearer"))
    pairs = dict(options.pop("options"))
    whole, all_options = options.pop("all_headers"), options.pop("all_options")
    changes = given(options)
    if "base_url" in changes:
        changes["url"] = changes.pop("base_url")
    if headers or whole is not None:
        changes["headers"] = {**(found.headers if whole is None else whole), **headers}
    if pairs or all_options is not None:
        changes["options"] = {**(found.options if all_options is None else all_options), **pairs}
    if not changes:
        raise Refused("there is nothing to change: give some of --base-url --header --option --disable …", WRONG)
    _answer(cli, cli.app.change_connector(UUID(found.id), actor=actor(), **changes))


@connectors.command()
@click.argument("name")
@tenant_option
@yes_option
@pass_invocation
def delete(cli: Invocation, /, name: str, tenant: str | None, yes: bool) -> None:
    """Delete a configuration; jobs that name it end dead.

    \b
    headway connectors delete shop --yes
    """
    found = find(cli, name, tenant)
    if not yes:
        confirm(f"delete connector {name} of tenant {found.tenant}")
    cli.existing.delete_connector(UUID(found.id), actor=actor())
    if cli.json:
        emit({"deleted": found.name, "id": found.id, "tenant": found.tenant})
    else:
        say(f"{found.name}: deleted")


def headers_of(pairs: tuple[tuple[str, Any], ...], bearer: str | None) -> dict[str, Any]:
    """The headers of --header and --bearer; a number is text."""
    headers = {name: value if isinstance(value, str | list | dict) else str(value) for name, value in pairs}
    if bearer is not None:
        headers["Authorization"] = ["Bearer ", {"$secret": bearer}]
    return headers


def find(cli: Invocation, name: str, tenant: str | None) -> Connector:
    """By its name or its id."""
    return cli.existing.get_connector(UUID(name) if is_id(name) else name, tenant=tenant)


def _answer(cli: Invocation, connector: Connector) -> None:
    if cli.json:
        emit(connector)
    else:
        say(f"{connector.name}: {connector.url}, revision {connector.revision}")
