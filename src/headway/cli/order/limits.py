"""`headway limits`: how many jobs of a queue, kind or tenant may run, start or wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Cell, Column, emit, many, merged, note, say, table
from headway.cli.program.params import Count, Rate, Tenant, given, taken_back
from headway.model.limit import QUOTAS

if TYPE_CHECKING:
    from headway.model.limit import Limit

_SCOPES = ("queue", "kind", "tenant")
# options of one scope only
_ONLY = {"rate": "kind", "burst": "kind"} | dict.fromkeys(QUOTAS, "tenant")
_QUOTA_WORDS = {
    "max_pending": "{:,} jobs may wait",
    "max_bytes": "{:,} bytes of payload may wait",
    "max_events": "{:,} events may wait",
    "max_schedules": "{:,} schedules and triggers",
    "max_group": "{:,} members of a group",
    "max_fan_out": "{:,} children or followers of a job",
}


@click.group(cls=Group, invoke_without_command=True, short_help="List, set and remove limits.")
@click.pass_context
def limits(ctx: click.Context) -> None:
    """List the limits of queues, kinds and tenants, and set them for all workers, from their next claim on.

    \b
    headway limits
    headway limits set --kind welcome --max-running 3 --rate 100/min
    headway limits set --tenant '*' --max-pending 10000
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@limits.command("list")
@pass_invocation
def list_(cli: Invocation) -> None:
    """List the limits that were set, and how many jobs run and wait under each.

    headway jobs show has the limits that a job carries itself (concurrency, rate, partition).

    \b
    headway limits list
    """
    app = cli.existing
    found = app.limits_in_use()
    shown = [merged(each.limit, tenant=each.tenant, running=each.running, limited=each.limited) for each in found]
    if cli.json:
        emit(shown)
    elif not found:
        note(f"no limits are set in {app.store.describe()}: headway limits set --help")
    else:
        table(_COLUMNS, [_row(each.limit, one) for each, one in zip(found, shown, strict=True)])


_COLUMNS = (
    Column("SCOPE"),
    Column("NAME", shrink=True),
    Column("RUNNING", right=True),
    Column("MAX RUNNING", right=True),
    Column("RATE", shrink=True),
    Column("QUOTAS", shrink=True),
    Column("LIMITED", right=True),
)


def _row(limit: Limit, each: Mapping[str, Any]) -> list[Cell]:
    full = limit.max_running is not None and (each["running"] or 0) >= limit.max_running
    running = _number(each["running"])
    return [
        limit.scope,
        each["tenant"] or limit.name,
        (running, "yellow") if full else running,
        _number(limit.max_running),
        _rate(limit) or "–",
        ", ".join(f"{name} {most:,}" for name, most in limit.quotas.items()) or "–",
        _number(each["limited"]),
    ]


@limits.command("set")
@click.option("--queue", help="The limit of this queue.")
@click.option("--kind", help="The limit of this kind.")
@click.option("--tenant", type=Tenant(), help="The limit of this tenant; '*' is every tenant without its own.")
@click.option("--max-running", type=Count(), metavar="N|none", help="How many may run at once, on all hosts.")
@click.option("--rate", type=Rate(none=True), metavar="RATE|none", help="How many of a kind may start: 100/min, 5/2h.")
@click.option(
    "--burst",
    type=Count(),
    metavar="N|none",
    help="A token bucket of this size: this many may start at once, then it refills evenly.",
)
@click.option("--max-pending", type=Count(), metavar="N|none", help="How many of a tenant may wait; more are refused.")
@click.option("--max-bytes", type=Count(), metavar="N|none", help="How many bytes of payload of a tenant may wait.")
@click.option("--max-events", type=Count(), metavar="N|none", help="How many events of a tenant may wait.")
@click.option(
    "--max-schedules", type=Count(), metavar="N|none", help="How many schedules and triggers a tenant may have."
)
@click.option("--max-group", type=Count(), metavar="N|none", help="How many members a tenant's group may have.")
@click.option(
    "--max-fan-out", type=Count(), metavar="N|none", help="How many children or followers a tenant's job may have."
)
@pass_invocation
def set_(cli: Invocation, /, **options: Any) -> None:
    """Set the limits of one queue, kind or tenant; none removes one, what is not given stays.

    What is set here overrides what jobs carry, except a partition or a key of their own.

    \b
    headway limits set --queue gpu --max-running 2
    headway limits set --kind welcome --rate 100/min --burst 10
    headway limits set --kind welcome --rate none
    headway limits set --tenant acme --max-running 20 --max-pending 10000
    """
    whose = given({scope: options.pop(scope) for scope in _SCOPES})
    if len(whose) != 1:
        raise click.UsageError("whose limit? Give one of --queue, --kind and --tenant ('*' is every tenant)")
    ((scope, name),) = whose.items()
    changes = taken_back(options)
    if not changes:
        raise click.UsageError(
            "which limit? Give some of --max-running, --rate, --burst, or of a tenant's quotas, such as --max-pending"
        )
    for option in changes:
        if _ONLY.get(option, scope) != scope:
            flag = f"--{option.replace('_', '-')}"
            raise click.UsageError(f"{flag} is a limit of {_ONLY[option]}s, not of a {scope}: give --{_ONLY[option]}")
    limit = cli.existing.limit(**whose, **changes, actor=actor())
    if cli.json:
        emit(limit)
    else:
        say(f"{_whose(scope, name)}: {described(limit)}")


def described(limit: Limit) -> str:
    """`at most 3 jobs at once; rate 100/min`, or `no limit`."""
    parts = []
    if limit.max_running is not None:
        parts.append(at_once(limit.max_running))
    if rate := _rate(limit):
        parts.append(f"rate {rate}")
    parts += [f"at most {_QUOTA_WORDS[name].format(most)}" for name, most in limit.quotas.items()]
    return "; ".join(parts) or "no limit"


def at_once(count: int) -> str:
    """`at most 3 jobs at once`."""
    return f"at most {many(count)} at once" if count else "no job may run"


def _whose(scope: str, name: str) -> str:
    return "every tenant without limits of its own" if (scope, name) == ("tenant", "*") else f"{scope} {name}"


def _rate(limit: Limit) -> str:
    from headway.model.rate import show_rate

    if limit.rate_count is None or limit.rate_period_ms is None:
        return ""
    burst = f", burst {limit.rate_burst:,}" if limit.rate_burst is not None else ""
    return show_rate(limit.rate_count, limit.rate_period_ms) + burst


def _number(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
