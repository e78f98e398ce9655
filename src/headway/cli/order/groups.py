"""`headway groups`: groups and their progress; cancel one, retry what failed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Group as Commands
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import MOST
from headway.cli.program.output import Cell, Column, at, console, emit, many, merged, note, say, status, table
from headway.cli.program.params import Tenant
from headway.model.status import FINISHED, STATUSES

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.group import Group
    from headway.model.status import Status

_BAR = 30


@click.group(cls=Commands, invoke_without_command=True, short_help="List groups, see their progress, cancel, retry.")
@click.pass_context
def groups(ctx: click.Context) -> None:
    """Look at groups and operate on them: jobs that were enqueued together.

    \b
    headway groups list
    headway groups show ID
    headway groups retry ID
    headway jobs list --group ID
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@groups.command("list")
@click.option("--tenant", type=Tenant(), help="Only groups of this tenant. Default: of all.")
@click.option("--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="How many at most.")
@click.option("--after", metavar="ID", help="Continue after the page that ended with this group.")
@pass_invocation
def list_(cli: Invocation, /, tenant: str | None, limit: int, after: str | None) -> None:
    """List the groups with how far their jobs are, the newest first.

    \b
    headway groups list
    headway groups list --json | jq -r '.[] | select(.status == "failed") | .id' | xargs -n 1 headway groups retry
    """
    app = cli.existing
    found = app.groups(tenant=tenant, limit=limit, after=after)
    if cli.json:
        emit([_shown(group) for group in found])
    elif not found:
        note(f"no group{f' after {after}' if after else ''} in {app.store.describe()}")
    else:
        columns = (Column("ID"), Column("STATUS"), Column("OVER", right=True), Column("MODE"), Column("CREATED"))
        table(columns, [_row(group) for group in found])
        if len(found) == limit:
            note(f"next page: {cli.typed('groups', 'list', '--limit', str(limit), '--after', found[-1].id)}")


@groups.command()
@click.argument("group_id", metavar="ID")
@pass_invocation
def show(cli: Invocation, group_id: str) -> None:
    """Show a group's progress.

    \b
    headway groups show 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    headway groups show ID --json | jq .progress
    """
    app = cli.existing
    group = app.get_group(group_id)
    callback = _callback(app, group)
    if cli.json:
        emit(_shown(group, callback_status=callback))
        return
    _page(group, callback)
    note(f"its jobs: {cli.typed('jobs', 'list', '--group', group.id)}")
    if group.failed:
        note(f"to retry what did not succeed: {cli.typed('groups', 'retry', group.id)}")


@groups.command()
@click.argument("group_id", metavar="ID")
@click.option("--reason", help="Why, for the jobs' errors and the audit trail.")
@pass_invocation
def cancel(cli: Invocation, /, group_id: str, reason: str | None) -> None:
    """Cancel the unfinished jobs of a group, and its callback; running ones are asked to stop.

    \b
    headway groups cancel ID --reason "wrong album"
    """
    app = cli.existing
    group = app.get_group(group_id)
    was_over = _callback(app, group) in FINISHED
    found = app.cancel_group(group_id, reason=reason, actor=actor())
    if was_over and group.callback_id is not None:
        # it is in the answer, whether or not it had ended before
        found.pop(group.callback_id, None)
    if cli.json:
        emit([{"id": job_id, "status": now} for job_id, now in found.items()])
        return
    asked = sum(now == "running" for now in found.values())
    if not found:
        say("nothing to cancel: all its jobs have ended")
    elif asked:
        say(f"{many(len(found) - asked)} canceled, {asked:,} running asked to stop")
    else:
        say(f"{many(len(found))} canceled")


@groups.command()
@click.argument("group_id", metavar="ID")
@pass_invocation
def retry(cli: Invocation, group_id: str) -> None:
    """Run again the jobs of a group that ended without success; its callback waits for them again.

    \b
    headway groups retry ID
    """
    ids = cli.existing.retry_group(group_id, actor=actor())
    if cli.json:
        emit(ids)
    else:
        say(f"{many(len(ids))} will run again" if ids else "nothing to retry: none of its jobs ended without success")


def _shown(group: Group, **more: Any) -> dict[str, Any]:
    return merged(
        group,
        status=group.status,
        total=group.total,
        done=group.done,
        failed=group.failed,
        progress=group.progress,
        **more,
    )


def _row(group: Group) -> list[Cell]:
    return [group.id, status(group.status), f"{group.done:,} of {group.total:,}", group.mode, at(group.created_at)]


def _callback(app: Headway, group: Group) -> Status | None:
    if group.callback_id is None:
        return None
    found = app.store.run(app.store.ops.results([group.callback_id], tenant_id=group.tenant_id))
    return found[group.callback_id].status if group.callback_id in found else None


def _page(group: Group, callback: Status | None) -> None:
    from rich.text import Text

    out = console()
    out.print(Text.assemble(("group", "bold"), "  ", status(group.status), "  ", (group.id, "dim")))
    full = int(_BAR * group.progress)
    failed = f", {group.failed:,} without success" if group.failed else ""
    out.print(
        Text.assemble(
            "  ",
            ("█" * full, status(group.status)[1]),
            ("░" * (_BAR - full), "dim"),
            f" {group.progress:.0%}  {group.done:,} of {many(group.total)} over{failed}",
        )
    )
    _line("members", *_counts(group))
    _line("mode", f"{group.mode}, on failure {group.on_failure}")
    if group.tenant != "default":
        _line("tenant", group.tenant)
    if group.callback_id is not None:
        _line("callback", f"{group.callback_id} ", status(callback) if callback else "(pruned)")
    _line("created", at(group.created_at))
    if group.stopped_at is not None:
        _line("stopped", at(group.stopped_at))


def _counts(group: Group) -> list[str | tuple[str, str]]:
    """`2 running, 3 queued, 4 succeeded`, unfinished ones first."""
    parts: list[str | tuple[str, str]] = []
    for name in sorted(group.counts, key=lambda name: (name in FINISHED, STATUSES.index(name))):
        parts += [", " if parts else "", f"{group.counts[name]:,} ", status(name)]
    return parts


def _line(name: str, *value: str | tuple[str, str]) -> None:
    from rich.text import Text

    console().print(Text.assemble((f"  {name:<10}", "dim"), *value))
