"""Limited jobs: queued ones that wait for a full limit, out of the claim's sight until there is room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.model.limit import tenant_key
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.capacity import Candidate, running_of

_SQL = statements("order/limit_waiters")

ALL = 1 << 62
"""All of them."""


def admit(freed: Mapping[str, int]) -> Steps[None]:
    """Admit as many jobs as each key has free slots, in every queue that has some: the first claim gets the slot."""
    found: list[tuple[int]] = []
    queues: list[tuple[str, str, int]] = []
    for key, count, rowid, queue, last in (yield Statement(_SQL["first"], (msgspec.json.encode(freed).decode(),))):
        if count == 1 and queue == last:
            found.append((rowid,))
            continue
        queues.append((key, queue, count))
        while queue != last:
            ((queue,),) = yield Statement(_SQL["next_queue"], (key, queue))
            queues.append((key, queue, count))
    if queues:
        found += yield Batch(_SQL["of_queue"], queues)
    if found:
        yield Batch(_SQL["admit"], found)


def readmit_tenant(tenant_id: str) -> Steps[int]:
    """Admit the next piece of the jobs that a tenant's limit kept back; gives how many. Where a limit leaves room for
    no more than a piece, that many of every queue: the end of each job that runs admits another."""
    key = tenant_key(tenant_id)
    rows = yield Statement(_SQL["most_of_tenant"], (tenant_id,))
    if rows and rows[0][0] is not None:
        room: int = rows[0][0] - (yield from running_of(key))
        if room <= postponed.PIECE:
            yield from admit({key: max(0, room)})
            return max(0, room)
    found = yield Statement(_SQL["some_of_key"], (key, postponed.PIECE))
    if found:
        yield Batch(_SQL["admit"], found)
    if len(found) == postponed.PIECE:
        yield from postponed.postpone("resumed", [tenant_id])
    return len(found)


def mark_limited(jobs: Iterable[tuple[int, str]]) -> Steps[None]:
    """Mark each of these jobs (by rowid) as limited by a key."""
    yield Batch(_SQL["mark"], list(jobs))


def limited_keys(after: str, limit: int) -> Steps[list[str]]:
    """The next keys, in order, that limit queued jobs."""
    rows = yield Statement(_SQL["keys"], (after, limit))
    return [key for (key,) in rows]


def first_limited(keys: Sequence[str]) -> Steps[list[tuple[str, str, Candidate]]]:
    """(key, queue, job) of the first job that each of these keys limits, if any."""
    rows = yield Statement(_SQL["first_of_key"], (json_list(keys),))
    return [(row[0], row[1], Candidate(*row[2:])) for row in rows]


def guard_queues(queues: Iterable[str]) -> Batch:
    """Makes claims of these queues check partitions and limits."""
    return Batch(_SQL["guard"], [(queue,) for queue in queues])


def guard_queues_of(rowids: Iterable[int]) -> Batch:
    """The same for the queues of these jobs, if they have a partition or limits."""
    return Batch(_SQL["guard_of_job"], [(rowid,) for rowid in rowids])
