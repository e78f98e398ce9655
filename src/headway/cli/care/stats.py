"""`headway stats`: what happened, by minute, hour or day."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import Cell, Column, emit, merged, note, table
from headway.cli.program.params import Moment

if TYPE_CHECKING:
    from headway.model.stats import Stat

_BARS = "▁▂▃▄▅▆▇█"
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_BAD = ("failed", "retried", "dead", "canceled", "lost")
_TIMES = {"minute": "%H:%M", "hour": "%m-%d %H:%M", "day": "%Y-%m-%d"}


@click.command(cls=Command, short_help="See what happened, in numbers.")
@click.option(
    "--every", type=click.Choice(["minute", "hour", "day"]), default="minute", show_default=True, help="The spans."
)
@click.option(
    "--since", type=Moment(past=True), help="From this time on, or from this long ago: 6h. Default: 1h, 1d or 30d."
)
@click.option("--until", type=Moment(past=True), help="Up to this time.")
@click.option(
    "--by", multiple=True, type=click.Choice(["tenant", "queue", "kind"]), help="One line for each; repeatable."
)
@click.option("--queue", help="Only of this queue.")
@click.option("--kind", help="Only of this kind.")
@click.option("--tenant", help="Only of this tenant.")
@pass_invocation
def stats(
    cli: Invocation,
    every: Any,
    since: datetime | None,
    until: datetime | None,
    by: tuple[Any, ...],
    queue: str | None,
    kind: str | None,
    tenant: str | None,
) -> None:
    """List what happened: jobs that came, ended and failed, how long they waited and ran. Times are in UTC.

    A bar shows how many executions ended in that span, against the most of any.

    \b
    headway stats
    headway stats --every hour --since 7d --by kind
    headway stats --json | jq '.[] | {at, succeeded, wait_p95_ms}'
    """
    app = cli.existing
    verbs = app if tenant is None else app.tenant(tenant)
    found = verbs.stats(every, since=since, until=until, by=by, queue=queue, kind=kind)
    if cli.json:
        emit([_as_json(each) for each in found])
    elif not found:
        note(f"nothing happened then in {app.store.describe()}")
    else:
        most = max(sum(each.runs.values()) for each in found)
        table(_columns(by), [_row(each, every, by, most) for each in found])


def _as_json(stat: Stat) -> dict[str, Any]:
    fields = merged(stat)
    for name, q in _QUANTILES.items():
        fields[f"wait_{name}_ms"] = stat.wait_ms(q)
        fields[f"run_{name}_ms"] = stat.run_ms(q)
    return fields


def _columns(by: tuple[str, ...]) -> list[Column]:
    return [
        Column("TIME"),
        *(Column(name.upper(), shrink=True) for name in ("tenant", "queue", "kind") if name in by),
        Column("ENQUEUED", right=True),
        Column("SUCCEEDED", right=True),
        *(Column(name.upper(), right=True, spare=True) for name in _BAD),
        Column(""),
        Column("WAIT P50", right=True),
        Column("P95", right=True),
        Column("RUN P50", right=True),
        Column("P95", right=True),
        Column("QUEUED", right=True, spare=True, wide=100),
        Column("OLDEST", right=True, spare=True, wide=110),
    ]


def _row(stat: Stat, every: str, by: tuple[str, ...], most: int) -> list[Cell]:
    ended = sum(stat.runs.values())
    names = {"tenant": stat.tenant_id, "queue": stat.queue, "kind": stat.kind}
    bad: list[Cell] = [(f"{count:,}", "red") if (count := getattr(stat, name)) else "" for name in _BAD]
    return [
        stat.at.strftime(_TIMES[every]),
        *(value or "" for name, value in names.items() if name in by),
        f"{stat.enqueued:,}",
        f"{stat.succeeded:,}",
        *bad,
        _bar(ended, most),
        _time(stat.wait_ms(0.5)),
        _time(stat.wait_ms(0.95)),
        _time(stat.run_ms(0.5)),
        _time(stat.run_ms(0.95)),
        "" if stat.depth is None else f"{stat.depth:,}",
        _time(stat.oldest_ms),
    ]


def _bar(count: int, most: int) -> str:
    """One character, as high as the count is against the most."""
    return _BARS[min(len(_BARS) - 1, count * len(_BARS) // most)] if count else " "


def _time(ms: float | None) -> str:
    from headway.model.duration import show_ms

    if ms is None:
        return ""
    return f"{ms:.0f} ms" if ms < 1_000 else show_ms(ms)
