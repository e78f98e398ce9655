"""Errors: executions that ended badly, grouped by fingerprint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headway.clock import from_micros, to_micros
from headway.model.error_groups import (
    MOST_READ,
    ErrorDelta,
    ErrorFilter,
    ErrorGroup,
    by_row_key,
    capped,
    excerpt,
    groups_of,
)
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list

if TYPE_CHECKING:
    from headway.store.sqlite.jobs.ending import Ending

_SQL = statements("stats/errors")
_COLUMNS = (
    *("tenant_id", "fingerprint", "queue", "kind", "status", "type", "place", "count", "dead"),
    *("first_seen_at", "last_seen_at", "job_id", "fence", "message", "sample"),
)


class ErrorVerbs(Verbs):
    def fold_errors(self, *, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((any_,),) = yield Statement(_SQL["any"])
            return None if any_ else 0

        def steps() -> Steps[int]:
            rows = yield Statement(_SQL["take"], (limit,))
            if rows:
                groups = groups_of(_delta(row[1:]) for row in rows)
                tenants = sorted({group.tenant_id for group in groups})
                known = {tuple(row) for row in (yield Statement(_SQL["known"], (json_list(tenants),)))}
                found = capped(groups, known)
                yield Batch(_SQL["add"], [_row(group) for group in by_row_key(found)])
                yield Batch(_SQL["add_job"], [(g.job_id, g.tenant_id, g.fence, g.fingerprint) for g in found])
                yield Statement(_SQL["delete"], (rows[-1][0],))
            return len(rows)

        return SqliteOp(steps, writes=True, repeatable=False, probe=probe)

    def errors(self, where: ErrorFilter) -> Op[list[ErrorGroup]]:
        kinds, queues = (None if names is None else json_list(names) for names in (where.kind, where.queue))
        since = None if where.since is None else to_micros(where.since)

        def steps() -> Steps[list[ErrorGroup]]:
            # one snapshot: what is folded meanwhile is in one of them
            deltas = yield Statement(_SQL["deltas"], (where.tenant_id, kinds, queues))
            params = (where.tenant_id, where.fingerprint, since, kinds, queues, MOST_READ)
            stored = [_group(row) for row in (yield Statement(_SQL[_index_for(where)], params))]
            return [group for group in (*stored, *groups_of(map(_delta, deltas))) if where.has(group)]

        return SqliteOp(steps, writes=False)

    def error_of(self, job_id: str, *, tenant_id: str | None) -> Op[str | None]:
        def steps() -> Steps[str | None]:
            groups = groups_of(map(_delta, (yield Statement(_SQL["deltas_of_job"], (job_id, tenant_id)))))
            noted = yield Statement(_SQL["job"], (job_id, tenant_id))
            return next(
                (each for each in (*(group.fingerprint for group in groups), *(name for (name,) in noted))), None
            )

        return SqliteOp(steps, writes=False)

    def prune_errors(self, *, older_than_ms: int, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            before = self._clock.now() - older_than_ms * 1_000
            return len((yield Statement(_SQL["prune"], (before, limit))))

        return SqliteOp(steps, writes=True)


def note_errors(endings: Iterable[Ending], now: int) -> Batch:
    """Leaves executions that ended badly for the fold."""
    return Batch(
        _SQL["insert"],
        [
            (now, *end.job.counted_as.split(" ", 2), end.job.id, end.job.fence, end.status, end.to == "dead",
             excerpt(end.error))
            for end in endings
        ],
    )  # fmt: skip


def not_added(tenant_id: str | None, fingerprint: str) -> Steps[list[str]]:
    """The executions that ended with this error a moment ago, as `id/fence`."""
    groups = groups_of(map(_delta, (yield Statement(_SQL["deltas"], (tenant_id, None, None)))))
    return sorted({f"{group.job_id}/{group.fence}" for group in groups if group.fingerprint == fingerprint})


def _index_for(where: ErrorFilter) -> str:
    if where.fingerprint is not None:
        return "errors_alike"
    return "errors" if where.tenant_id is None else "errors_of_tenant"


def _delta(row: Row) -> ErrorDelta:
    at, tenant_id, queue, kind, job_id, fence, status, dead, error = row
    return ErrorDelta(from_micros(at), tenant_id, queue, kind, job_id, fence, status, bool(dead), error)


def _group(row: Row) -> ErrorGroup:
    values: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    for name in ("first_seen_at", "last_seen_at"):
        values[name] = from_micros(values[name])
    return ErrorGroup(**values)


def _row(group: ErrorGroup) -> tuple[Any, ...]:
    values = {name: getattr(group, name) for name in _COLUMNS}
    for name in ("first_seen_at", "last_seen_at"):
        values[name] = to_micros(values[name])
    return tuple(values.values())
