"""How executions ended, as workers over HTTP say it, and what is written of that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headway.api.call import Call
from headway.api.wire.bodies import LARGE
from headway.api.wire.problems import Refused, refused_at, refused_with_pointer
from headway.api.wire.views import Json
from headway.api.workers.outcomes import ChildIn, ExitCode, OutcomeIn, StepEnd, outcome_name, result_text
from headway.api.workers.quoted import quoted_error, quoted_tail
from headway.api.workers.requests import fence_of, valid_id
from headway.api.workers.spill import spill_results
from headway.api.workers.views import ClaimedJob, continued
from headway.errors import HeadwayError, InvalidPayload, StoreBusy
from headway.model.duration import to_ms
from headway.model.job import Job, NewJob, Settlement
from headway.model.reported import BadEnd, Completion, Ended, Failure
from headway.model.status import Status

U = msgspec.UnsetType
_NULL = msgspec.Raw(b"null")


class EndIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How one execution ended: with an `error` it failed, with an `outcome` a machine's step is over, else it succeeded
    with `result`. A `status` says more of a bad end: it was over its time, or it stopped because the job was canceled,
    which needs no error. `attempt_no` is `fence`, `error_text` is `error`."""

    id: str
    fence: int | None = None
    attempt_no: int | None = None
    result: Json | U = msgspec.UNSET
    outcome: OutcomeIn | None = None
    goes_on: bool = msgspec.field(default=False, name="continue")  # run the next step at once, if possible
    error: str | None = None
    error_text: str | None = None
    status: BadEnd | None = None
    retry: bool = True
    delay: str | float | None = None
    exit_code: ExitCode | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None


class Ends(msgspec.Struct):
    """What was written."""

    claims: list[tuple[str, int]]  # all that were given
    statuses: dict[str, Status]
    lost: list[tuple[str, int]]
    continued: list[ClaimedJob]


class _Said(msgspec.Struct):
    """What ends say."""

    completions: list[Completion] = []
    failures: list[Failure] = []
    steps: list[tuple[EndIn, OutcomeIn]] = []
    given: dict[str, EndIn] = {}
    claims: list[tuple[str, int]] = []


async def write_ends(call: Call[Any, Any], worker_id: str, ends: Sequence[EndIn]) -> Ends:
    """Write them. Those that are not the worker's own are `lost`; where one is not valid, nothing is written."""
    store, tenant_id = call.app.store, call.verbs._visible_tenant
    if call.size > LARGE:  # much to read: only what it runs is worth that
        running: list[tuple[str, int]] = await store.arun(store.ops.running(worker_id, tenant_id=tenant_id))
        runs = set(running)
        ends = [end if (valid_id(end.id), _fence(end)) in runs else _bare(end) for end in ends]
    await spill_results(call, worker_id, ends)
    said = await call.aside(partial(_read, call, ends))
    written = Ends(said.claims, {}, [], [])
    # before the first write: a request that is refused has changed nothing
    step_ends = await _step_ends(call, worker_id, said.steps, written)
    found: list[Ended] = []
    if said.completions:
        found.append(await store.arun(store.ops.complete(worker_id, said.completions, tenant_id=tenant_id)))
        machines = [said.given[job_id] for job_id, _ in found[-1].machines]
        results = [(end, OutcomeIn(done=end.result or _NULL)) for end in machines]
        step_ends += await _step_ends(call, worker_id, results, written)
    if said.failures:
        found.append(await store.arun(store.ops.fail(worker_id, said.failures, tenant_id=tenant_id)))
    for each in found:
        written.statuses |= each.statuses
        written.lost += each.lost
    if step_ends:
        await _write_steps(call, worker_id, step_ends, written)
    return written


def _fence(end: EndIn) -> int | None:
    return end.attempt_no if end.fence is None else end.fence


def _bare(end: EndIn) -> EndIn:
    """The end of what the worker does not run, without what is not written then. The outcome of a step may be a
    repeated one, whose next step goes on."""
    if end.outcome is not None:
        return end
    error = None if end.error is None and end.error_text is None else ""
    return msgspec.structs.replace(
        end, error=error, error_text=None, result=msgspec.UNSET, stdout_tail=None, stderr_tail=None
    )


def _read(call: Call[Any, Any], ends: Sequence[EndIn]) -> _Said:
    """Raises `Refused` where one is not valid."""
    said = _Said()
    for end in ends:
        try:
            job_id = valid_id(end.id)
            said.given[job_id] = end
            said.claims.append((job_id, fence_of(end)))
            error = end.error_text if end.error is None else end.error
            if error is not None or end.status is not None:
                said.failures.append(_failure(job_id, end, error))
            elif end.outcome is not None:
                outcome_name(end.outcome)
                said.steps.append((end, end.outcome))
            else:
                result = result_text(end.result, call.app.settings.result_limit)
                said.completions.append(Completion(*said.claims[-1], result))
        except (Refused, HeadwayError) as refusal:
            raise _pointing_at(call, end, refusal) from None
    return said


def _pointing_at(call: Call[Any, Any], end: EndIn, refusal: Exception, field: str = "result") -> Exception:
    """The refusal of one end: with a pointer to it, among many, and to the field or option that is not valid."""
    jobs: list[EndIn] = getattr(call.body, "jobs", [])
    at: list[str | int] = ["jobs", [each.id for each in jobs].index(end.id)] if jobs else []
    if isinstance(refusal, InvalidPayload) or field != "result":
        found = refused_with_pointer(refusal, at, [*at, field])
    else:
        found = refused_at(refusal, at, end.__struct_fields__)
    if isinstance(found, Refused) and len(jobs) == 1:
        found.detail = str(refusal)  # clients make it the error of the job, where its place means nothing
    return found


async def _step_ends(
    call: Call[Any, Any], worker_id: str, steps: Sequence[tuple[EndIn, OutcomeIn]], written: Ends
) -> list[tuple[Job, Settlement]]:
    """What is to be written of steps; those of jobs that are not there, or not the worker's, are `lost`."""
    if not steps:
        return []
    store = call.app.store
    ids = [valid_id(end.id) for end, _ in steps]
    own = call.verbs._visible_tenant
    stored = await store.arun(store.ops.get(ids, tenant_id=own, raw=True))  # a step that goes on gets them as they are
    jobs: dict[str, Job] = {job.id: job for job in stored}
    found: list[tuple[Job, Settlement]] = []
    for (end, outcome), job_id in zip(steps, ids, strict=True):
        fence = fence_of(end)
        job = jobs.get(job_id)
        # (id, fence) names one execution by one worker: what is read here still holds when the settle writes
        if job is None or (job.status == "running" and job.fence == fence and job.worker_id != worker_id):
            written.lost.append((job_id, fence))
            continue
        try:
            step = StepEnd(
                job,
                fence,
                outcome,
                continues=end.goes_on,
                result_limit=call.app.settings.result_limit,
                state_limit=call.app.payload_limit,
            )
            children = await _children(call, job, outcome)
            found.append((job, await call.aside(partial(step.settlement, children))))
        except (Refused, HeadwayError) as refusal:
            raise _pointing_at(call, end, refusal, "outcome") from None
    return found


async def _write_steps(
    call: Call[Any, Any], worker_id: str, step_ends: Sequence[tuple[Job, Settlement]], written: Ends
) -> None:
    store = call.app.store
    settled = await store.arun(store.ops.settle(worker_id, [settlement for _, settlement in step_ends]))
    if settled.busy:
        raise StoreBusy("another transaction holds what this outcome needs: nothing of it was written; try again")
    written.lost += settled.lost
    left: list[str] = []
    for job, settlement in step_ends:
        if (job.id, settlement.fence) in settled.lost:
            continue
        left.append(job.id)
        turn = settlement.turn
        if job.id in settled.continued and turn is not None:
            written.continued.append(continued(job, settlement.fence + 1, turn, settled.continued[job.id]))
    written.statuses |= {job.id: job.status for job in await store.arun(store.ops.get(left, tenant_id=None))}


async def _children(call: Call[Any, Any], job: Job, outcome: OutcomeIn) -> list[NewJob]:
    if isinstance(outcome.spawn, msgspec.UnsetType):
        return []
    await call.app.alearn(None)
    return await call.aside(partial(_built, call, job, outcome.spawn))


def _built(call: Call[Any, Any], job: Job, spawned: Sequence[ChildIn]) -> list[NewJob]:
    app = call.app
    definitions = app._definitions.seen_by(job.tenant_id)
    children = []
    for child in spawned:
        options = {name: getattr(child, name) for name in ("queue", "priority", "delay", "max_attempts", "timeout")}
        options = {name: value for name, value in options.items() if value is not msgspec.UNSET}
        definition = definitions.get(child.kind)
        if definition is None or not definition.active:
            raise Refused(422, f"kind {child.kind!r} has no active definition", code="UnknownKind")
        if call.key.tenant_id is not None:  # a tenant's worker may spawn only what the tenant may enqueue
            call.check_kind(child.kind)
            call.check_options(child.kind, options)
        options["created_by"] = call.actor
        now, limit = app.clock.now(), app.payload_limit
        payload: Any = {} if isinstance(child.payload, U) else msgspec.Raw(bytes(child.payload))
        built = definitions.build(child.kind, payload, options, now=now, limit=limit)
        call.check_touch(queue=built.queue, kind=built.kind)
        children.append(built)
    return children


def _failure(job_id: str, end: EndIn, error: str | None) -> Failure:
    if error is None and end.status != "canceled":
        raise Refused(422, "why did it fail? Give error (or error_text)")
    return Failure(
        job_id,
        fence_of(end),
        None if error is None else quoted_error(error),
        end.retry,
        None if end.delay is None else to_ms(end.delay, "delay"),
        end.exit_code,
        quoted_tail(end.stdout_tail),
        quoted_tail(end.stderr_tail),
        end.status or "failed",
    )
