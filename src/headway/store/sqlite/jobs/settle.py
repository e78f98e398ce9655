"""Settle: writes how executions ended, in one batch; one with an old fence changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.model.job import SettledAndClaimed, Settlement
from headway.model.machine import Settled
from headway.model.status import AttemptStatus
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, json_list
from headway.store.sqlite.jobs.claim import ClaimVerbs
from headway.store.sqlite.jobs.ending import (
    Ending,
    Running,
    ending,
    read_running,
    write_attempts,
    write_attempts_alike,
    write_endings,
)
from headway.store.sqlite.machines.inbox import inboxes, to_text
from headway.store.sqlite.machines.spawn import spawn_children
from headway.store.sqlite.machines.turns import attempt_of_machine, prepare_turns
from headway.store.sqlite.order.follow import follow_ends

_SQL = statements("jobs/settle")


class SettleVerbs(ClaimVerbs):
    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[Settled]:
        def steps() -> Steps[Settled]:
            now = self._clock.now()
            running = yield from read_running([settlement.id for settlement in settlements])
            attempts: list[tuple[Any, ...]] = []
            of_machines: list[tuple[Any, ...]] = []
            turned: list[Ending] = []
            alike: dict[AttemptStatus, list[int]] = {}
            endings: list[Ending] = []
            strays: list[Settlement] = []
            for settlement in settlements:
                job = running.get(settlement.id)
                if job is None or job.fence != settlement.fence:
                    strays.append(settlement)
                    continue
                del running[job.id]
                end = ending(
                    job,
                    settlement.to,
                    settlement.status,
                    charge=settlement.charge,
                    delay_ms=settlement.delay_ms,
                    result=settlement.result,
                    error=settlement.error,
                    turn=settlement.turn,
                )
                if settlement.turn is not None or job.machine:
                    attempt = _attempt(end, settlement, now)
                    of_machines.append(attempt_of_machine(attempt, end, settlement))
                    turned.append(end)
                elif end.error is None and not settlement.has_output:
                    alike.setdefault(settlement.status, []).append(job.rowid)
                else:
                    attempts.append(_attempt(end, settlement, now))
                endings.append(end)
            for status, rowids in alike.items():
                yield write_attempts_alike(rowids, status, now)
            if attempts:
                yield write_attempts(attempts)
            unread = (yield from prepare_turns(turned, of_machines, now)) if turned else {}
            ends = yield from write_endings(endings, now)
            if ends is not None:
                yield from follow_ends(ends, now)
            if turned:
                yield from spawn_children(turned, now)
            continued = {end.job.id: to_text(unread.get(end.job.id)) for end in turned if end.to == "running"}
            if strays:
                lost, going = yield from _strays(worker_id, strays, running)
                return Settled(lost, continued | going)
            return Settled([], continued)

        return SqliteOp(steps, writes=True)

    def settle_and_claim(
        self, worker_id: str, settlements: Sequence[Settlement], queue: str, limit: int
    ) -> Op[SettledAndClaimed]:
        def steps() -> Steps[SettledAndClaimed]:
            settled = yield from self.settle(worker_id, settlements).steps()
            return SettledAndClaimed(settled, (yield from self.claim(worker_id, queue, limit).steps()))

        return SqliteOp(steps, writes=True, repeatable=False)


def _attempt(end: Ending, settlement: Settlement, now: int) -> tuple[Any, ...]:
    job = end.job
    return (
        job.id,
        job.fence,
        settlement.status,
        job.started_at,
        now,
        job.worker_id,
        end.error,
        settlement.exit_code,
        job.log_tail if settlement.stdout_tail is None else settlement.stdout_tail,
        settlement.stderr_tail,
        settlement.pid,
    )


def _strays(
    worker_id: str, strays: list[Settlement], running: Mapping[str, Running]
) -> Steps[tuple[list[tuple[str, int]], dict[str, str | None]]]:
    """The lost ones, and the inboxes of those that were settled before and are running their next step."""
    rows = yield Statement(_SQL["written"], (json_list([stray.id for stray in strays]), worker_id))
    written = {(job_id, fence) for job_id, fence in rows}
    lost: list[tuple[str, int]] = []
    going: list[str] = []
    for stray in strays:
        job = running.get(stray.id)
        if (stray.id, stray.fence) not in written:
            lost.append((stray.id, stray.fence))
        elif stray.to == "running" and job is not None and (job.fence, job.worker_id) == (stray.fence + 1, worker_id):
            going.append(stray.id)
    found = (yield from inboxes(going)) if going else {}
    return lost, {job_id: to_text(found.get(job_id)) for job_id in going}
