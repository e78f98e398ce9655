"""What operators do to trains: hold, resume, skip a car, clear; each audited."""

from __future__ import annotations

from headway.errors import NotAllowed
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.early_end import end_early
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.departures import ties
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.next_car import unhold

_SQL = statements("order/trains")
_AUDIT = statements("jobs/change")["audit"]


class TrainVerbs(Verbs):
    def hold_train(self, train: str, *, tenant_id: str | None, reason: str | None, actor: str | None) -> Op[None]:
        tenant = tenant_id or DEFAULT_TENANT_ID

        def steps() -> Steps[None]:
            now = self._clock.now()
            yield Statement(_SQL["hold"], (tenant, train, now, None, reason, actor))
            yield Statement(_AUDIT, (now, tenant, None, actor, "hold train", train))

        return SqliteOp(steps, writes=True)

    def resume_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        tenant = tenant_id or DEFAULT_TENANT_ID

        def steps() -> Steps[bool]:
            now = self._clock.now()
            if not (yield from unhold(tenant, train)):
                return False
            yield Statement(_AUDIT, (now, tenant, None, actor, "resume train", train))
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
            _check_skippable(job_id, train, status)
            if status in FINISHED:
                if not (yield from unhold(tenant, train, job_id)):
                    raise NotAllowed(f"job {job_id} is {status} already, and train {train} does not wait for it")
                yield from follow(now=now, trains=[(tenant, train)])
            else:
                tied = yield from ties([rowid])
                ended = yield from end_early(tied.values(), "skipped", now, spared=True)
                yield from follow(ended, now=now)
                status = "canceled"
            yield Statement(_AUDIT, (now, tenant, job_id, actor, "skip", train))
            return status

        return SqliteOp(steps, writes=True)

    def clear_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        tenant = tenant_id or DEFAULT_TENANT_ID

        def steps() -> Steps[list[str]]:
            now = self._clock.now()
            rows = yield Statement(_SQL["clearable"], (tenant, train))
            last = max((position for _, position in rows), default=0)
            yield Statement(_SQL["clear"], (tenant, train, now, "it is being cleared", actor, last))
            yield from clear_some(tenant, train, now)
            yield Statement(_AUDIT, (now, tenant, None, actor, "clear train", train))
            return [job_id for job_id, _ in rows]

        return SqliteOp(steps, writes=True)


def clear_some(tenant: str, train: str, now: int) -> Steps[int]:
    """Cancel some more of the cars of a train that is being cleared; end its hold when none is left. Gives how many."""
    up_to = yield Statement(_SQL["clearing"], (tenant, train))
    if not up_to:
        return 0
    rows = yield Statement(_SQL["to_clear"], (tenant, train, *up_to[0], postponed.PIECE))
    if rows:
        tied = yield from ties(rowid for (rowid,) in rows)
        ended = yield from end_early(tied.values(), "cleared", now, spared=True)
        yield from follow(ended, now=now)
    if len(rows) >= postponed.PIECE:
        yield from postponed.leave("clearing", [json_list([tenant, train])])
    else:
        yield Statement(_SQL["cleared"], (tenant, train))
        yield from follow(now=now, trains=[(tenant, train)])
    return len(rows)


def _check_skippable(job_id: str, train: str | None, status: Status) -> None:
    if train is None:
        raise NotAllowed(f"job {job_id} is no car of a train: cancel it instead")
    if status == "running":
        raise NotAllowed(f"job {job_id} is running and cannot be skipped: cancel it, or let it finish")
