"""Workers in any language: say how jobs ended, and give jobs back."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.api.call import Call
from headway.api.routes import WORKERS, Routes
from headway.api.wire.views import Json
from headway.api.workers.ends import EndIn, write_ends
from headway.api.workers.outcomes import ExitCode, OutcomeIn
from headway.api.workers.requests import (
    Key,
    check_many,
    fence_of,
    give_back,
    job_id_of,
    refuse_lost,
    valid_id,
    valid_worker_id,
)
from headway.api.workers.views import ClaimedJob
from headway.model.duration import to_ms
from headway.model.refusals import not_registered
from headway.model.reported import BadEnd
from headway.model.status import Status

routes = Routes("worker")

_BATCH_LIMIT = 16 * 2**20
_LEFT = "its worker left"


class CompleteIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`result` ends a job, `outcome` a step of a machine. With `continue` the next step may go on at once."""

    worker_id: str
    fence: int | None = None
    attempt_no: int | None = None
    result: Json | msgspec.UnsetType = msgspec.UNSET
    outcome: OutcomeIn | None = None
    goes_on: bool = msgspec.field(default=False, name="continue")


class FailIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The job's own policy decides what follows; with `retry` false it is not tried again. `status` says more:
    it was over its time, or it stopped because the job was canceled, which needs no error."""

    worker_id: str
    fence: int | None = None
    attempt_no: int | None = None
    error: str | None = None
    error_text: str | None = None
    status: BadEnd = "failed"
    retry: bool = True
    delay: str | float | None = None
    exit_code: ExitCode | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None


class EndedJob(msgspec.Struct):
    id: str
    fence: int
    status: Status
    job: ClaimedJob | None = None  # the machine's next step, which is this worker's to run now


@routes.post(
    "/worker/jobs/{id}/complete",
    roles=WORKERS,
    body=CompleteIn,
    answers={200: EndedJob},
    problems=(404, 409, 422),
    quotes=True,
)
async def complete_job(call: Call[CompleteIn, None]) -> EndedJob:
    """Say that a job succeeded, or what its step decided."""
    return await _end(call)


@routes.post(
    "/worker/jobs/{id}/fail", roles=WORKERS, body=FailIn, answers={200: EndedJob}, problems=(404, 409, 422), quotes=True
)
async def fail_job(call: Call[FailIn, None]) -> EndedJob:
    """Say that a job failed; it is tried again, or dead, by its own policy."""
    return await _end(call)


async def _end(call: Call[Any, None]) -> EndedJob:
    said = {name: getattr(call.body, name) for name in call.body.__struct_fields__ if name != "worker_id"}
    worker_id = valid_worker_id(call.body.worker_id)
    job_id = job_id_of(call)
    end = EndIn(id=job_id, **said)
    claim = (job_id, fence_of(end))
    if not await call.server.workers.check(worker_id, call.key):
        raise await refuse_lost(call, claim)
    written = await write_ends(call, worker_id, [end])
    if written.lost:
        raise await refuse_lost(call, claim)
    return EndedJob(job_id, claim[1], written.statuses[job_id], written.continued[0] if written.continued else None)


class SettleIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    worker_id: str
    jobs: list[EndIn]


class SettledJob(msgspec.Struct):
    id: str
    fence: int
    status: Status


class SettledJobs(msgspec.Struct):
    settled: list[SettledJob]
    lost: list[Key]  # not its own (any more): nothing was written
    continued: list[ClaimedJob]  # steps that go on at once


@routes.post(
    "/worker/settle",
    roles=WORKERS,
    body=SettleIn,
    answers={200: SettledJobs},
    problems=(409, 422),
    limit=_BATCH_LIMIT,
    quotes=True,
)
async def settle_jobs(call: Call[SettleIn, None]) -> SettledJobs:
    """Say how up to 1,000 jobs ended."""
    worker_id = valid_worker_id(call.body.worker_id)
    check_many(call.body.jobs, least=1)
    if not await call.server.workers.check(worker_id, call.key):
        raise not_registered(worker_id)
    written = await write_ends(call, worker_id, call.body.jobs)
    statuses = written.statuses
    return SettledJobs(
        [SettledJob(job_id, fence, statuses[job_id]) for job_id, fence in written.claims if job_id in statuses],
        [Key(*claim) for claim in written.lost],
        written.continued,
    )


class HeldKey(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    id: str
    fence: int | None = None
    attempt_no: int | None = None


class ReleaseIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Claims to give back that were not begun. With `leave` the worker ends: it gives back all that it still has,
    uncharged, its claims that wait end, and its id is not used again."""

    worker_id: str
    jobs: list[HeldKey] = []
    delay: str | float = 0
    leave: bool = False


class Released(msgspec.Struct):
    released: list[Key]
    lost: list[Key]


@routes.post("/worker/release", roles=WORKERS, body=ReleaseIn, answers={200: Released}, problems=(409, 422))
async def release_jobs(call: Call[ReleaseIn, None]) -> Released:
    """Give jobs back that were not begun: no attempt, no charge."""
    body, store, tenant_id = call.body, call.app.store, call.verbs._visible_tenant
    worker_id = valid_worker_id(body.worker_id)
    check_many(body.jobs, least=0)
    delay_ms = to_ms(body.delay, "delay")
    claims = [(valid_id(each.id), fence_of(each)) for each in body.jobs]
    if not await call.server.workers.check(worker_id, call.key):
        raise not_registered(worker_id)
    running: list[tuple[str, int]] = await store.arun(store.ops.running(worker_id, tenant_id=tenant_id))
    own = set(running).intersection(claims)
    if own:
        await store.arun(store.ops.release([claim for claim in claims if claim in own], delay_ms=delay_ms))
        (await call.server.workers.waiting()).wake_all()
    if body.leave:
        await call.server.workers.end_claims(worker_id)
        for _ in range(2):  # the second time all that it claimed before the first
            reply = await store.arun(store.ops.heartbeat_claims(worker_id, [], complete=True, tenant_id=tenant_id))
            if reply is not None:
                await give_back(call, worker_id, reply.forgotten, _LEFT)
        await store.arun(store.ops.unregister(worker_id))
        call.server.workers.forget(worker_id)
    return Released(
        [Key(*claim) for claim in claims if claim in own], [Key(*claim) for claim in claims if claim not in own]
    )
