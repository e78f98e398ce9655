"""`headway audit`: who did what, to jobs, queues, trains and settings; and whether that record is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Column, ago, emit, many, note, say, table

if TYPE_CHECKING:
    from headway.app.audit_chain import AuditCheck
    from headway.model.job import AuditEntry

_MOST = 10_000
_PAGE = 500
_BROKEN = 1
_OLD_S = 3_600


@click.group(cls=Group, invoke_without_command=True, short_help="See who did what, export it, check it.")
@click.option("--actor", "by", help="Only what this person or program did.")
@click.option("--action", help="Only this: pause, cancel, reserve, trigger.created, …")
@click.option("--tenant", help="Only what was done to this tenant.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many at most.")
@click.option("--before", type=int, metavar="NUMBER", help="Continue after the page that ended with this entry.")
@click.pass_context
def audit(
    ctx: click.Context, by: str | None, action: str | None, tenant: str | None, limit: int, before: int | None
) -> None:
    """List what people and programs did, newest first. `headway jobs show ID` has what was done to one job.

    \b
    headway audit --actor ada@web1
    headway audit --action pause --json | jq -r '.[].detail'
    headway audit export > audit.jsonl
    headway audit verify
    """
    if ctx.invoked_subcommand is not None:
        return
    cli = ctx.ensure_object(Invocation)
    app = cli.existing
    found = app.audit_log(actor=by, action=action, tenant=tenant, limit=limit, before=before)
    if cli.json:
        emit(found)
        return
    if not found:
        note(f"no such entries in {app.store.describe()}")
        return
    columns = (
        Column("NUMBER", right=True),
        Column("WHEN", right=True),
        Column("ACTOR", shrink=True),
        Column("ACTION", shrink=True),
        Column("JOB", wide=120),
        Column("DETAIL", shrink=True),
    )
    table(
        columns,
        [[str(each.id), ago(each.at), who(each), each.action, each.job_id or "", what(each)] for each in found],
    )
    if len(found) == limit:
        flags = {"--actor": by, "--action": action, "--tenant": tenant}
        given = [part for flag, value in flags.items() if value is not None for part in (flag, value)]
        note(f"next page: {cli.typed('audit', *given, '--limit', str(limit), '--before', str(found[-1].id))}")


def who(entry: AuditEntry) -> str:
    """Who it was, for people."""
    name = f" ({entry.actor_name})" if entry.actor_name is not None else ""
    return (entry.actor or ("erased" if entry.erased_at else "–")) + name


def what(entry: AuditEntry) -> str:
    """What was done, with the old and the new values."""
    from headway.model.audit import show_changes

    return " ".join(filter(None, (entry.detail, show_changes(entry.changes))))


@audit.command("export")
@click.option("--actor", "by", help="Only what this person or program did.")
@click.option("--action", help="Only this.")
@click.option("--tenant", help="Only what was done to this tenant.")
@click.option("--after", type=int, default=0, metavar="NUMBER", help="Only entries with a higher number.")
@pass_invocation
def export(cli: Invocation, by: str | None, action: str | None, tenant: str | None, after: int) -> None:
    """Write entries as JSON lines, oldest first.

    An entry that took long to commit can have a lower number than one that is there already. To fetch what is
    new, begin at the last number of an hour ago, and let `id` tell what you have.

    \b
    headway audit export > audit.jsonl
    headway audit export --after 1200 | jq -r .actor
    """
    import msgspec

    app = cli.existing
    while found := app.audit_log(actor=by, action=action, tenant=tenant, limit=_PAGE, after=after):
        for each in found:
            click.echo(msgspec.json.encode(each))
        after = found[-1].id


@audit.command("verify")
@click.option("--seal", metavar="SEAL", help="What an earlier check printed: the chain must still hold it.")
@pass_invocation
def verify(cli: Invocation, seal: str | None) -> None:
    """Check that no sealed entry was changed, added or removed; exit with 1 if one was.

    Workers seal entries some minutes after they were written. Keep the seal that this prints somewhere else:
    whoever may change everything in the database could make a whole chain anew, but not one that holds your seal.

    \b
    headway audit verify
    headway audit verify --seal 17:5f1b… --json
    """
    check = cli.existing.verify_audit(seal=seal)
    if cli.json:
        emit(check)
    else:
        _show(check)
    if not check.is_whole:
        raise click.exceptions.Exit(_BROKEN)


@audit.command("erase")
@click.argument("numbers", type=int, nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@pass_invocation
def erase(cli: Invocation, numbers: tuple[int, ...], yes: bool) -> None:
    """Take the words out of entries: who it was, the detail, old and new values, request and address.

    When it was, the action, the tenant and the job stay, and so does the hash: `headway audit verify` finds the
    chain whole. Only of entries that are sealed. The erasure is an entry, too.

    \b
    headway audit erase 1204 1205
    """
    app = cli.existing
    if not yes:
        confirm(f"erase the words of entry {', '.join(map(str, numbers))} for good")
    erased = app.erase_audit(numbers, actor=actor())
    if cli.json:
        emit({"erased": erased})
        return
    say(f"erased: {erased}")
    if erased < len(numbers):
        note(f"{len(numbers) - erased} are unknown, erased before, or not sealed yet")


def _show(check: AuditCheck) -> None:
    for fault in check.faults:
        say(f"broken: {fault}", "red")
    if check.since is not None:
        note(f"begins after {ago(check.since)}: what is older was pruned, or stayed behind in a transfer")
    if check.is_whole:
        erased = f", {check.erased} of them erased" if check.erased else ""
        noun = "entry" if check.entries == 1 else "entries"
        say(f"whole: {check.entries:,} {noun} in {many(check.seals, 'seal')}{erased}")
    if check.unsealed:
        note(f"not sealed yet: {check.unsealed}; a worker seals them within minutes")
    if check.newest is not None:
        say(f"seal {check.newest}")
