"""Turns: the moves of machines whose step had an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headway.model.machine import Turn
from headway.model.status import FINISHED
from headway.store.ops import Batch, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import positions
from headway.store.sqlite.jobs.insert import match_flag, names_text
from headway.store.sqlite.order.departures import Tied

if TYPE_CHECKING:
    from headway.store.sqlite.jobs.ending import Ending

_SQL = statements("machines/turns")
_GUARD = statements("jobs/change")["guard"]


def place_anew(turned: Sequence[Ending], tied: Mapping[int, Tied]) -> Steps[None]:
    """Let those that take the next step only after the others of their queue stand at its end; a car keeps its seat."""
    ends = [end for end in turned if end.to == "queued" and end.turn is not None and end.turn.outcome == "next"]
    ends = [end for end in ends if not (end.job.followed and tied[end.job.rowid].train is not None)]
    for end, position in zip(ends, (yield from positions(len(ends))), strict=True):
        end.position = position


def write_turns(turned: Sequence[Ending], now: int) -> Steps[None]:
    """Write the moves with where the machines are then."""
    batches: dict[str, list[tuple[Any, ...]]] = {"finish": [], "again": [], "go_on": []}
    for end in turned:
        if end.turn is None:
            continue
        place = _place(end, end.turn, now)
        if end.to in FINISHED:
            rest = (end.to, now, end.charge, end.loss, end.result, end.error, end.drops_key)
            batches["finish"].append((*place, *rest))
        elif end.to == "running":
            batches["go_on"].append((*place, now, end.charge, end.loss, end.error))
        else:
            batches["again"].append((*place, *_again(end, end.turn, now)))
    for name, rows in batches.items():
        if rows:
            yield Batch(_SQL[name], rows)


def go_elsewhere(turned: Sequence[Ending]) -> Steps[None]:
    """Put those into another queue and partition whose next step has its own, or that come home."""
    moves = [
        (end.job.rowid, turn.queue, turn.partition, turn.home_queue, turn.home_partition)
        for end in turned
        if (turn := end.turn) is not None and turn.queue is not None
    ]
    if moves:
        yield Batch(_SQL["go_to"], moves)
        yield Batch(_GUARD, [(rowid,) for rowid, *_ in moves])


def spawns(turn: Turn) -> bool:
    return turn.outcome == "spawn"


def _place(end: Ending, turn: Turn, now: int) -> tuple[Any, ...]:
    # the deadline is over with the wait
    waits = turn.deadline_ms is not None and end.woken is None
    return (
        end.job.rowid,
        turn.progress,
        turn.step,
        turn.version,
        turn.state,
        names_text(turn.awaiting),
        match_flag(turn.match),
        now + turn.deadline_ms * 1000 if waits and turn.deadline_ms is not None else None,
        end.job.fence if spawns(turn) else None,
        end.woken,
    )


def _again(end: Ending, turn: Turn, now: int) -> tuple[Any, ...]:
    return (
        end.to,
        now + end.delay_ms * 1000 if end.to == "scheduled" else None,
        now if end.to == "queued" else None,
        end.position,
        end.charge,
        end.loss,
        end.error,
        end.to == "waiting" and spawns(turn),
    )
