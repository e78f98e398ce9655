"""Settle: write how executions ended, outcomes as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from headway.model.job import Claim, Settlement
from headway.model.machine import Settled
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.postgres.engine.arrays import column
from headway.store.postgres.jobs.claim import CLAIM, read_claims
from headway.store.postgres.machines.children import spawn
from headway.store.postgres.machines.turns import is_childless, turn_json

_SETTLE = (
    "select * from headway.settle($1::uuid, $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::integer[],"
    " $7::bigint[], $8::json[], $9::text[], $10::integer[], $11::text[], $12::text[], $13::jsonb[], $14::json[],"
    " $15::integer[])"
)
_SETTLE_AND_CLAIM = (
    "select * from headway.settle_and_claim($16, $17::integer, $1::uuid, $2::uuid[], $3::integer[], $4::text[],"
    " $5::text[], $6::integer[], $7::bigint[], $8::json[], $9::text[], $10::integer[], $11::text[], $12::text[],"
    " $13::jsonb[], $14::json[], $15::integer[])"
)
_APART = _SETTLE.replace("headway.settle", "headway.settle_apart")
_SUCCEED = "select * from headway.succeed($1::uuid, $2::uuid[], $3::integer[], $4::json[])"
_AND_SUCCEED = " union all select * from headway.succeed($1::uuid, $16::uuid[], $17::integer[], $18::json[])"
_SAID = attrgetter(
    "status", "to", "fence", "charge", "delay_ms", "error", "exit_code", "stdout_tail", "stderr_tail", "pid", "turn"
)
_NOTHING_SAID = ("succeeded", "succeeded", 1, 0, 0, None, None, None, None, None, None)


class SettleVerbs:
    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[Settled]:
        spawns = _spawns(settlements)
        apart = None if spawns else _apart(worker_id, settlements)
        return Op(lambda: _settle(worker_id, settlements), writes=True, atomic=spawns, apart=apart)

    def settle_and_claim(
        self, worker_id: str, settlements: Sequence[Settlement], queue: str, limit: int
    ) -> Op[tuple[Settled, list[Claim]]]:
        def at_once() -> Steps[tuple[Settled, list[Claim]]]:
            rows = yield Statement(_SETTLE_AND_CLAIM, [*_settling(worker_id, settlements), queue, limit])
            # a row without a kind is no claim, but what became of a settlement
            answers = [(row[0], row[5], row[13], row[18]) for row in rows if row[2] is None]
            return _settled(answers), read_claims([row for row in rows if row[2] is not None])

        def one_by_one() -> Steps[tuple[Settled, list[Claim]]]:
            yield Statement("select headway.lock_claim($1)", [queue])
            settled = yield from _settle(worker_id, settlements)
            return settled, read_claims((yield Statement(CLAIM, [worker_id, queue, limit])))

        def only_settled() -> Steps[tuple[Settled, list[Claim]]]:
            return (yield from _settle_apart(worker_id, settlements)), []

        spawns = _spawns(settlements)
        apart = None if spawns else Op(only_settled, writes=True)
        return Op(one_by_one if spawns else at_once, writes=True, repeatable=False, atomic=spawns, apart=apart)


def _spawns(settlements: Sequence[Settlement]) -> bool:
    return any(s.turn is not None and s.turn.children for s in settlements)


def _settle(worker_id: str, settlements: Sequence[Settlement]) -> Steps[Settled]:
    plain = [s for s in settlements if _is_plain(s)]
    if len(plain) == len(settlements):
        return _settled((yield Statement(_SUCCEED, [worker_id, *_succeeding(plain)])))
    if plain:
        settlements = [s for s in settlements if not _is_plain(s)]
        request = Statement(_SETTLE + _AND_SUCCEED, [*_settling(worker_id, settlements), *_succeeding(plain)])
    else:
        request = Statement(_SETTLE, _settling(worker_id, settlements))
    rows = yield request
    parked = {(job_id, fence) for job_id, fence, verdict, _ in rows if verdict == "parked"}
    if parked:
        yield from spawn([s for s in settlements if (s.id, s.fence) in parked])
    return _settled(rows)


def _apart(worker_id: str, settlements: Sequence[Settlement]) -> Op[Settled]:
    return Op(lambda: _settle_apart(worker_id, settlements), writes=True)


def _settle_apart(worker_id: str, settlements: Sequence[Settlement]) -> Steps[Settled]:
    return _settled((yield Statement(_APART, _settling(worker_id, settlements))))


def _is_plain(settlement: Settlement) -> bool:
    """Whether it may be of a plain job that succeeded at once, for which there is a shorter way."""
    return _SAID(settlement) == _NOTHING_SAID and not settlement.followed


def _succeeding(settlements: Sequence[Settlement]) -> list[Any]:
    return [[s.id for s in settlements], [s.fence for s in settlements], column(settlements, "result", None)]


def _settling(worker_id: str, settlements: Sequence[Settlement]) -> list[Any]:
    turns = [s.turn for s in settlements]
    return [
        worker_id,
        [s.id for s in settlements],
        [s.fence for s in settlements],
        [s.status for s in settlements],
        ["queued" if is_childless(s.turn) else s.to for s in settlements],
        column(settlements, "charge", 0),
        column(settlements, "delay_ms", 0),
        column(settlements, "result", None),
        column(settlements, "error", None),
        column(settlements, "exit_code", None),
        column(settlements, "stdout_tail", None),
        column(settlements, "stderr_tail", None),
        None if turns.count(None) == len(turns) else [turn and turn_json(turn) for turn in turns],
        None if turns.count(None) == len(turns) else [turn and turn.state for turn in turns],
        column(settlements, "pid", None),
    ]


def _settled(rows: Rows) -> Settled:
    return Settled(
        [(job_id, fence) for job_id, fence, verdict, _ in rows if verdict == "lost"],
        {job_id: signals for job_id, _, verdict, signals in rows if verdict == "continued"},
        [(job_id, fence) for job_id, fence, verdict, _ in rows if verdict == "busy"],
    )
