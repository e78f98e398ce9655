"""One schedule on a page, and its coming times with the clock changes of its zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from headway.cli.program.output import COLORS, Cell, Column, ago, at, clock, first_line, local, span, status, table
from headway.cli.program.page_parts import block, blocks, heading, title, values
from headway.cli.triggers.fires import fires_table
from headway.cli.triggers.trigger_rows import target
from headway.errors import InvalidJob
from headway.model.cron import zone
from headway.model.cron_words import explain_cron
from headway.model.schedule import overdue
from headway.model.trigger import Backfilled, Fire, Trigger

if TYPE_CHECKING:
    from headway.app import Headway


def due(schedule: Trigger) -> str:
    """`0 2 * * *`, or `every 5m`."""
    return schedule.cron if schedule.cron is not None else f"every {span(schedule.every_ms or 0)}"


def remark(schedule: Trigger, now: datetime) -> Cell:
    """What is worth knowing besides its times."""
    if not schedule.enabled:
        return status("paused")
    if schedule.error:
        return f"failed: {first_line(schedule.error)}", COLORS["failed"]
    if overdue(schedule, now):
        whose = "no worker declares it" if schedule.origin == "code" else "no worker fires it"
        return f"overdue: {whose}", COLORS["failed"]
    return "ended: it will not fire again" if schedule.next_fire_at is None else ""


def show_schedule(
    app: Headway, schedule: Trigger, names: Mapping[str, str], coming: Sequence[datetime], fired: Sequence[Fire]
) -> None:
    """Values, error, payload, options, coming times, last fires."""
    tz = zone(schedule.tz)
    title(schedule.name, status("enabled" if schedule.enabled else "paused"), schedule.id)
    last = schedule.last_fired_at
    values(
        [
            ("label", schedule.label),
            ("for", schedule.description),
            ("due", f"{due(schedule)} by the clock of {schedule.tz}" if schedule.cron else due(schedule)),
            ("in words", _in_words(schedule.cron)),
            ("enqueues", target(schedule, names)),
            ("next", _next(schedule)),
            ("last", f"{local(last, tz)} ({ago(last)})" if last is not None else "has not fired yet"),
            ("last job", schedule.last_job_id),
            ("catch up", _catch_up(schedule)),
            ("overlap", "skip while its last job is unfinished" if schedule.overlap == "skip" else None),
            ("jitter", f"up to {span(schedule.jitter_ms)}" if schedule.jitter_ms else None),
            ("not before", local(schedule.start_at, tz) if schedule.start_at else None),
            ("not after", local(schedule.end_at, tz) if schedule.end_at else None),
            ("tenant", schedule.tenant if schedule.tenant != "default" else None),
            ("from", _origin(schedule)),
        ]
    )
    if schedule.error:
        block("error of its last fire", schedule.error, COLORS["failed"])
    blocks({"payload": schedule.payload, "options": schedule.options})
    if coming:
        heading("next")
        show_times(coming, None)
    if fired:
        heading("fired last")
        fires_table(app, fired, zone=tz)


def show_times(times: Sequence[datetime], after: datetime | None) -> None:
    """Times in their own zone and in UTC, with the clock changes at them."""
    marks = changes_of_clock(times, after)
    columns = [
        Column("LOCAL"),
        Column("OFFSET"),
        Column("UTC"),
        Column("IN", right=True),
        Column("CLOCK", shrink=True, spare=True),
    ]
    table(
        columns,
        [
            [
                local(time, time.tzinfo),
                _offset(time.utcoffset()),
                time.astimezone(UTC).strftime(f"%Y-%m-%d {clock(time.astimezone(UTC))}Z"),
                ago(time).removeprefix("in "),
                (f"! {mark}" if mark else "", "bold yellow"),
            ]
            for time, mark in zip(times, marks, strict=True)
        ],
    )


def show_backfill(schedule: Trigger, found: Sequence[Backfilled]) -> None:
    """What a backfill made from each time, or would make."""
    tz = zone(schedule.tz)
    columns = [
        Column("LOCAL"),
        Column("STATUS"),
        Column("QUEUE", wide=100),
        Column("JOB"),
        Column("PAYLOAD", shrink=True),
    ]
    rows: list[list[Cell]] = [
        [
            local(each.nominal_at, tz),
            "had fired before" if each.status == "fired" else each.status,
            each.queue or "",
            each.job_id or "",
            "" if each.status == "fired" else msgspec.json.encode(each.payload).decode(),
        ]
        for each in found
    ]
    if rows:
        table(columns, rows)


def changes_of_clock(times: Sequence[datetime], after: datetime | None) -> list[str]:
    """For each time, the clock change of its zone at it, or since the time before; "" if there is none."""
    if not times:
        return []
    start = (after or datetime.now(UTC)).astimezone(times[0].tzinfo)
    return [_change(before, time) for before, time in pairwise([start, *times])]


def _change(before: datetime, time: datetime) -> str:
    offset, was = time.utcoffset(), before.utcoffset()
    assert offset is not None
    assert was is not None
    first, second = (time.replace(fold=fold).utcoffset() for fold in (0, 1))
    if first != second:
        which = "second" if time.fold else "first"
        return f"the clock is set back, and shows {clock(time)} twice: this is the {which}"
    just_before = (time.astimezone(UTC) - timedelta(seconds=1)).astimezone(time.tzinfo).utcoffset()
    assert just_before is not None
    if just_before < offset:
        jump = time.replace(tzinfo=None) - (offset - just_before)
        return f"the clock is set forward, from {clock(jump)} to {clock(time)}"
    if offset == was:
        return ""
    way = "forward" if offset > was else "back"
    by = span(round(abs(offset - was) / timedelta(milliseconds=1)))
    return f"since the one before, the clock was set {way} by {by}"


def _offset(offset: timedelta | None) -> str:
    assert offset is not None
    minutes = round(abs(offset).total_seconds() / 60)
    return f"{'-' if offset < timedelta(0) else '+'}{minutes // 60:02}:{minutes % 60:02}"


def _in_words(cron: str | None) -> str | None:
    try:
        return None if cron is None else explain_cron(cron)
    except InvalidJob as error:  # as SQL may have written it
        return str(error)


def _next(schedule: Trigger) -> str:
    if not schedule.enabled:
        return "none while it is paused"
    moment = schedule.next_fire_at
    return "none: it has ended" if moment is None else f"{local(moment, zone(schedule.tz))} ({ago(moment)})"


def _catch_up(schedule: Trigger) -> str:
    match schedule.catch_up:
        case "all":
            return f"every missed time of the last {span(schedule.catch_up_window_ms)}"
        case "none":
            return "nothing"
    return "the latest missed time"


def _origin(schedule: Trigger) -> str:
    if schedule.origin == "code":
        return f"the code, which it follows; last declared {at(schedule.declared_at)}"
    by = f" by {schedule.created_by}" if schedule.created_by else ""
    changes = f", revision {schedule.revision}" if schedule.revision > 1 else ""
    return f"made {at(schedule.created_at)}{by}{changes}"
