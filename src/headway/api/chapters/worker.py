"""Workers in any language: claim jobs, and name the claims that they still have."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec

from headway.api.call import Call
from headway.api.routes import WORKERS, Routes
from headway.api.wire.problems import Fault, Refused
from headway.api.workers.gateway import Claiming
from headway.api.workers.quoted import quoted_error, quoted_log, quoted_note
from headway.api.workers.requests import (
    Key,
    check_many,
    fence_of,
    give_back,
    job_id_of,
    keys_of,
    kinds_of,
    queues_of,
    refuse_lost,
    valid_id,
    valid_worker_id,
)
from headway.api.workers.views import ClaimedJob, claimed, version_of
from headway.clock import from_micros
from headway.errors import ArtifactElsewhere, ArtifactGone, ArtifactsUnavailable, LeaseLost
from headway.model.codec import check_text
from headway.model.duration import to_ms
from headway.model.ids import new_id
from headway.model.job import Claim, Logged, Report
from headway.model.refusals import not_registered
from headway.model.reported import Failure
from headway.model.spill import may_refer
from headway.store.run import Store
from headway.worker.intervals import jittered
from headway.worker.spill import SpilledValues

routes = Routes("worker")

_LONGEST_WAIT_S = 30.0
_MOST_JOBS = 1_000
_MOST_BYTES = 32 * 2**20  # of payloads in one answer
_UNKNOWN_KIND_MS = 30_000  # how long a job of a kind that a worker does not know is put off
_BATCH_LIMIT = 16 * 2**20
Position = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_LOCKED_FOR_S = (0.02, 0.1, 0.3)  # what jobs said is stored again after so long, where a row was locked
_FORGOTTEN = "its worker did not name it any more"


class ClaimIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a worker can run. `worker_id` is a UUID, new at each start; `claim_id` names this claim."""

    worker_id: str
    claim_id: str | None = None
    queues: list[str] = []
    kinds: list[str] = []  # none: all of them
    limit: int = 1
    wait: float | str = 0
    hostname: str = ""
    version: str = ""


class Claimed(msgspec.Struct):
    jobs: list[ClaimedJob]
    lease_expires_at: datetime


@routes.post("/worker/jobs/claim", roles=WORKERS, body=ClaimIn, answers={200: Claimed}, problems=(409,), waits=True)
async def claim_jobs(call: Call[ClaimIn, None]) -> Claimed:
    """Take jobs to run, and wait up to 30 seconds, or half a lease, for some; the first claim registers the worker."""
    body = call.body
    worker_id = valid_worker_id(body.worker_id)
    if not 1 <= body.limit <= _MOST_JOBS:
        raise Refused(422, f"limit={body.limit} must be from 1 to {_MOST_JOBS:,}")
    if body.claim_id is not None:
        check_text(body.claim_id, "claim_id")
    queues = queues_of(call, body.queues)
    # not past the lease of an idle worker, which each claim renews
    longest_s = min(_LONGEST_WAIT_S, call.app.settings.lease_ms / 2_000)
    until = time.monotonic() + min(to_ms(body.wait, "wait") / 1_000, longest_s)
    claim_id = body.claim_id or new_id()
    with call.server.workers.claiming(worker_id) as claiming:
        return await _claimed(call, worker_id, claim_id, queues, until, claiming)


async def _claimed(
    call: Call[ClaimIn, None], worker_id: str, claim_id: str, queues: list[str], until: float, claiming: Claiming
) -> Claimed:
    body, tenant_id = call.body, call.verbs._visible_tenant
    kinds = frozenset(each.partition("@")[0] for each in body.kinds or call.key.kinds)
    waiting = await call.server.workers.waiting()
    gone = asyncio.ensure_future(call.gone())
    stopping = asyncio.ensure_future(call.server.stopping.wait())
    try:
        while True:
            async with call.server.workers.turn(tenant_id):
                claims = await _claim(call, worker_id, claim_id, queues)
            claiming.taken = keys_of(claims)
            if len(claims) >= body.limit:
                waiting.wake_next(queues, tenant_id)
            kept = await _known(call, claims)
            if kept:
                break
            unless = (gone, stopping, claiming.left)
            async with call.waiting():
                found = await waiting.wait(queues, tenant_id=tenant_id, kinds=kinds, until=until, unless=unless)
            if not found:
                break
        worker = await call.app.store.arun(call.app.store.ops.worker(worker_id))
        if worker is None:
            raise not_registered(worker_id)
        answer = Claimed(await _shown(call, worker_id, kept), worker.lease_expires_at)
        if kept and (gone.done() or claiming.left.done()):  # as late as possible: nobody is there to run them
            await call.app.store.arun(call.app.store.ops.release(keys_of(kept), delay_ms=0))
            waiting.wake_next(queues, tenant_id)
            answer.jobs = []
        return answer
    finally:
        gone.cancel()
        stopping.cancel()


async def _claim(call: Call[ClaimIn, None], worker_id: str, claim_id: str, queues: list[str]) -> list[Claim]:
    body, store = call.body, call.app.store
    # those of several queues in turn: a backlog of the first must not keep the others waiting
    first = random.randrange(len(queues))
    op = store.ops.claim_once(
        worker_id,
        claim_id,
        queues[first:] + queues[:first],
        body.limit,
        tenant_id=call.verbs._visible_tenant,
        kinds=call.key.kinds or None,
    )

    async def register() -> None:
        await call.server.workers.register(
            worker_id,
            call.key,
            queues=queues,
            kinds=kinds_of(body.kinds),
            slots=body.limit,
            hostname=body.hostname[:255],
            version=body.version[:255],
        )

    await register()
    try:
        return await store.arun(op)
    except LeaseLost:
        # reaped since its last request: what it ran is lost, and it starts over
        call.server.workers.forget(worker_id)
        await register()
        return await store.arun(op)


async def _known(call: Call[ClaimIn, None], claims: list[Claim]) -> list[Claim]:
    """Those that the worker knows, and that fit into an answer; the others are given back."""
    unknown = [claim for claim in claims if not _is_known(call, claim)]
    if unknown:
        delay_ms = round(jittered(_UNKNOWN_KIND_MS, random.random()))
        await call.app.store.arun(call.app.store.ops.release(keys_of(unknown), delay_ms=delay_ms))
        claims = [claim for claim in claims if claim not in unknown]
    size = 0
    for index, claim in enumerate(claims):
        size += claim.size
        if size > _MOST_BYTES and index:
            await call.app.store.arun(call.app.store.ops.release(keys_of(claims[index:]), delay_ms=0))
            return claims[:index]
    return claims


def _is_known(call: Call[ClaimIn, None], claim: Claim) -> bool:
    """A worker that names a version of a machine gets those of it, and those that have not begun."""
    kinds = call.body.kinds
    if not kinds or claim.kind in kinds:
        return True
    version = version_of(claim)
    return any(each == f"{claim.kind}@{version or each.partition('@')[2]}" for each in kinds)


async def _shown(call: Call[Any, None], worker_id: str, claims: list[Claim]) -> list[ClaimedJob]:
    store = call.app.store
    spilled = SpilledValues(store.ops, call.app._places, store.arun)
    jobs: list[ClaimedJob] = []
    size = 0
    for claim in claims:
        try:
            whole = await spilled.with_payload(claim) if may_refer(claim.payload) else claim
            job, checkpoint = claimed(whole)
            if checkpoint is not None and checkpoint.joining is not None:
                children = await store.arun(store.ops.children(job.id, fence=None, tenant_id=None, raw=True))
                job.children = list(await spilled.with_results(children))
        except ArtifactGone as error:
            # for every server and worker: another try by the job's own rules, as any attempt that fails
            gone = Failure(claim.id, claim.fence, quoted_error(f"ArtifactGone: {error}"))
            await store.arun(store.ops.fail(worker_id, [gone]))
            continue
        except (ArtifactElsewhere, ArtifactsUnavailable):
            # a server, or a worker, that has the folder may give it out
            delay_ms = round(jittered(_UNKNOWN_KIND_MS, random.random()))
            await store.arun(store.ops.release(keys_of([claim]), delay_ms=delay_ms))
            continue
        size += whole.size
        if size > _MOST_BYTES and jobs:
            await store.arun(store.ops.release(keys_of([claim]), delay_ms=0))
            continue
        jobs.append(job)
    return jobs


class HeldIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A claim that a worker holds, and what to show of it."""

    id: str
    fence: int | None = None
    attempt_no: int | None = None
    progress: float | None = None  # from 0 to 1
    note: str | None = None
    log: str | None = None  # text that is new
    log_at: Position | None = (
        None  # how many characters this execution has logged before it: a repeated text adds nothing
    )


class HeartbeatIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    worker_id: str
    fence: int | None = None
    attempt_no: int | None = None
    progress: float | None = None
    note: str | None = None
    log: str | None = None
    log_at: Position | None = None


class HeartbeatAnswer(msgspec.Struct):
    lease_expires_at: datetime
    cancel_requested: bool


@routes.post(
    "/worker/jobs/{id}/heartbeat",
    roles=WORKERS,
    body=HeartbeatIn,
    answers={200: HeartbeatAnswer},
    problems=(404, 409, 422),
    quotes=True,
)
async def heartbeat_job(call: Call[HeartbeatIn, None]) -> HeartbeatAnswer:
    """Show a job's progress; renews the lease of a worker that runs nothing else."""
    body = call.body
    worker_id = valid_worker_id(body.worker_id)
    job_id = job_id_of(call)
    held = HeldIn(
        id=job_id,
        fence=body.fence,
        attempt_no=body.attempt_no,
        progress=body.progress,
        note=body.note,
        log=body.log,
        log_at=body.log_at,
    )
    claim = (job_id, fence_of(held))
    _check_progress(held)
    store, tenant_id = call.app.store, call.verbs._visible_tenant
    reply = None
    if await call.server.workers.check(worker_id, call.key):
        reply = await store.arun(store.ops.heartbeat_claims(worker_id, [claim], complete=False, tenant_id=tenant_id))
    if reply is None or claim in reply.lost:
        raise await refuse_lost(call, claim)
    await _report(call, worker_id, [held])
    return HeartbeatAnswer(from_micros(reply.lease_expires_at), claim in reply.canceling)


class HeartbeatsIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Every claim that the worker holds."""

    worker_id: str
    jobs: list[HeldIn]


class HeartbeatsAnswer(msgspec.Struct):
    lease_expires_at: datetime
    cancel_requested: list[Key]
    lost: list[Key]  # not its own (any more): stop them, nothing that they say is written
    released: list[Key]  # claimed before its last heartbeat, and not named


@routes.post(
    "/worker/heartbeat",
    roles=WORKERS,
    body=HeartbeatsIn,
    answers={200: HeartbeatsAnswer},
    problems=(409, 422),
    limit=_BATCH_LIMIT,
    quotes=True,
)
async def heartbeat(call: Call[HeartbeatsIn, None]) -> HeartbeatsAnswer:
    """Renew the lease, naming every job that the worker holds; what it has forgotten is released, uncharged."""
    worker_id = valid_worker_id(call.body.worker_id)
    held = call.body.jobs
    check_many(held, least=0)
    for n, each in enumerate(held):
        each.id = valid_id(each.id)  # as it is stored
        _check_progress(each, f"/jobs/{n}")
    claims = [(each.id, fence_of(each)) for each in held]
    store, tenant_id = call.app.store, call.verbs._visible_tenant
    reply = None
    if await call.server.workers.check(worker_id, call.key):
        # it cannot name yet what is about to be answered here
        named = list(dict.fromkeys(claims + call.server.workers.taken(worker_id)))
        reply = await store.arun(store.ops.heartbeat_claims(worker_id, named, complete=True, tenant_id=tenant_id))
    if reply is None:
        call.server.workers.forget(worker_id)
        raise not_registered(worker_id)
    lost = set(reply.lost).intersection(claims)
    await _report(call, worker_id, [each for each in held if (each.id, fence_of(each)) not in lost])
    await give_back(call, worker_id, reply.forgotten, _FORGOTTEN)
    return HeartbeatsAnswer(
        from_micros(reply.lease_expires_at),
        [Key(*each) for each in reply.canceling],
        [Key(*each) for each in claims if each in lost],
        [Key(each.id, each.fence) for each in reply.forgotten],
    )


def _check_progress(held: HeldIn, at: str = "") -> None:
    if held.progress is not None and not 0 <= held.progress <= 1:
        said = f"progress={held.progress} must be from 0 to 1"
        raise Refused(422, said, faults=[Fault("out of range", f"{at}/progress")])


async def _report(call: Call[Any, None], worker_id: str, held: Sequence[HeldIn]) -> None:
    """Stores what jobs say. A report passes over a row that somebody else has locked for a moment; a worker over HTTP
    does not keep what it has logged, so that is stored again a little later."""
    store = call.app.store
    said = [each for each in held if each.progress is not None or each.note is not None or each.log]
    for pause in (*_LOCKED_FOR_S, 0.0):
        if not said:
            return
        reports = await call.aside(
            partial(_reports, said, await _logged(store, [each.id for each in said if each.log]))
        )
        await store.arun(store.ops.report(worker_id, reports))
        ends = {(each.id, each.fence): each.tail_end for each in reports if each.tail is not None}
        now = await _logged(store, [job_id for job_id, _ in ends])
        passed_over = {key for key, end in ends.items() if key in now and (now[key].end or 0) < end}
        said = [each for each in said if (each.id, fence_of(each)) in passed_over]
        if said:
            await asyncio.sleep(pause)


async def _logged(store: Store, ids: list[str]) -> dict[tuple[str, int], Logged]:
    logged: list[Logged] = await store.arun(store.ops.logged(ids)) if ids else []
    return {(each.id, each.fence): each for each in logged}


def _reports(said: Sequence[HeldIn], found: Mapping[tuple[str, int], Logged]) -> list[Report]:
    reports = []
    for each in said:
        tail, end, counted = None, 0, None
        before, text = found.get((each.id, fence_of(each))), each.log
        if before is not None and text and each.log_at is not None:
            taken = 0 if before.end is None else before.said or 0
            counted = max(each.log_at + len(text), taken)
            text = text[max(taken - each.log_at, 0) :]  # without what it has said before, and not learned that it had
        if before is not None and text:
            tail, grown = quoted_log(before.tail or "", text)
            end = (before.end or 0) + grown
        note = None if each.note is None else quoted_note(each.note)
        reports.append(Report(each.id, fence_of(each), each.progress, note, tail, end, counted))
    return reports
