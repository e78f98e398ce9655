"""Machines: where a claim finds one, and what a turn writes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.model.job import Claim, Settlement
from headway.model.machine import Place, Woken
from headway.model.signal import Received, satisfied
from headway.store.ops import Batch, Rows, Statement, Steps
from headway.store.sqlite.engine.decode import to_claim
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.ending import Ending
from headway.store.sqlite.machines.inbox import consume, inboxes, names_there, to_match, to_names

_SQL = statements("machines/turns")
_encode = msgspec.json.Encoder().encode
_NO_STATE = Place().state  # the very default, which is left out of the JSON


def to_claims(rows: Rows, begin: int) -> Steps[list[Claim]]:
    """The claims of these rows, each from column `begin` on; the last column says which may have a place."""
    ids = [row[begin] for row in rows if row[-1]]
    if not ids:
        return [to_claim(row, begin) for row in rows]
    places = yield from read_places(ids)
    return [to_claim(row, begin, places.get(row[begin])) for row in rows]


def read_places(ids: Sequence[str]) -> Steps[dict[str, str]]:
    """Where these are, with their inboxes, as JSON: machines, children, and others if they have signals."""
    rows = yield Statement(_SQL["places"], (json_list(ids),))
    signals = yield from inboxes(ids, {row[0]: to_names(row[4]) for row in rows if row[4] is not None})
    return {
        row[0]: _place(*row[1:], signals=signals.get(row[0], ()))
        for row in rows
        if row[2] is not None or row[-1] is not None or row[0] in signals
    }


def prepare_turns(endings: Sequence[Ending], now: int) -> Steps[dict[str, tuple[Received, ...]]]:
    """Consume what these turns consume, and decide what depends on what is left or on where they run.

    Gives the inboxes of those that go on."""
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
        for rowid, queue, partition in (yield Statement(_SQL["stands"], (json_list(list(moving)),))):
            end, turn = moving[rowid]
            if (queue, partition) != (turn.queue, turn.partition):
                end.to = "queued"  # its new place has limits of its own, which only a claim minds
    going = [end.job.id for end, _ in turned if end.to == "running"]
    return (yield from inboxes(going)) if going else {}


def attempt_of_machine(attempt: Sequence[Any], end: Ending, settlement: Settlement | None) -> tuple[Any, ...]:
    """The parameters of a machine's attempt, from those of any job's."""
    turn = None if settlement is None else settlement.turn
    if turn is None:
        return (*attempt, None, None, None, None, None, end.job.rowid)
    return (*attempt, turn.ran, turn.version, turn.outcome, turn.note, turn.state, end.job.rowid)


def write_attempts(attempts: Sequence[tuple[Any, ...]]) -> Steps[None]:
    """To be written before the job moves: what they do not say is taken from it."""
    if attempts:
        yield Batch(_SQL["attempt"], attempts)


def _place(
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
    place = Place(
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
    return _encode(place).decode()
