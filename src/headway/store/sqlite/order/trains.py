"""Trains: operators hold, resume and clear them and skip cars, all audited; and the reads of trains."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import takewhile

from headway.clock import from_micros
from headway.model import refusals
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Job
from headway.model.move import check_skippable
from headway.model.status import FINISHED, Status
from headway.model.train import Hold, Train, TrainKey
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.early_end import end_early, end_now
from headway.store.sqlite.jobs.reads import read_jobs
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.leaving_jobs import leaving_jobs
from headway.store.sqlite.order.next_car import end_hold, hold

_SQL = statements("order/trains")
_COUNTED_UP_TO = 10_000


class TrainVerbs(Verbs):
    def hold_train(self, train: str, *, tenant_id: str | None, reason: str | None, actor: str | None) -> Op[None]:
        tenant = tenant_id or DEFAULT_TENANT_ID

        def steps() -> Steps[None]:
            now = self._clock.now()
            yield hold(tenant, train, now, reason=reason, actor=actor)
            yield record(now, tenant, None, actor, "hold train", train)

        return SqliteOp(steps, writes=True)

    def resume_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        tenant = tenant_id or DEFAULT_TENANT_ID

        def steps() -> Steps[bool]:
            now = self._clock.now()
            if not (yield from end_hold(tenant, train)):
                return False
            yield record(now, tenant, None, actor, "resume train", train)
            yield from follow(now=now, trains=[(tenant, train)])
            return True

        return SqliteOp(steps, writes=True)

    def skip(self, job_id: str, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        def steps() -> Steps[Status | None]:
            now = self._clock.now()
            rows = yield Statement(_SQL["car"], (job_id, tenant_id))
            if not rows:
                return None
            rowid, tenant, train = rows[0][:3]
            status: Status = rows[0][3]
            check_skippable(job_id, train, status)
            if status in FINISHED:
                if not (yield from end_hold(tenant, train, job_id)):
                    raise refusals.car_is_over(job_id, status, train)
                yield from follow(now=now, trains=[(tenant, train)])
            else:
                leaving = yield from leaving_jobs([rowid])
                ended = yield from end_now(leaving.values(), "skipped", now, spared=True)
                yield from follow(ended, now=now)
                status = "canceled"
            yield record(now, tenant, job_id, actor, "skip", train)
            return status

        return SqliteOp(steps, writes=True)

    def clear_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        tenant = tenant_id or DEFAULT_TENANT_ID

        before: _HeldCars | None = None

        def read_ahead() -> Steps[None]:
            nonlocal before
            before = _HeldCars((yield Statement(_SQL["held_cars"], (tenant, train))))

        def steps() -> Steps[list[str]]:
            now = self._clock.now()
            if before is None:
                yield from read_ahead()
            yield Statement(_SQL["clear"], (tenant, train, now, "it is being cleared", actor))
            ids = yield from _clear_piece(tenant, train, now)
            yield record(now, tenant, None, actor, "clear train", train)
            left = yield Statement(_SQL["first_left"], (tenant, train))
            return before.and_cleared(ids, left[0][0]) if left and before else sorted(ids)

        return SqliteOp(steps, writes=True, read_ahead=read_ahead)

    def trains(
        self, *, tenant_id: str | None, train: str | None, blocked: bool | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        def steps() -> Steps[list[Train]]:
            rows = [(tenant_id,)] if tenant_id is not None else (yield Statement(_SQL["tenants"]))
            tenants: list[str] = [found for (found,) in rows]
            keys: list[TrainKey] = []
            for tenant in tenants:
                if train is not None:
                    keys.append((tenant, train))
                    continue
                rows = yield Statement(_SQL["names"], (tenant, after or "", limit, blocked))
                keys += [(tenant, name) for (name,) in rows]
            keys.sort(key=lambda key: (key[1], key[0]))
            if train is None and len(keys) > limit:
                keys = [key for key in keys if key[1] <= keys[limit - 1][1]]
            rows = yield Statement(_SQL["trains"], (json_list(keys), blocked))
            found = [_train(row) for row in rows]
            return sorted(found, key=lambda each: (each.train, each.tenant_id))

        return SqliteOp(steps, writes=False)

    def cars(self, train: str, *, tenant_id: str | None, limit: int, raw: bool = False) -> Op[list[Job]]:
        def steps() -> Steps[list[Job]]:
            rows = yield Statement(_SQL["cars"], (tenant_id or DEFAULT_TENANT_ID, train, limit))
            order = {job_id: n for n, (job_id,) in enumerate(rows)}
            jobs = yield from read_jobs(list(order), raw=raw)
            return sorted(jobs, key=lambda job: order[job.id])

        return SqliteOp(steps, writes=False)

    def train_place(self, job_id: str) -> Op[tuple[int, str | None]]:
        def steps() -> Steps[tuple[int, str | None]]:
            rows = yield Statement(_SQL["place"], (job_id,))
            if not rows:
                return (0, None)
            ahead, locomotive = rows[0]
            return (min(_COUNTED_UP_TO, ahead + (locomotive is not None)), locomotive)

        return SqliteOp(steps, writes=False)


class _HeldCars:
    """The held cars of a long train, sorted before the write lock is taken: under it, only the first ones are looked
    at."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows  # in their order
        self._ids = sorted(job_id for job_id, _ in rows)

    def and_cleared(self, ids: Iterable[str], first_left: int) -> list[str]:
        """The ids of the cars from this position on, and these, which were ahead of them."""
        ahead = {job_id for job_id, _ in takewhile(lambda row: row[1] < first_left, self._rows)}
        cleared = set(ids)
        for job_id in ahead - cleared:  # it ran, or was taken out meanwhile
            del self._ids[bisect_left(self._ids, job_id)]
        for job_id in cleared - ahead:  # the locomotive
            insort(self._ids, job_id)
        return self._ids


def clear_some(tenant: str, train: str, now: int) -> Steps[int]:
    """Cancel the next piece of a train that is being cleared; end its hold when none is left. Gives how many."""
    return len((yield from _clear_piece(tenant, train, now)))


def _clear_piece(tenant: str, train: str, now: int) -> Steps[list[str]]:
    up_to = yield Statement(_SQL["clearing"], (tenant, train))
    if not up_to:
        return []
    ids: list[str] = []
    rows = yield Statement(_SQL["to_clear"], (tenant, train, *up_to[0], postponed.PIECE))
    if rows:
        leaving = yield from leaving_jobs(rowid for (rowid,) in rows)
        ids = [job.id for job in leaving.values()]
        ended = yield from end_early(leaving.values(), "cleared", now, spared=True)
        yield from follow(ended, now=now)
    if len(rows) >= postponed.PIECE:
        yield from postponed.postpone("clearing", [json_list([tenant, train])])
    else:
        yield Statement(_SQL["cleared"], (tenant, train))
        yield from follow(now=now, trains=[(tenant, train)])
    return ids


def _train(row: Row) -> Train:
    name, tenant_id, tenant, length, head_id, head_kind, head_status, head_since, head_pending, since, *hold = row
    return Train(
        train=name,
        tenant_id=tenant_id,
        tenant=tenant,
        length=length,
        head_id=head_id,
        head_kind=head_kind,
        head_status=head_status,
        head_since=None if head_since is None else from_micros(head_since),
        head_pending=bool(head_pending),
        hold=None if since is None else Hold(from_micros(since), *hold),
    )
