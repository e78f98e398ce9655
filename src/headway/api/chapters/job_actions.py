"""Jobs: cancel, retry, change, move, signal, fork, delete; and what explains them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec

from headway.api.access.narrowed import is_narrowed, seen_history, seen_ids, visible_job, without_hidden_ids
from headway.api.call import Answer, Call
from headway.api.chapters.jobs import shown
from headway.api.routes import ADMINS, OPERATORS, PRODUCERS, READERS, VIEWERS, Routes
from headway.api.wire.pages import PartQuery, changes_of, given, part
from headway.api.wire.replays import REPLAYED, UnlessReplayed
from headway.api.wire.views import JobView, Json, JsonObject, Listed, job_view
from headway.errors import Replayed
from headway.model import refusals
from headway.model.ids import is_id
from headway.model.job import Job
from headway.model.machine import Child, StepExecution
from headway.model.signal import Signal
from headway.model.status import UNFINISHED, Status

routes = Routes("job actions")

U = msgspec.UnsetType
_NULL = msgspec.Raw(b"null")


class Changed(msgspec.Struct):
    id: str
    status: Status


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    reason: str | None = None
    at_once: bool = False  # end a flow without letting it undo what it did


@routes.post("/jobs/{id}/cancel", roles=OPERATORS, body=Cancel, answers={200: Changed}, problems=(404, 409, 412, 422))
async def cancel_job(call: Call[Cancel, None]) -> Changed:
    """Cancel a job at once, or ask it to stop if it is running, or is a flow that has begun."""
    job = await visible_job(call)
    status = await call.verbs.acancel(
        job.id, reason=call.body.reason, at_once=call.body.at_once, actor=call.actor, if_match=call.if_match
    )
    return Changed(job.id, status)


class Retry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to set before the job runs; a machine that ran keeps its payload."""

    scheduled_for: datetime | U | None = msgspec.UNSET
    delay: str | float | U | None = msgspec.UNSET
    max_attempts: int | U = msgspec.UNSET
    payload: JsonObject | U = msgspec.UNSET
    keep_place: bool = True  # in its line; else it goes to the end


@routes.post(
    "/jobs/{id}/retry",
    roles=OPERATORS,
    body=Retry,
    answers={200: JobView},
    problems=(404, 409, 412, 422),
    creates=True,
)
async def retry_job(call: Call[Retry, None]) -> Answer:
    """Run a finished job again, with a full budget; an at_most_once job runs as a new one."""

    async def retried(job: Job) -> str:
        return await call.verbs.aretry(
            job.id, actor=call.actor, if_match=call.if_match, request=call.request, **given(call.body, {})
        )

    return await _made_once(call, 200, retried)


async def _made_once(call: Call[Any, Any], status: int, make: Callable[[Job], Awaitable[str]]) -> Answer:
    """The job that `make` gives the id of, from the job of the path; or gave it, where the request was done before."""
    headers: dict[str, str] = {}
    try:
        async with UnlessReplayed(call.verbs, call.request):
            job = await visible_job(call)
        made = await make(job)
    except Replayed as again:
        made, headers = again.created[0][0], REPLAYED
    return Answer(status, job_view(await call.verbs.aget(made, raw=True)), headers)


@routes.post("/jobs/{id}/run", roles=OPERATORS, answers={200: Changed}, problems=(404, 409, 412))
async def run_job(call: Call[None, None]) -> Changed:
    """Make a scheduled job due now."""
    job = await visible_job(call)
    return Changed(
        job.id, await call.verbs.achange(job.id, scheduled_for=None, actor=call.actor, if_match=call.if_match)
    )


class JobChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to change; null takes a time, a timeout or meta away."""

    priority: int | U = msgspec.UNSET
    queue: str | U = msgspec.UNSET
    scheduled_for: datetime | U | None = msgspec.UNSET
    delay: str | float | U | None = msgspec.UNSET
    expires_at: datetime | U | None = msgspec.UNSET
    max_attempts: int | U = msgspec.UNSET
    max_losses: int | U = msgspec.UNSET
    timeout: str | float | U | None = msgspec.UNSET
    payload: JsonObject | U = msgspec.UNSET
    meta: dict[str, Any] | U | None = msgspec.UNSET
    tags: list[str] | U | None = msgspec.UNSET


async def check_change(call: Call[Any, Any], job: Job, changes: dict[str, Any]) -> None:
    """Raises `Refused` for what this key, or an enqueuer of the job's kind, may not set."""
    call.check_touch(queue=changes.get("queue", job.queue), kind=job.kind)
    if "payload" in changes:
        call.check_kind(job.kind)
    bounded: dict[str, Any] = {name: changes[name] for name in ("queue", "timeout") if name in changes}
    if bounded:
        await call.verbs.alearn(None)
        call.check_options(job.kind, bounded)


@routes.patch(
    "/jobs/{id}", roles=OPERATORS, body=JobChange, answers={200: JobView}, problems=(404, 409, 412, 422), tagged=True
)
async def change_job(call: Call[JobChange, None]) -> Answer:
    """Change a job that waits; its payload only while it has not run, its meta and tags even when it is over."""
    job = await visible_job(call)
    changes = changes_of(call.body, {})
    await check_change(call, job, changes)
    await call.verbs.achange(job.id, actor=call.actor, if_match=call.if_match, **changes)
    return shown(await call.verbs.aget(job.id, raw=True))


class Move(msgspec.Struct, forbid_unknown_fields=True):
    before: str | None = None
    after: str | None = None
    first: bool = False
    last: bool = False


@routes.post("/jobs/{id}/move", roles=OPERATORS, body=Move, answers={200: JobView}, problems=(404, 409, 412, 422))
async def move_job(call: Call[Move, None]) -> dict[str, Any]:
    """Move a job in its line: before or after another, first or last."""
    job = await visible_job(call)
    other = call.body.before or call.body.after
    if is_narrowed(call) and other is not None and is_id(other) and not await seen_ids(call, [other]):
        raise refusals.no_such_neighbour(other)
    await call.verbs.amove(job.id, actor=call.actor, if_match=call.if_match, **msgspec.structs.asdict(call.body))
    return job_view(await call.verbs.aget(job.id, raw=True))


class SignalIn(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    payload: Json | U = msgspec.UNSET
    dedup_key: str | None = None


class SignalMade(msgspec.Struct):
    id: str
    created: bool


@routes.post(
    "/jobs/{id}/signal",
    roles=PRODUCERS,
    body=SignalIn,
    answers={201: SignalMade, 200: SignalMade},
    problems=(404, 409, 422),
    creates=True,
)
async def signal_job(call: Call[SignalIn, None]) -> Answer:
    """Send a signal to a machine."""
    body = call.body
    headers: dict[str, str] = {}
    try:
        async with UnlessReplayed(call.verbs, call.request):
            job = await visible_job(call)
        signal = call.verbs.build_signal(job.id, body.name, body.payload or None, dedup_key=body.dedup_key)
        signal = msgspec.structs.replace(signal, trace_id=call.trace, created_by=str(call.actor))
        (sent,) = await call.verbs.asignal_many([signal], request=call.request)
        made = SignalMade(sent.id, sent.created)
    except Replayed as again:
        made, headers = SignalMade(*again.created[0]), REPLAYED
    return Answer(201 if made.created else 200, made, headers)


class Fork(msgspec.Struct, forbid_unknown_fields=True):
    at: int | None = None  # the execution, by its fence; by default the last
    state: Json | U = msgspec.UNSET
    step: str | None = None  # another than the execution ran
    before: str | int | None = None  # of a flow: the operation that it goes on with, by place or number; last-failure
    results: dict[str, Json] | None = (
        None  # of a flow: what earlier operations gave, by place, instead of what they did
    )


@routes.post(
    "/jobs/{id}/fork", roles=OPERATORS, body=Fork, answers={201: JobView}, problems=(404, 409, 422), creates=True
)
async def fork_job(call: Call[Fork, None]) -> Answer:
    """Start a new machine from a step of this one, or a new flow that goes on before an operation of this one."""
    body = call.body
    state = None if body.state in (msgspec.UNSET, _NULL) else body.state

    async def forked(job: Job) -> str:
        made = await call.verbs.afork(
            job.id,
            body.at,
            state,
            step=body.step,
            before=body.before,
            results=body.results,
            actor=call.actor,
            request=call.request,
        )
        return made.id

    return await _made_once(call, 201, forked)


@routes.delete("/jobs/{id}", roles=ADMINS, answers={204: None}, problems=(404, 409, 412))
async def delete_job(call: Call[None, None]) -> Answer:
    """Delete a job that does not run, for good. One that waits is canceled first; the child of a machine has to end."""
    job = await visible_job(call)
    expected = call.if_match
    if job.status in UNFINISHED and job.status != "running" and job.parent_id is None:
        # as it was when it was looked at: what has started meanwhile is neither canceled nor deleted
        await call.verbs.acancel(job.id, actor=call.actor, if_match=expected or (job.etag,))
        expected = None
    await call.verbs.adelete(job.id, actor=call.actor, if_match=expected)
    return Answer(204)


class WhyView(msgspec.Struct):
    id: str
    status: Status
    reasons: list[str]


@routes.get("/jobs/{id}/why", roles=VIEWERS, answers={200: WhyView}, problems=(404,))
async def explain_job(call: Call[None, None]) -> WhyView:
    """Say why a job is not running, or what it is doing."""
    job = await visible_job(call)
    why = await call.verbs.awhy(job.id)
    return WhyView(job.id, why.status, await without_hidden_ids(call, why.reasons))


class HistoryList(msgspec.Struct):
    items: list[StepExecution]
    next_cursor: str | None


@routes.get("/jobs/{id}/history", roles=VIEWERS, query=PartQuery, answers={200: HistoryList}, problems=(404, 409, 422))
async def list_history(call: Call[None, PartQuery]) -> Listed:
    """List a machine's executions: step, outcome, state, signals and children of each."""
    job = await visible_job(call)
    found = await seen_history(call, await call.verbs.ahistory(job.id, raw=True))
    return part(f"history of {job.id}", call.query, found, key=lambda each: str(each.fence))


class SignalList(msgspec.Struct):
    items: list[Signal]
    next_cursor: str | None


@routes.get("/jobs/{id}/signals", roles=VIEWERS, query=PartQuery, answers={200: SignalList}, problems=(404, 422))
async def list_signals(call: Call[None, PartQuery]) -> Listed:
    """List a machine's signals in order of arrival."""
    job = await visible_job(call)
    found = await call.verbs.asignals(job.id, raw=True)
    return part(f"signals of {job.id}", call.query, found, key=lambda each: each.id)


class ChildList(msgspec.Struct):
    items: list[Child]
    next_cursor: str | None


@routes.get("/jobs/{id}/children", roles=READERS, query=PartQuery, answers={200: ChildList}, problems=(404, 422))
async def list_children(call: Call[None, PartQuery]) -> Listed:
    """List the jobs that a machine spawned."""
    job = await visible_job(call)
    children = await call.verbs.achildren(job.id, raw=True)
    if is_narrowed(call):
        seen = await seen_ids(call, (each.id for each in children))
        children = [each for each in children if each.id in seen]
    return part(f"children of {job.id}", call.query, children, key=lambda each: each.id)
