"""Children: the jobs that a machine spawned and waits for; they are canceled if it ends first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.model.departure import Departure
from headway.model.machine import Began, Child
from headway.model.reasons import ended_by, not_needed
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.sqlite.engine.decode import to_child
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.early_end import end_early
from headway.store.sqlite.machines.wake import Waiting, wake
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.joins import read_statuses
from headway.store.sqlite.order.leaving_jobs import leaving_jobs

_SQL = statements("machines/children")


class ChildVerbs(Verbs):
    def children(self, job_id: str, *, fence: int | None, tenant_id: str | None, raw: bool = False) -> Op[list[Child]]:
        def steps() -> Steps[list[Child]]:
            at = fence
            if at is None:
                rows = yield Statement(_SQL["joining"], (job_id, tenant_id))
                at = rows[0][0] if rows else None
            if at is None:
                return []
            spawner = yield Statement(_SQL["spawner"], (job_id, at, tenant_id))
            if not spawner:
                return []
            rows = yield Statement(_SQL["children"], (spawner[0][0], at))
            return [to_child(row, raw) for row in rows]

        return SqliteOp(steps, writes=False)

    def began(self, job_id: str, *, tenant_id: str | None) -> Op[Began]:
        def steps() -> Steps[Began]:
            rows = yield Statement(_SQL["began"], (job_id, tenant_id))
            text = rows[0][0] if rows else None
            return Began() if text is None else msgspec.json.decode(text, type=Began)

        return SqliteOp(steps, writes=False)

    def spawned(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[int, str]]]:
        def steps() -> Steps[list[tuple[int, str]]]:
            rows = yield Statement(_SQL["spawned"], (job_id, tenant_id))
            return [(fence, child_id) for fence, child_id in rows]

        return SqliteOp(steps, writes=False)


def join(machines: Sequence[str], now: int) -> Steps[list[Departure]]:
    """Wake those of these machines whose children are all over, or enough of them; gives the machines that ended
    instead, and the children that are not needed any more."""
    ended: list[Departure] = []
    for machine, fence in (yield Statement(_SQL["decided"], (json_list(machines),))):
        yield Statement(_SQL["leave"], (machine, fence))
        ended += yield from _stop_left(machine, now)
    rows = yield Statement(_SQL["joined"], (json_list(machines),))
    return ended + (yield from wake([Waiting(*row) for row in rows], "children", now))


def stop_siblings(failed: Mapping[str, str], now: int) -> Steps[list[Departure]]:
    """Cancel the other children of machines that a child failed; gives those that ended."""
    if not failed:
        return []
    statuses = yield from read_statuses(failed.values())
    ended: list[Departure] = []
    for machine, child_id in failed.items():
        why = ended_by(child_id, statuses.get(child_id))
        ended += yield from _stop_children(machine, why, now)
    return ended


def stop_orphans(over: Iterable[Departure], now: int) -> Steps[list[Departure]]:
    """Cancel the children of machines and flows that ended while they waited for them; gives those that ended."""
    ended: list[Departure] = []
    for left in over:
        if left.job.status == "waiting" or left.job.calls:
            why = ended_by(left.job.id, left.to)
            ended += yield from _stop_children(left.job.id, why, now)
    return ended


def stop_more(machine: str, now: int) -> Steps[list[Departure]]:
    """Cancel the next piece of children of a machine that ended, that a child failed, or that went on without them;
    gives those that ended."""
    ended = yield from _stop_left(machine, now)
    rows = yield Statement(_SQL["stopped_by"], (machine,))
    if not rows:
        return ended
    job_id, status = rows[0]
    return ended + (yield from _stop_children(machine, ended_by(job_id, status), now))


def await_again(machines: Iterable[str]) -> Steps[None]:
    """Make these machines, which wait again, wait for children that were retried meanwhile, too."""
    for machine in machines:
        yield Statement(_SQL["await_again"], (machine,))


def _stop_children(machine: str, why: str, now: int) -> Steps[list[Departure]]:
    return (yield from _stop((yield Statement(_SQL["siblings"], (machine, postponed.PIECE))), machine, why, now))


def _stop_left(machine: str, now: int) -> Steps[list[Departure]]:
    return (
        yield from _stop((yield Statement(_SQL["left"], (machine, postponed.PIECE))), machine, not_needed(machine), now)
    )


def _stop(rows: Rows, machine: str, why: str, now: int) -> Steps[list[Departure]]:
    if not rows:
        return []
    if len(rows) == postponed.PIECE:
        yield from postponed.postpone("orphaned", [machine])
    leaving = yield from leaving_jobs(rowid for (rowid,) in rows)
    return (yield from end_early(leaving.values(), why, now))
