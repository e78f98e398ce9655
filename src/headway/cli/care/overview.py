"""`headway overview`: what needs a person, and how much work there was lately."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import emit, merged, say, span
from headway.cli.program.params import Duration

_URGENT = ("no_worker", "dying", "silent_worker")


@click.command(cls=Command, short_help="See what needs you, most urgent first.")
@click.option("--since", type=Duration(), default="1h", show_default=True, help="How far back to look: 6h.")
@click.option("--tenant", help="Only what concerns this tenant.")
@click.option("--tenants", "side_by_side", is_flag=True, help="All tenants side by side.")
@pass_invocation
def overview(cli: Invocation, since: Any, tenant: str | None, side_by_side: bool) -> None:
    """Show the problems, each with why and the command that helps, and the numbers of the last hour.

    \b
    headway overview
    headway overview --tenant acme --json | jq -r '.problems[].why'
    """
    app = cli.existing
    found = (app if tenant is None else app.tenant(tenant)).overview(since)
    tenants = app.overview_of_tenants(since) if side_by_side else []
    if cli.json:
        emit(merged(found, tenants=tenants) if side_by_side else found)
        return
    if not found.problems:
        say("Nothing needs you.", "green")
    for problem in found.problems:
        say(problem.why, "bold red" if problem.what in _URGENT else "bold yellow")
        say(f"  {problem.fix}", "dim")
    pulse = found.pulse
    say(
        f"{pulse.enqueued:,} enqueued, {pulse.succeeded:,} succeeded, {pulse.failed:,} failed, {pulse.dead:,} dead;"
        f" wait p95 {_time(pulse.wait_p95_ms)}, run p95 {_time(pulse.run_p95_ms)}"
    )
    for each in tenants:
        say(
            f"{each.tenant}: {each.depth:,} queued, {each.pulse.succeeded:,} succeeded, {each.pulse.dead:,} dead,"
            f" {each.share:.0%} of the time"
        )


def _time(ms: float | None) -> str:
    return "–" if ms is None else span(round(ms))
