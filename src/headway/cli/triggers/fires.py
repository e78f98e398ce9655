"""What schedules and triggers fired, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from headway.cli.program.invocation import Invocation
from headway.cli.program.options import MOST
from headway.cli.program.output import (
    Cell,
    Column,
    ago,
    emit,
    first_line,
    local,
    merged,
    note,
    status,
    table,
)
from headway.cli.triggers.trigger_rows import NOUNS, next_page

if TYPE_CHECKING:
    from datetime import tzinfo

    from headway.app import Headway
    from headway.model.trigger import Fire, Trigger


def job_statuses(app: Headway, found: Sequence[Fire]) -> dict[str, str]:
    """The current status of these fires' jobs; pruned ones are missing."""
    ids = [fire.job_id for fire in found if fire.job_id is not None]
    outcomes = app.store.run(app.store.ops.results(ids, tenant_id=None)) if ids else {}
    return {job_id: outcome.status for job_id, outcome in outcomes.items()}


def list_fires(cli: Invocation, rule: Trigger, tenant: str | None, *, limit: int, before: str | None) -> None:
    """Print a page of what this schedule or trigger fired."""
    from headway.model.cron import zone

    app = cli.existing
    named = {"schedule" if rule.type == "schedule" else "trigger": rule.name}
    found = app.fires(**named, tenant=UUID(rule.tenant_id), limit=min(limit + 1, MOST), before=before)
    shown = found[:limit]
    if cli.json:
        emit(fires_as_json(app, shown))
    elif not shown:
        note(f"{rule.name} has not fired{' before that' if before else ' yet'}")
    else:
        fires_table(app, shown, zone=zone(rule.tz) if rule.type == "schedule" else None)
        if len(found) > limit:
            flags = {"tenant": tenant, "limit": limit}
            next_page(cli, NOUNS[rule.type], "fires", flags, rule.name, "--before", shown[-1].id)


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
