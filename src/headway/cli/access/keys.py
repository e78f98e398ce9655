"""`headway keys`: make, list and revoke the keys of the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from headway.cli.program.click_classes import Group
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Cell, Column, ago, emit, merged, note, say, table
from headway.cli.program.params import Tenant
from headway.model.access import ROLES

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.access import ApiKey


@click.group(cls=Group, invoke_without_command=True, short_help="Make, list and revoke keys of the HTTP API.")
@click.pass_context
def keys(ctx: click.Context) -> None:
    """Make, list and revoke the keys that open the HTTP API.

    \b
    headway keys create shop --role producer
    headway keys list
    headway keys revoke 4fXk02LmQz9a
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@keys.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What the key may do.")
@click.option("--tenant", type=Tenant(), help="The tenant of the key; a superadmin's has none.  [default: default]")
@click.option("--queue", "queues", multiple=True, help="Only this queue; repeatable.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind; repeatable.")
@click.option("--expires", metavar="DURATION", help="How long it is valid: 90d.  [default: until it is revoked]")
@click.option("--test", is_flag=True, help="Make a test key, which begins with hw_test_.")
@pass_invocation
def create(cli: Invocation, /, name: str, tenant: Any, test: bool, **options: Any) -> None:
    """Make a key and print it. It is shown only now: Headway keeps a hash.

    The key is on standard output, everything else on standard error.

    \b
    headway keys create shop --role producer
    headway keys create mailer --role worker --queue mail
    headway keys create ops --role superadmin --expires 90d
    """
    made = cli.app.create_api_key(name, tenant=tenant, mode="test" if test else "live", actor=actor(), **options)
    if cli.json:
        emit({"text": made.text, **merged(made.key)})
        return
    note(f"key {made.key.id} ({name}), {made.key.role}: store it now, it is not shown again")
    say(made.text)


@keys.command("list")
@click.option("--tenant", type=Tenant(), help="Only the keys of this tenant.")
@pass_invocation
def list_(cli: Invocation, tenant: Any = None) -> None:
    """List keys, without their secrets; revoked and expired ones too.

    \b
    headway keys list --tenant acme
    """
    app = cli.existing
    found = app.api_keys(tenant=tenant)
    if cli.json:
        emit(found)
    elif not found:
        note(f"no keys yet in {app.store.describe()}: headway keys create NAME --role ROLE")
    else:
        table(_COLUMNS, _rows(app, found))


@keys.command()
@click.argument("key_id", metavar="ID")
@pass_invocation
def show(cli: Invocation, key_id: str) -> None:
    """Show a key, without its secret: what it may do, who made it, when it was last used.

    \b
    headway keys show 4fXk02LmQz9a
    """
    key = cli.existing.api_key(key_id)
    if cli.json:
        emit(key)
        return
    for name, value in to_builtins(key).items():
        shown = ", ".join(value) if isinstance(value, list | tuple) else value
        say(f"{name.replace('_', ' '):<14}{'–' if shown in (None, '') else shown}")


_COLUMNS = (
    Column("ID"),
    Column("NAME", shrink=True),
    Column("ROLE"),
    Column("TENANT", shrink=True),
    Column("ONLY", shrink=True, wide=110),
    Column("LAST USED", right=True),
    Column("STATE"),
)


def _rows(app: Headway, found: list[ApiKey]) -> list[list[Cell]]:
    from headway.clock import from_micros

    now = from_micros(app.clock.now())
    names = app.store.run(app.store.ops.tenants([key.tenant_id for key in found if key.tenant_id is not None]))
    return [
        [
            key.id,
            key.name,
            key.role,
            "all" if key.tenant_id is None else names.get(key.tenant_id, key.tenant_id),
            ", ".join((*(f"queue {each}" for each in key.queues), *(f"kind {each}" for each in key.kinds))) or "–",
            "never" if key.last_used_at is None else ago(key.last_used_at),
            "valid" if key.is_valid(now) else ("revoked" if key.revoked_at else "expired", "red"),
        ]
        for key in found
    ]


@keys.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--with-made", is_flag=True, help="Also the keys that it made; and disable the triggers of all of these.")
@pass_invocation
def revoke(cli: Invocation, /, ids: tuple[str, ...], with_made: bool) -> None:
    """Revoke keys, forever. Within 5 seconds no server accepts them.

    \b
    headway keys revoke 4fXk02LmQz9a
    headway keys revoke 4fXk02LmQz9a --with-made
    """
    app = cli.existing
    revoked = []
    for key_id in ids:
        revoked.append(app.revoke_api_key(key_id, with_made=with_made, actor=actor()))
        if not cli.json:
            say(f"{key_id} ({revoked[-1].name}): revoked")
    if cli.json:
        emit(revoked)
