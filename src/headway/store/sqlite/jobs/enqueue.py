"""Enqueue: puts new jobs in, all or none, and answers those that met an existing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from headway.errors import NotAllowed
from headway.model.group import NewGroup
from headway.model.job import Enqueued, NewJob
from headway.model.status import Status
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list, spread
from headway.store.sqlite.fleet.tenants import name_tenants
from headway.store.sqlite.jobs.enqueue_tied import any_tied, enqueue_tied
from headway.store.sqlite.jobs.insert import answers, insert_all, plain_row, starts_at, starts_at_once

_SQL = statements("jobs/enqueue")


class EnqueueVerbs(Verbs):
    def enqueue(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> Op[list[Enqueued]]:
        tied = group is not None or any_tied(jobs)
        if len(jobs) == 1 and not tied and starts_at_once(jobs[0]):
            return SqliteOp(lambda: _enqueue_one(jobs[0], self._clock.now()), writes=True)

        def steps() -> Steps[list[Enqueued]]:
            if not jobs and group is None:
                return []
            return (yield from enqueue_jobs(jobs, group, self._clock.now(), tied=tied))

        return SqliteOp(steps, writes=True)


def enqueue_jobs(
    jobs: Sequence[NewJob],
    group: NewGroup | None,
    now: int,
    *,
    tied: bool,
    parents: Mapping[str, str] = MappingProxyType({}),
    of_any_kind: bool = False,
) -> Steps[list[Enqueued]]:
    """Put the jobs in; `tied`: something of them, or of `parents`, is more than a plain job's row has.

    Raises `NotAllowed` for a kind that is not active, unless they may be `of_any_kind`."""
    starts = [starts_at(job, now) for job in jobs]
    placed = [start is None or start <= now for start in starts]
    if tied:
        placed = [place or job.train is not None or bool(job.after) for place, job in zip(placed, jobs, strict=True)]
    count = placed.count(True)
    ((last, metered, fair, inactive),) = yield Statement(_SQL["places"], (count,))
    if inactive and not of_any_kind:
        yield from _refuse_inactive(jobs)
    following = iter(spread(last, count))
    places = [next(following) if place else None for place in placed]
    yield from name_tenants(jobs, now)
    if tied or metered or fair:
        return (yield from enqueue_tied(jobs, group, starts, places, now, metered=metered, fair=fair, parents=parents))
    return (yield from _enqueue_plain(jobs, starts, places, now))


def _enqueue_one(job: NewJob, now: int) -> Steps[list[Enqueued]]:
    """The same with less ado for one plain job of the default tenant that starts at once, as most do."""
    ((place, metered, fair, inactive),) = yield Statement(_SQL["places"], (1,))
    if metered or fair or inactive:  # it gets another place there, and this one stays empty
        return (yield from enqueue_jobs((job,), None, now, tied=False))
    if (yield from insert_all("insert", (plain_row(job, now, None, "queued", place),))):
        return [Enqueued(job.id, "queued", True)]
    return (yield from answers((job,), 0))


def _refuse_inactive(jobs: Sequence[NewJob]) -> Steps[None]:
    rows = yield Statement(_SQL["inactive"], (json_list(sorted({job.kind for job in jobs})),))
    if rows:
        kind = rows[0][0]
        raise NotAllowed(f'kind "{kind}" is not active: nothing was enqueued; headway definitions activate {kind}')


def _enqueue_plain(
    jobs: Sequence[NewJob], starts: Sequence[int | None], places: Sequence[int | None], now: int
) -> Steps[list[Enqueued]]:
    rows: list[Row] = []
    for job, start, place in zip(jobs, starts, places, strict=True):
        status: Status = "scheduled" if place is None else "queued"
        rows.append(plain_row(job, now, start, status, place))
    new = yield from insert_all("insert", rows)
    if new == len(rows):
        return [Enqueued(row[0], row[4], True) for row in rows]
    return (yield from answers(jobs, new))
