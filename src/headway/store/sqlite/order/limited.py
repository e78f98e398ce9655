"""Limited jobs: queued ones that wait for a full limit, out of the claim's sight until there is room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements

_SQL = statements("order/limited")

ALL = 1 << 62
"""All of them."""


def let_in(freed: Mapping[str, int]) -> Steps[None]:
    """Admit as many jobs as each key has free slots, in every queue that has some: the first claim gets the slot."""
    found: list[tuple[int]] = []
    places: list[tuple[str, str, int]] = []
    for key, count, rowid, queue, last in (yield Statement(_SQL["first"], (msgspec.json.encode(freed).decode(),))):
        if count == 1 and queue == last:
            found.append((rowid,))
            continue
        places.append((key, queue, count))
        while queue != last:
            ((queue,),) = yield Statement(_SQL["next_queue"], (key, queue))
            places.append((key, queue, count))
    if places:
        found += yield Batch(_SQL["of_queue"], places)
    if found:
        yield Batch(_SQL["let_in"], found)


def put_aside(jobs: Iterable[tuple[int, str]]) -> Steps[None]:
    """Mark each of these jobs (by rowid) as limited by a key."""
    yield Batch(_SQL["put_aside"], list(jobs))


def keys_aside(after: str, limit: int) -> Steps[list[str]]:
    """The next keys, in order, that limit queued jobs."""
    rows = yield Statement(_SQL["keys"], (after, limit))
    return [key for (key,) in rows]
