"""What schedules and triggers fired, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headway.cli.program.output import Cell, Column, ago, first_line, local, merged, status, table

if TYPE_CHECKING:
    from datetime import tzinfo

    from headway.app import Headway
    from headway.model.trigger import Fire

F = TypeVar("F", bound=Callable[..., Any])


def job_statuses(app: Headway, found: Sequence[Fire]) -> dict[str, str]:
    """The current status of these fires' jobs; pruned ones are missing."""
    ids = [fire.job_id for fire in found if fire.job_id is not None]
    outcomes = app.store.run(app.store.ops.results(ids, tenant_id=None)) if ids else {}
    return {job_id: outcome.status for job_id, outcome in outcomes.items()}


def fires_as_json(app: Headway, found: Sequence[Fire]) -> list[dict[str, Any]]:
    statuses = job_statuses(app, found)
    return [merged(fire, job_status=statuses.get(fire.job_id or "")) for fire in found]


def fires_table(
    app: Headway, found: Sequence[Fire], *, zone: tzinfo | None = None, triggers: Mapping[str, str] | None = None
) -> None:
    """Fires, newest first: with nominal times in a schedule's zone, or with the names of their triggers."""
    statuses = job_statuses(app, found)
    about = Column("EVENT", wide=110) if triggers is None else Column("TRIGGER", shrink=True)
    columns = [
        Column("FIRED", right=True),
        about if zone is None else Column("NOMINAL", wide=90),
        Column("FIRE"),
        Column("JOB"),
        Column("JOB STATUS", wide=110),
        Column("ERROR", shrink=True, spare=True),
    ]
    table(columns, [_fire(fire, zone, triggers, statuses) for fire in found])


def _fire(
    fire: Fire, zone: tzinfo | None, triggers: Mapping[str, str] | None, statuses: Mapping[str, str]
) -> list[Cell]:
    if zone is not None:
        about = "by hand" if fire.nominal_at is None else local(fire.nominal_at, zone)
    else:
        about = fire.event_id or "–" if triggers is None else triggers.get(fire.trigger_id, "(gone)")
    gone = "–" if fire.job_id is None else "(pruned)"
    return [
        ago(fire.fired_at),
        about,
        status(fire.status),
        fire.job_id or "–",
        status(statuses.get(fire.job_id or "", gone)),
        (first_line(fire.error), "red"),
    ]
