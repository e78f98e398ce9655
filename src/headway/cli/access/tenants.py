"""`headway tenants`: list, create, rename, suspend, resume and delete tenants."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Column, ago, emit, many, merged, note, say, table
from headway.cli.program.params import Tenant, Zone


@click.group(cls=Group, invoke_without_command=True, short_help="List, create, rename, suspend and delete tenants.")
@click.pass_context
def tenants(ctx: click.Context) -> None:
    """List, create, rename, suspend, resume and delete tenants, the owners of jobs.

    \b
    headway tenants list
    headway tenants create acme
    headway tenants suspend acme
    headway tenants delete acme --dry-run
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@tenants.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many at most.")
@click.option("--after", metavar="NAME", help="Only those behind this one: the next page.")
@pass_invocation
def list_(cli: Invocation, limit: int = 100, after: str | None = None) -> None:
    """List tenants by name.

    \b
    headway tenants list --limit 1000
    """
    found = cli.existing.tenants(limit=limit, after=after)
    if cli.json:
        emit(found)
        return
    table(
        (
            *(Column("NAME", shrink=True), Column("ID"), Column("CREATED", right=True), Column("STATE")),
            Column("ZONE", wide=100),
        ),
        [
            [
                each.slug or "–",
                each.id,
                ago(each.created_at),
                "active" if each.suspended_at is None else (f"suspended {ago(each.suspended_at)}", "yellow"),
                each.tz or "–",
            ]
            for each in found
        ],
    )


@tenants.command()
@click.argument("name")
@click.option("--tz", type=Zone(), help="The zone that its schedules start with. Default: the app's.")
@pass_invocation
def create(cli: Invocation, name: str, tz: str | None) -> None:
    """Create a tenant, with a random id. A name that a tenant had before is refused.

    \b
    headway tenants create acme
    headway tenants create acme --tz Europe/Berlin
    """
    made = cli.app.create_tenant(name, tz=tz, actor=actor())
    emit(made) if cli.json else say(f"{made.slug}: created, {made.id}")


@tenants.command()
@click.argument("tenant", type=Tenant())
@click.argument("name")
@pass_invocation
def rename(cli: Invocation, tenant: Any, name: str) -> None:
    """Give a tenant another name. Nobody can ever have the old one.

    \b
    headway tenants rename acme acme-inc
    """
    renamed = cli.existing.rename_tenant(tenant, name, actor=actor())
    emit(renamed) if cli.json else say(f"{tenant}: renamed to {renamed.slug}")


@tenants.command()
@click.argument("tenant", type=Tenant())
@click.option("--tz", type=Zone(), help="The zone that its new schedules start with.")
@click.option("--no-tz", is_flag=True, help="They start with the app's zone.")
@pass_invocation
def change(cli: Invocation, tenant: Any, tz: str | None, no_tz: bool) -> None:
    """Set the zone that a tenant's new schedules start with. Schedules that exist keep theirs.

    \b
    headway tenants change acme --tz America/New_York
    """
    if (tz is None) != no_tz:
        raise click.UsageError("give either --tz or --no-tz")
    changed = cli.existing.change_tenant(tenant, tz=tz, actor=actor())
    emit(changed) if cli.json else say(f"{tenant}: new schedules start with {changed.tz or 'the zone of the app'}")


@tenants.command()
@click.argument("tenant", type=Tenant())
@pass_invocation
def suspend(cli: Invocation, tenant: Any) -> None:
    """Stop a tenant: none of its jobs start, and nothing is written for it. Running jobs go on.

    \b
    headway tenants suspend acme
    """
    suspended = cli.existing.suspend_tenant(tenant, actor=actor())
    emit(suspended) if cli.json else say(f"{tenant}: suspended")


@tenants.command()
@click.argument("tenant", type=Tenant())
@pass_invocation
def resume(cli: Invocation, tenant: Any) -> None:
    """Let a suspended tenant work again.

    \b
    headway tenants resume acme
    """
    resumed = cli.existing.resume_tenant(tenant, actor=actor())
    emit(resumed) if cli.json else say(f"{tenant}: resumed")


@tenants.command()
@click.argument("tenant", type=Tenant())
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@pass_invocation
def delete(cli: Invocation, tenant: Any, dry_run: bool, yes: bool) -> None:
    """Delete a tenant with everything that it owns, for good. Not while jobs of it run.

    If it is interrupted, the tenant stays suspended: run it again.

    \b
    headway tenants delete acme --dry-run
    headway tenants delete acme --yes
    """
    app = cli.existing
    counted = app.delete_tenant(tenant, dry_run=True)
    rows = ", ".join(f"{count:,} {name}" for name, count in counted.rows.items() if count) or "nothing that it owns"
    if not dry_run:
        if not yes:
            confirm(f"delete tenant {tenant} with {many(counted.rows['jobs'], 'job')}", ", or --dry-run to count only")
        counted = app.delete_tenant(tenant, actor=actor())
    if cli.json:
        emit(merged(counted))
    elif dry_run:
        say(f"{tenant}: would delete {rows}")
    else:
        say(f"{tenant}: deleted, with {rows}")
        note("its name and id are never used again")
