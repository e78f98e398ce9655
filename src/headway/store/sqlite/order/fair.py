"""Fair queues: where jobs of two tenants wait, tenants are served in turn, whatever their backlogs.

The index jobs_fair has the jobs that are marked: those of every tenant but the default one from the start, those of the
default tenant from the first claim on that meets another tenant's in the queue. So an installation without tenants, and
a queue that only the default tenant uses, have nothing in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record_setting
from headway.store.sqlite.order.capacity import Candidate

_SQL = statements("order/fair")
_MARKS = ("mark_queued", "mark_limited", "mark_scheduled", "mark_parked", "mark_running")
_AT_ONCE = 10_000  # jobs that one claim marks
_FIRST = 10_000  # jobs of a tenant that a claim of some kinds looks at
_FIRST_IN_TURN, _TENANTS_OF_KINDS = 1_000, 100  # of each of so many, where tenants take turns


class FairVerbs(Verbs):
    def set_fair(self, queue: str, fair: bool, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["set"], (queue, int(not fair)))
            yield record_setting(self._clock.now(), queue, actor, "fair" if fair else "not fair")

        return SqliteOp(steps, writes=True)


def index_tenants(queue: str) -> Steps[bool]:
    """Mark the jobs of a queue that are not, a part at a time; whether all are marked now. From then on each enqueue
    marks its own."""
    for mark in _MARKS:
        yield Statement(_SQL[mark], (queue, _AT_ONCE))
        ((marked,),) = yield Statement(_SQL["changes"])
        if marked == _AT_ONCE:
            return False
    yield Statement(_SQL["set_indexed"], (queue,))
    return True


def pick_in_turn(queue: str, count: int, now: int, *, flows: bool) -> Steps[list[Candidate]]:
    """The next candidates: one of each tenant in turn, beginning after the one served last."""
    ((turn,),) = yield Statement(_SQL["turn"], (queue,))
    waiting = yield from _tenants(queue, turn or "", count)
    picked: list[Candidate] = []
    depth = 0
    while waiting and len(picked) < count:
        each = -(-(count - len(picked)) // len(waiting))
        rows = yield Batch(_SQL["candidates"], [(queue, tenant, now, each, depth, flows) for tenant in waiting])
        found: dict[str, list[Candidate]] = {tenant: [] for tenant in waiting}
        for row in rows:
            job = Candidate(*row)
            found[job.tenant_id].append(job)
        for served in zip_longest(*found.values()):
            picked += [job for job in served if job is not None]
        depth += each
        waiting = [tenant for tenant in waiting if len(found[tenant]) == each]
    return picked[:count]


def pick_of_tenant(queue: str, tenant_id: str, count: int, now: int, *, flows: bool) -> Steps[list[Candidate]]:
    """The next candidates of one tenant."""
    rows = yield Statement(_SQL["candidates"], (queue, tenant_id, now, count, 0, flows))
    return [Candidate(*row) for row in rows]


def pick_kinds_in_turn(
    queue: str, kinds: Sequence[str], count: int, now: int, *, flows: bool
) -> Steps[list[Candidate]]:
    """The same of some kinds, among the first jobs of each of some tenants."""
    ((turn,),) = yield Statement(_SQL["turn"], (queue,))
    waiting = yield from _tenants(queue, turn or "", _TENANTS_OF_KINDS)
    asked = json_list(kinds)
    rows = yield Batch(
        _SQL["candidates_of_kinds"], [(queue, tenant, now, count, asked, _FIRST_IN_TURN, flows) for tenant in waiting]
    )
    found: dict[str, list[Candidate]] = {tenant: [] for tenant in waiting}
    for row in rows:
        job = Candidate(*row)
        found[job.tenant_id].append(job)
    picked = [job for served in zip_longest(*found.values()) for job in served if job is not None]
    if waiting and not picked:  # there may be more tenants
        yield serve(queue, waiting[-1])
    return picked[:count]


def pick_kinds_of_tenant(
    queue: str, tenant_id: str, kinds: Sequence[str], count: int, now: int, *, flows: bool
) -> Steps[list[Candidate]]:
    """The next candidates of one tenant and of some kinds, among its first jobs."""
    rows = yield Statement(_SQL["candidates_of_kinds"], (queue, tenant_id, now, count, json_list(kinds), _FIRST, flows))
    return [Candidate(*row) for row in rows]


def serve(queue: str, tenant_id: str) -> Statement:
    """Records which tenant was served last."""
    return Statement(_SQL["set_turn"], (queue, tenant_id))


def _tenants(queue: str, turn: str, count: int) -> Steps[list[str]]:
    """Up to `count` tenants that have queued jobs, beginning after `turn` and wrapping around."""
    ahead = [tenant for (tenant,) in (yield Statement(_SQL["tenants"], (queue, turn, count)))]
    if len(ahead) == count or not turn:
        return ahead
    behind = [tenant for (tenant,) in (yield Statement(_SQL["tenants"], (queue, "", count - len(ahead))))]
    return ahead + [tenant for tenant in behind if tenant <= turn]
