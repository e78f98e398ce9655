"""Turns: reads a machine's checkpoint for a claim, and writes its turn at the end of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headway.model.departure import LeavingJob
from headway.model.job import Settlement
from headway.model.machine import Checkpoint, Turn, Woken
from headway.model.signal import Received, satisfied
from headway.model.status import FINISHED
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.decode import to_match, to_names
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.insert import match_flag, names_text
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.machines.inbox import consume, inboxes, names_there
from headway.store.sqlite.order.limit_waiters import guard_queues_of

if TYPE_CHECKING:
    from headway.store.sqlite.jobs.ending import Ending

_SQL = statements("machines/turns")
_encode = msgspec.json.Encoder().encode
_NO_STATE = Checkpoint().state  # this very object is the default, which is left out of the JSON


def requeue_last(turned: Sequence[Ending], leaving: Mapping[int, LeavingJob]) -> Steps[None]:
    """Give machines that queue for their next step a position behind the others; a car keeps its own."""
    ends = [end for end in turned if end.to == "queued" and end.turn is not None and end.turn.outcome == "next"]
    ends = [end for end in ends if not (end.job.followed and leaving[end.job.rowid].train is not None)]
    for end, position in zip(ends, (yield from positions(len(ends))), strict=True):
        end.position = position


def write_turns(turned: Sequence[Ending], now: int) -> Steps[None]:
    """Write the moves, with the machines' new checkpoints."""
    batches: dict[str, list[tuple[Any, ...]]] = {"finish": [], "again": [], "go_on": []}
    for end in turned:
        if end.turn is None:
            continue
        checkpoint = _checkpoint_columns(end, end.turn, now)
        if end.to in FINISHED:
            slept_until = now + end.delay_ms * 1000 if end.turn.outcome == "sleep" else None
            rest = (end.to, now, end.charge, end.loss, end.result, end.error, end.drops_key, slept_until)
            batches["finish"].append((*checkpoint, *rest))
        elif end.to == "running":
            batches["go_on"].append((*checkpoint, now, end.charge, end.loss, end.error))
        else:
            batches["again"].append((*checkpoint, *_again(end, end.turn, now)))
    for name, rows in batches.items():
        if rows:
            yield Batch(_SQL[name], rows)


def change_queues(turned: Sequence[Ending]) -> Steps[None]:
    """Move machines whose next step has its own queue and partition, or that return to their home ones."""
    moves = [
        (end.job.rowid, turn.queue, turn.partition, turn.home_queue, turn.home_partition)
        for end in turned
        if (turn := end.turn) is not None and turn.queue is not None
    ]
    if moves:
        yield Batch(_SQL["go_to"], moves)
        yield guard_queues_of(rowid for rowid, *_ in moves)


def spawns(turn: Turn) -> bool:
    return turn.outcome == "spawn"


def _checkpoint_columns(end: Ending, turn: Turn, now: int) -> tuple[Any, ...]:
    # a machine that is woken at once has no deadline
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


def read_checkpoints(ids: Sequence[str]) -> Steps[dict[str, str]]:
    """The checkpoints of these jobs, with their inboxes, as JSON; of machines, children, and jobs with signals only."""
    rows = yield Statement(_SQL["checkpoints"], (json_list(ids),))
    signals = yield from inboxes(ids, {row[0]: to_names(row[4]) for row in rows if row[4] is not None})
    return {
        row[0]: _checkpoint_json(*row[1:], signals=signals.get(row[0], ()))
        for row in rows
        if row[2] is not None or row[-1] is not None or row[0] in signals
    }


def prepare_turns(
    endings: Sequence[Ending], attempts: Sequence[tuple[Any, ...]], now: int
) -> Steps[dict[str, tuple[Received, ...]]]:
    """Write the attempts, consume the signals, and decide what depends on what is left or on where they run.

    Gives the inboxes of those that go on."""
    yield from write_machine_attempts(attempts)
    turned = [(end, end.turn) for end in endings if end.turn is not None]
    yield from consume([(signal, end.job.id, end.job.fence, now) for end, turn in turned for signal in turn.consumed])
    awaits = [(end, turn) for end, turn in turned if end.to == "waiting" and turn.awaiting]
    if awaits:
        there = yield from names_there([end.job.id for end, _ in awaits])
        for end, turn in awaits:
            if satisfied(turn.awaiting, turn.match, there.get(end.job.id, ())):
                end.to, end.woken = "queued", "signal"
    moving = {end.job.rowid: (end, turn) for end, turn in turned if end.to == "running" and turn.queue is not None}
    if moving:
        for rowid, queue, partition in (yield Statement(_SQL["queues"], (json_list(list(moving)),))):
            end, turn = moving[rowid]
            if (queue, partition) != (turn.queue, turn.partition):
                end.to = "queued"  # the new queue and partition have their own limits, which only a claim checks
    going = [end.job.id for end, _ in turned if end.to == "running"]
    return (yield from inboxes(going)) if going else {}


def attempt_of_machine(attempt: Sequence[Any], end: Ending, settlement: Settlement | None) -> tuple[Any, ...]:
    """A machine's attempt row, from a plain job's."""
    turn = None if settlement is None else settlement.turn
    if turn is None:
        return (*attempt, None, None, None, None, None, end.job.rowid)
    return (*attempt, turn.ran, turn.version, turn.outcome, turn.note, turn.state, end.job.rowid)


def write_machine_attempts(attempts: Sequence[tuple[Any, ...]]) -> Steps[None]:
    """Write machines' attempts. Before the job moves: the step and version that a turn does not name are its row's."""
    if attempts:
        yield Batch(_SQL["attempt"], attempts)


def _checkpoint_json(
    version: int | None,
    step: str | None,
    state: str | None,
    awaiting: str | None,
    match_all: int | None,
    joining: int | None,
    woken: Woken | None,
    partition: str | None,
    home_queue: str | None,
    home_partition: str | None,
    forked_from: str | None,
    parent_id: str | None,
    *,
    signals: tuple[Received, ...],
) -> str:
    checkpoint = Checkpoint(
        version=version,
        step=step,
        awaiting=to_names(awaiting),
        match=to_match(match_all),
        joining=joining,
        woken=woken,
        partition=partition,
        home_queue=home_queue,
        home_partition=home_partition,
        forked_from=forked_from,
        parent_id=parent_id,
        signals=signals,
        state=_NO_STATE if state is None else msgspec.Raw(state.encode()),
    )
    return _encode(checkpoint).decode()
