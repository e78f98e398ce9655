"""Settle: write how executions ended, outcomes as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from headway.model.job import SettledAndClaimed, Settlement
from headway.model.machine import Settled
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.postgres.engine.arrays import column
from headway.store.postgres.jobs.claim import CLAIM, read_claims
from headway.store.postgres.machines.children import spawn
from headway.store.postgres.machines.turns import is_childless, turn_json

_OUTCOMES = (
    "$1::uuid, $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::integer[], $7::bigint[], $8::json[], $9::text[],"
    " $10::integer[], $11::text[], $12::text[], $13::jsonb[], $14::json[], $15::integer[]"
)
_SETTLE = f"select * from headway.settle({_OUTCOMES})"  # noqa: S608 - texts of this file
# for halves of a batch, of which many may have to wait one after another
_SETTLE_BRIEFLY = f"select * from headway.settle({_OUTCOMES}, p_patience => '20ms')"  # noqa: S608 - texts of this file
_SETTLE_AND_CLAIM = f"""
select s.id, s.fence, s.verdict, s.signals, (s.claim).*
  from headway.settle_and_claim($16, $17::integer, {_OUTCOMES}, p_flows => true) s
"""  # noqa: S608 - texts of this file
_SUCCEED = "select * from headway.succeed($1::uuid, $2::uuid[], $3::integer[], $4::json[])"
_SETTLE_AND_SUCCEED = f"""
{_SETTLE}
union all
select * from headway.succeed($1::uuid, $16::uuid[], $17::integer[], $18::json[])
"""  # noqa: S608 - texts of this file
_BUSY = frozenset({"55P03", "40P01"})  # lock timeout, deadlock
_SAID = attrgetter(
    "status", "to", "fence", "charge", "delay_ms", "error", "exit_code", "stdout_tail", "stderr_tail", "pid", "turn"
)
_NOTHING_SAID = ("succeeded", "succeeded", 1, 0, 0, None, None, None, None, None, None)


class SettleVerbs:
    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[Settled]:
        def steps() -> Steps[Settled]:
            return settle_steps(worker_id, settlements)

        if _spawns(settlements):
            return Op(steps, writes=True, atomic=True)
        return Op(steps, writes=True, fallback=Op(lambda: _settle_by_halves(worker_id, settlements), writes=True))

    def settle_and_claim(
        self, worker_id: str, settlements: Sequence[Settlement], queue: str, limit: int
    ) -> Op[SettledAndClaimed]:
        def at_once() -> Steps[SettledAndClaimed]:
            rows = yield Statement(_SETTLE_AND_CLAIM, [*_arrays(worker_id, settlements), queue, limit])
            settled = [row[:4] for row in rows if row[2] is not None]
            return SettledAndClaimed(_settled(settled), read_claims([row[4:] for row in rows if row[2] is None]))

        def one_by_one() -> Steps[SettledAndClaimed]:
            settled = yield from settle_steps(worker_id, settlements)
            return SettledAndClaimed(settled, read_claims((yield Statement(CLAIM, [worker_id, queue, limit]))))

        def without_claim() -> Steps[SettledAndClaimed]:
            return SettledAndClaimed((yield from _settle_by_halves(worker_id, settlements)), [])

        # the children are enqueued by further statements, in the same transaction
        if _spawns(settlements):
            return Op(one_by_one, writes=True, repeatable=False, atomic=True)
        return Op(at_once, writes=True, repeatable=False, fallback=Op(without_claim, writes=True))


def _spawns(settlements: Sequence[Settlement]) -> bool:
    return any(s.turn is not None and s.turn.children for s in settlements)


def settle_steps(worker_id: str, settlements: Sequence[Settlement]) -> Steps[Settled]:
    plain = [s for s in settlements if _is_plain(s)]
    if len(plain) == len(settlements):
        return _settled((yield Statement(_SUCCEED, [worker_id, *_succeeding(plain)])))
    if plain:
        settlements = [s for s in settlements if not _is_plain(s)]
        request = Statement(_SETTLE_AND_SUCCEED, [*_arrays(worker_id, settlements), *_succeeding(plain)])
    else:
        request = Statement(_SETTLE, _arrays(worker_id, settlements))
    rows = yield request
    parked = {(job_id, fence) for job_id, fence, verdict, _ in rows if verdict == "parked"}
    if parked:
        yield from spawn([s for s in settlements if (s.id, s.fence) in parked])
    return _settled(rows)


def _settle_by_halves(worker_id: str, settlements: Sequence[Settlement]) -> Steps[Settled]:
    """Halve the batch until what somebody's open transaction blocks stands alone and is `busy`; write the rest."""
    try:
        return _settled((yield Statement(_SETTLE_BRIEFLY, _arrays(worker_id, settlements))))
    except Exception as error:
        if getattr(error, "sqlstate", None) not in _BUSY:
            raise
    if len(settlements) == 1:
        return Settled([], {}, [(settlements[0].id, settlements[0].fence)])
    middle = len(settlements) // 2
    first = yield from _settle_by_halves(worker_id, settlements[:middle])
    second = yield from _settle_by_halves(worker_id, settlements[middle:])
    return Settled(first.lost + second.lost, first.continued | second.continued, first.busy + second.busy)


def _is_plain(settlement: Settlement) -> bool:
    """Whether it may take the fast path: a plain job that succeeded at its first attempt."""
    return _SAID(settlement) == _NOTHING_SAID and not settlement.followed


def _succeeding(settlements: Sequence[Settlement]) -> list[Any]:
    return [[s.id for s in settlements], [s.fence for s in settlements], column(settlements, "result", None)]


def _arrays(worker_id: str, settlements: Sequence[Settlement]) -> list[Any]:
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
