"""`headway migrate`: installs the schema, updates it, or removes it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import emit, many, say

if TYPE_CHECKING:
    from headway.store.run import Store
    from headway.store.steps import Part


@click.command(cls=Command, short_help="Install the schema, or bring it up to date.")
@click.option("--dry-run", "--plan", is_flag=True, help="Only show what would be done, and what it locks.")
@click.option("--sql", is_flag=True, help="Print the SQL instead of running it.")
@click.option(
    "--roles",
    is_flag=True,
    help="Create this database's roles for workers and applications (PostgreSQL; needs CREATEROLE).",
)
@click.option("--to", type=click.IntRange(0), metavar="N", help="Go to this version, up or down.")
@click.option("--down", is_flag=True, help="Remove the schema and every job in it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before jobs are deleted.")
@pass_invocation
def migrate(cli: Invocation, dry_run: bool, sql: bool, roles: bool, to: int | None, down: bool, yes: bool) -> None:
    """Bring the database's schema to this library's version. Safe to run from many places at once.

    A new SQLite file gets its schema by itself; PostgreSQL gets it here. In Alembic or Django migrations use
    `headway.migrate(connection)` instead.

    \b
    headway --url postgresql://me@db/work migrate
    headway migrate --sql > schema.sql
    headway migrate --down --dry-run
    """
    if down and (to is not None or roles):
        raise click.UsageError("--down takes no other option: it removes everything")
    if roles and to is not None:
        raise click.UsageError("--roles and --to exclude each other: migrate first, then make the roles")
    store = cli.app.store
    if roles:
        _roles(cli, store, dry_run, sql)
    else:
        _schema(cli, store, 0 if down else to, dry_run, sql, yes)


def _schema(cli: Invocation, store: Store, to: int | None, dry_run: bool, sql: bool, yes: bool) -> None:
    from headway.store import migrate as migrations

    if to is not None and to < 1 and store.is_absent:
        raise Refused(f"there is no database file {store.describe()}", WRONG)
    latest = migrations.latest(store)
    target = latest if to is None else to
    plan = migrations.plan(store, to)
    before = migrations.current(store)
    if sql or dry_run:
        if cli.json:
            steps = [_step(part, sql) for part in plan]
            emit({"database": store.describe(), "version": before, "to": target, "plan": steps})
        elif sql:
            click.echo("\n".join(f"-- {part.title}\n{part.script()}" for part in plan) or "-- nothing to do")
        else:
            say(_headline(store, before, target, bool(plan)))
            for part in plan:
                say(f"  would {part.title}" + (f" (locks {part.locks})" if part.locks else ""))
        return
    if target < before:
        _confirm(cli, store, before, target, yes)
    done = migrations.apply(store, to, retention_ms=cli.app.settings.retention_ms)
    if cli.json:
        emit({"database": store.describe(), "version": target, "before": before, "done": done})
        return
    for title in done:
        say(f"  {title}")
    say(f"{store.describe()} has schema version {target}" + ("" if done else ": nothing to do"))


def _step(part: Part, sql: bool) -> dict[str, Any]:
    shown = {"title": part.title, "locks": part.locks or None, "outside_transaction": part.outside}
    return {**shown, "sql": part.script()} if sql else shown


def _headline(store: Store, before: int, target: int, changes: bool) -> str:
    if not changes:
        return f"{store.describe()} has schema version {before}: nothing to do"
    found = f"schema version {before}" if before else "no schema"
    return f"{store.describe()} has {found}; to get to version {target}:"


def _confirm(cli: Invocation, store: Store, before: int, target: int, yes: bool) -> None:
    if yes:
        return
    if target == 0:
        held = f" ({many(sum(cli.app.counts().values()))})" if before else ""
        what = f"removes Headway's schema and every job in it{held} from {store.describe()}"
    else:
        what = f"takes {store.describe()} back from version {before} to {target}, and drops what that does not have"
    if not sys.stdin.isatty():
        raise Refused(f"this {what}, and there is no terminal to ask: add --yes, or look with --dry-run", WRONG)
    click.confirm(f"this {what}. Go on?", abort=True, err=True)


def _roles(cli: Invocation, store: Store, dry_run: bool, sql: bool) -> None:
    from headway.store import migrate as migrations

    text = migrations.roles_sql(store)
    if sql or dry_run:
        if cli.json:
            emit({"database": store.describe(), "sql": text})
        elif sql:
            click.echo(text)
        else:
            say(f"would make the roles of workers and applications in {store.describe()}, with their grants")
        return
    names = migrations.roles(store)
    if cli.json:
        emit({"database": store.describe(), "roles": names})
    else:
        say(f"the roles {' and '.join(names)} are there: make your logins members of them, for example")
        say("  create role my_worker login password '…'; select headway.grant_worker('my_worker');")
        say("  create role acme_web login password '…'; select headway.grant_app('acme_web', 'acme');")
