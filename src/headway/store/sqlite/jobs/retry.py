"""Retry: finished jobs run again with a full budget, those with `after` behind their parents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.errors import Duplicate
from headway.model import refusals
from headway.model.job import Change, Delivery
from headway.model.retry import retried_to, runs_anew
from headway.model.status import Status, covers
from headway.model.train import TrainKey
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.flows.journal import retry_flow
from headway.store.sqlite.jobs.audit import record_all, record_matching
from headway.store.sqlite.jobs.change import change_job
from headway.store.sqlite.jobs.ending import write_fresh_copy
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.jobs.unique import refuse_taken
from headway.store.sqlite.machines.inbox import give_back, move_inboxes
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.group_members import inherit_callbacks
from headway.store.sqlite.order.joins import behind_others, inherit_edges, reopen_edges
from headway.store.sqlite.order.next_car import end_hold

_SQL = statements("jobs/retry")


class RetryVerbs(Verbs):
    def retry(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None,
        actor: str | None,
        keep_place: bool = True,
        change: Change | None = None,
        matching: str | None = None,
    ) -> Op[dict[str, str]]:
        def steps() -> Steps[dict[str, str]]:
            now = self._clock.now()
            runs = yield from retry_jobs(
                ids, now, tenant_id=tenant_id, actor=actor, keep_place=keep_place, matching=matching
            )
            if change is not None:
                for runs_as in runs.values():
                    yield from change_job(runs_as, change, now, tenant_id=None, actor=actor, retried=True)
            return runs

        return SqliteOp(steps, writes=True)


def retry_jobs(
    ids: Sequence[str],
    now: int,
    *,
    tenant_id: str | None,
    actor: str | None,
    keep_place: bool = True,
    matching: str | None = None,
) -> Steps[dict[str, str]]:
    """Put the finished ones of these jobs back, those with `after` behind their parents, and revive what their end had
    canceled; gives job id → id that will run. Raises `Duplicate`."""
    jobs = [_Finished(*row) for row in (yield Statement(_SQL["finished"], (json_list(ids), tenant_id)))]
    retries = _Retries(now, actor, keep_place)
    runs = yield from retries.put_back(jobs, matching=matching)
    yield from retries.revive(list(runs.values()))
    yield from retries.follow()
    return runs


def revive_more(job_id: str, now: int) -> Steps[int]:
    """Revive the next piece of what this job's end had canceled; gives how many."""
    retries = _Retries(now, None, False)
    back = yield from retries.revive([job_id])
    yield from retries.follow()
    return back


class _Retries:
    """The jobs that one call puts back, round by round."""

    def __init__(self, now: int, actor: str | None, keep_place: bool) -> None:
        self._now = now
        self._actor = actor
        self._keep_place = keep_place
        self._held: list[str] = []
        self._waiting: list[str] = []
        self._trains: list[TrainKey] = []

    def put_back(
        self, jobs: Sequence[_Finished], *, leave_taken: bool = False, matching: str | None = None
    ) -> Steps[dict[str, str]]:
        """Put these back, all before it is decided who waits for whom; `leave_taken`: skip those whose key is taken."""
        if not jobs:
            return {}
        behind = yield from behind_others([job.id for job in jobs])
        runs: dict[str, str] = {}
        for job in jobs:
            try:
                runs[job.id] = yield from self._one(job, held=job.id in behind)
            except Duplicate:
                if not leave_taken:
                    raise
        back = [job for job in jobs if job.id in runs]
        if matching is None or len(back) == 1:
            yield record_all([(self._now, job.tenant_id, job.id, self._actor, "retry", runs[job.id]) for job in back])
        else:
            yield record_matching(self._now, [job.tenant_id for job in back], self._actor, "retry", matching)
        held = [runs[job_id] for job_id in behind if job_id in runs]
        heirs = {old: new for old, new in runs.items() if new != old}
        if heirs:
            yield inherit_edges(heirs)
            yield inherit_callbacks(heirs)
        yield from reopen_edges(runs, held)
        self._held += held
        return runs

    def revive(self, parents: Sequence[str]) -> Steps[int]:
        """Revive what the end of these jobs had canceled, and what that had canceled in turn."""
        room = postponed.PIECE
        while parents:
            rows = yield Statement(_SQL["canceled_by"], (json_list(parents), room))
            back = yield from self.put_back([_Finished(*row) for row in rows], leave_taken=True)
            room -= len(rows)
            if room <= 0:
                if back:  # otherwise the keys of all are taken: the same ones would be found again
                    yield from postponed.postpone("revived", [*parents, *back.values()])
                break
            parents = list(back.values())
        return postponed.PIECE - room

    def follow(self) -> Steps[None]:
        """Release the next cars of their trains, and wake machines that have what they wait for."""
        yield from follow(now=self._now, held=self._held, trains=self._trains, parked=self._waiting)

    def _one(self, job: _Finished, *, held: bool) -> Steps[str]:
        sleeps_until = job.slept_until if job.slept_until is not None and job.slept_until > self._now else None
        to = retried_to(job.train, behind=held, waited=bool(job.waited), sleeps=sleeps_until is not None)
        if job.flow:
            yield from retry_flow(job.id, job.fence, self._now)
        elif job.machine and job.status in ("succeeded", "dead", "failed"):
            # the step that ended it must see its signals again; the last step of a canceled machine was settled
            yield give_back(job.id, job.fence)
        pending = held or (to == "waiting" and bool(job.joins))
        keeps = self._keep_place or job.train is not None
        runs_as = yield from _retry(job, to, self._now, pending=pending, keeps=keeps, sleeps_until=sleeps_until)
        if job.machine and runs_as != job.id:
            yield from move_inboxes({job.id: runs_as})
        if to == "waiting":
            self._waiting.append(runs_as)
        if job.train is not None:
            yield from end_hold(job.tenant_id, job.train, job.id)
            self._trains.append((job.tenant_id, job.train))
        return runs_as


class _Finished(msgspec.Struct, frozen=True, array_like=True):
    rowid: int
    id: str
    tenant_id: str
    kind: str
    delivery: Delivery
    fence: int
    position: int | None
    unique_key: str | None
    unique_scope: str
    status: Status
    waited: int  # a machine, canceled while it waited
    joins: int  # for its children
    slept_until: int | None  # a machine, canceled while it slept
    machine: int
    train: str | None
    flow: int


def _retry(job: _Finished, to: Status, now: int, *, pending: bool, keeps: bool, sleeps_until: int | None) -> Steps[str]:
    """Put one finished job back, or insert the new job that retries it; gives the id that will run."""
    rowid, job_id, key, scope = job.rowid, job.id, job.unique_key, job.unique_scope
    anew = runs_anew(job.delivery, job.fence)
    if anew:
        rows = yield Statement(_SQL["retried_by"], (job_id,))
        if rows:
            raise refusals.retried_already(job_id, job.kind, rows[0][0])
    if key is not None and covers(scope, to):
        yield from refuse_taken(job_id, rowid, key)
        if anew and covers(scope, job.status):
            yield Statement(_SQL["drop_key"], (rowid,))
    position = job.position
    if position is None or not keeps:
        position = (yield from positions(1))[0]
    if anew:
        return (
            yield from write_fresh_copy(
                rowid, job_id, now, key, to, pending=pending, position=position, sleeps_until=sleeps_until
            )
        )
    yield Statement(_SQL["retry"], (rowid, now, position, to, pending, sleeps_until))
    return job_id
