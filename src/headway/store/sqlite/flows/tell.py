"""Tells flows, by signals of the engine, that a child is over or that they shall end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headway.model.departure import Departure
from headway.model.ids import new_id
from headway.model.journal import CANCEL, CHILD
from headway.store.ops import Batch, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.machines.wake import wake_signaled

_SQL = statements("flows/tell")


def tell_flows(called: Iterable[tuple[str, str]], now: int) -> Batch:
    """Tells flows that children are over, each a flow and its child; one that was told before is told again. The caller
    wakes them."""
    return Batch(
        _SQL["child"], [(new_id(), flow, CHILD, _text(child), f"{CHILD}:{child}", now) for flow, child in called]
    )


def ask_flows(ids: Sequence[str], reason: str | None, now: int) -> Steps[list[Departure]]:
    """Ask these unfinished flows to end, unless they were asked, and wake them; gives those that ended instead, because
    another job has their unique key. They do not expire any more: none would be claimed."""
    if not ids:
        return []
    yield Batch(_SQL["cancel"], [(new_id(), flow, CANCEL, _text(reason or "canceled"), now) for flow in ids])
    yield Batch(_SQL["lasts"], [(flow,) for flow in ids])
    return (yield from wake_signaled(ids, now))


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()
