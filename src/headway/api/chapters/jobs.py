"""Jobs: enqueue, list, look."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.api.call import Answer, Call
from headway.api.cursors import make_cursor, read_cursor
from headway.api.problems import Refused
from headway.api.replays import REPLAYED
from headway.api.routes import PRODUCERS, READERS, VIEWERS, Routes
from headway.api.views import AttemptView, JobView, JsonObject, Listed, attempt_view, job_view
from headway.errors import NotFound, Replayed
from headway.model.job import Job, NewJob, OnConflict, Source
from headway.model.status import FINISHED, Status

routes = Routes("jobs")

_LONGEST_BATCH = 1_000
_LONGEST_WAIT_S = 30.0
_BOUNDED = {"queue": "queue", "timeout": "timeout_ms", "partition": "partition"}
"""The options that a definition bounds, and the fields of a job that they set."""


class JobIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue. `definition_key` is `kind`, `dedupe_key` is `unique_key`."""

    kind: str | None = None
    definition_key: str | None = None
    payload: JsonObject | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    scheduled_for: datetime | msgspec.UnsetType = msgspec.UNSET
    delay: str | float | msgspec.UnsetType = msgspec.UNSET
    unique_key: str | msgspec.UnsetType = msgspec.UNSET
    dedupe_key: str | msgspec.UnsetType = msgspec.UNSET
    unique_scope: list[Status] | msgspec.UnsetType = msgspec.UNSET
    on_conflict: OnConflict | msgspec.UnsetType = msgspec.UNSET
    idempotency_key: str | msgspec.UnsetType = msgspec.UNSET
    train: str | msgspec.UnsetType = msgspec.UNSET
    partition: str | msgspec.UnsetType = msgspec.UNSET
    group: str | msgspec.UnsetType = msgspec.UNSET
    after: list[str] | msgspec.UnsetType = msgspec.UNSET
    max_attempts: int | msgspec.UnsetType = msgspec.UNSET
    timeout: str | float | msgspec.UnsetType = msgspec.UNSET
    expires_at: datetime | msgspec.UnsetType = msgspec.UNSET
    correlation_id: str | msgspec.UnsetType = msgspec.UNSET
    meta: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class JobMade(msgspec.Struct, kw_only=True):
    """An enqueued job; `created` is false for one that was there already."""

    id: str
    tenant_id: str
    status: Status
    kind: str
    definition_key: str
    queue: str
    queued_at: datetime | None
    scheduled_for: datetime | None
    created: bool


class BatchIn(msgspec.Struct, forbid_unknown_fields=True):
    jobs: list[JobIn]


class BatchMade(msgspec.Struct):
    jobs: list[JobMade]


@routes.post(
    "/jobs",
    roles=PRODUCERS,
    body=JobIn,
    answers={201: JobMade, 200: JobMade},
    problems=(404, 409, 422, 429),
    creates=True,
)
async def create_job(call: Call[JobIn, None]) -> Answer:
    """Enqueue a job."""
    (made,), headers = await _enqueue(call, [call.body])
    return Answer(201 if made.created else 200, made, headers)


@routes.post(
    "/jobs/batch",
    roles=PRODUCERS,
    body=BatchIn,
    answers={201: BatchMade},
    problems=(404, 409, 422, 429),
    limit=16 * 2**20,
    creates=True,
)
async def create_jobs(call: Call[BatchIn, None]) -> Answer:
    """Enqueue up to 1,000 jobs in one transaction: all of them, or none."""
    if not 1 <= len(call.body.jobs) <= _LONGEST_BATCH:
        raise Refused(422, f"a batch has 1 to {_LONGEST_BATCH:,} jobs, not {len(call.body.jobs):,}")
    made, headers = await _enqueue(call, call.body.jobs)
    return Answer(201, BatchMade(made), headers)


async def _enqueue(call: Call[Any, None], jobs: list[JobIn]) -> tuple[list[JobMade], dict[str, str]]:
    """The jobs, and the headers of a repeated request."""
    verbs = call.verbs
    await verbs.alearn(None)
    built = [_built(call, job) for job in jobs]
    try:
        done = [(each.id, each.created) for each in await verbs.aenqueue_many(built, request=call.request)]
    except Replayed as again:
        return await _stored(call, again.created), REPLAYED
    return await _stored(call, done), {}


def _built(call: Call[Any, None], job: JobIn) -> NewJob:
    verbs = call.verbs
    kind, options = _options(job)
    definition = verbs._definitions.get(kind)
    if definition is None or not definition.active:
        raise Refused(
            422,
            f"kind {kind!r} has no {'active ' if definition else ''}definition",
            code="UnknownKind",
            fix="start a worker that has it, which declares it; or create the definition",
        )
    new = verbs._definitions.build(
        kind, job.payload or {}, {**options, "created_by": call.actor}, now=verbs.clock.now(), limit=verbs.payload_limit
    )
    call.check_touch(queue=new.queue, kind=new.kind)
    asked = {field: getattr(new, field) for option, field in _BOUNDED.items() if option in options}
    call.check_bounds(kind, definition, asked)
    return new


async def _stored(call: Call[Any, None], enqueued: list[tuple[str, bool]]) -> list[JobMade]:
    ids = [job_id for job_id, _ in enqueued]
    found = {job.id: job for job in await call.app.store.arun(call.app.store.ops.get(ids, tenant_id=None))}
    gone = next((job_id for job_id in ids if job_id not in found), "")
    if gone:
        raise Refused(409, f"job {gone}, which this request enqueued, was deleted meanwhile", job_id=gone)
    return [_made(found[job_id], created) for job_id, created in enqueued]


def _options(job: JobIn) -> tuple[str, dict[str, Any]]:
    """The kind and the options, each under its own name."""
    given = {name: getattr(job, name) for name in job.__struct_fields__}
    given = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    given.pop("payload", None)
    for alias, name in (("definition_key", "kind"), ("dedupe_key", "unique_key")):
        value = given.pop(alias, None)
        if value is not None:
            if given.get(name) not in (None, value):
                raise Refused(422, f"{alias} and {name} mean the same, and differ")
            given[name] = value
    kind = given.pop("kind", None)
    if not kind:
        raise Refused(422, "which kind? Give kind (or definition_key)")
    return kind, given


def _made(job: Job, created: bool) -> JobMade:
    return JobMade(
        id=job.id,
        tenant_id=job.tenant_id,
        status=job.status,
        kind=job.kind,
        definition_key=job.kind,
        queue=job.queue,
        queued_at=job.queued_at,
        scheduled_for=job.scheduled_for,
        created=created,
    )


class JobQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    status: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    source: tuple[Source, ...] = ()
    group: str | None = None
    correlation_id: str | None = None
    unique_key: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    limit: int = 50
    cursor: str | None = None


class JobList(msgspec.Struct):
    items: list[JobView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/jobs", roles=VIEWERS, query=JobQuery, answers={200: JobList}, problems=(422,))
async def list_jobs(call: Call[None, JobQuery]) -> Listed:
    """List jobs, newest first."""
    query = call.query
    if not 1 <= query.limit <= 200:
        raise Refused(422, f"limit={query.limit} must be from 1 to 200")
    filters: dict[str, Any] = {
        "status": tuple("dead" if each == "dead_letter" else each for each in query.status) or None,
        "kind": _narrowed(query.kind, call.key.kinds) or None,
        "queue": _narrowed(query.queue, call.key.queues) or None,
        "source": query.source or None,
        "group_id": query.group,
        "correlation_id": query.correlation_id,
        "unique_key": query.unique_key,
        "created_after": query.created_after,
        "created_before": query.created_before,
    }
    before = read_cursor("jobs", query.cursor)
    found = await call.verbs.ajobs(limit=query.limit, before=before, raw=True, **filters)
    more = make_cursor("jobs", found[-1].id) if len(found) == query.limit else None
    return Listed([job_view(job) for job in found], more)


def _narrowed(asked: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """What was asked for and the key may see; nothing allowed means everything."""
    if not allowed:
        return asked
    both = tuple(each for each in asked if each in allowed) if asked else allowed
    return both or ("-",)  # the name of nothing


class Summary(msgspec.Struct):
    counts: dict[str, int]
    running: int
    oldest_queued_at: datetime | None


@routes.get("/jobs/summary", roles=VIEWERS, answers={200: Summary})
async def summarize(call: Call[None, None]) -> Summary:
    """Count jobs by status."""
    counts: dict[Any, int] = await call.verbs.acounts()
    queues = await call.verbs.aqueues()
    oldest = min((each.oldest_queued_at for each in queues if each.oldest_queued_at is not None), default=None)
    return Summary(counts, counts.get("running", 0), oldest)


@routes.get("/jobs/{id}", roles=READERS, answers={200: JobView}, problems=(404,))
async def get_job(call: Call[None, None]) -> dict[str, Any]:
    """Show a job."""
    return job_view(await visible_job(call))


async def visible_job(call: Call[Any, Any]) -> Job:
    """The job of the path, if the key may see it."""
    job = await call.verbs.aget(call.params["id"], raw=True)
    if not call.may_touch(queue=job.queue, kind=job.kind):
        raise NotFound(f"there is no job {job.id} (or it is another tenant's, or it was pruned)")
    return job


class AttemptList(msgspec.Struct):
    items: list[AttemptView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/jobs/{id}/attempts", roles=READERS, answers={200: AttemptList}, problems=(404,))
async def list_attempts(call: Call[None, None]) -> Listed:
    """List the executions of a job, the open one last."""
    job = await visible_job(call)
    return Listed([attempt_view(each) for each in await call.verbs.aattempts(job.id, raw=True)])


class ResultQuery(msgspec.Struct, forbid_unknown_fields=True):
    wait: float = 0


class ResultView(msgspec.Struct):
    """How a job ended, or its status now."""

    id: str
    status: Status
    result: Any = None
    error: str | None = None


@routes.get(
    "/jobs/{id}/result",
    roles=READERS,
    query=ResultQuery,
    answers={200: ResultView, 202: ResultView},
    problems=(404, 422),
    waits=True,
)
async def get_result(call: Call[None, ResultQuery]) -> Answer:
    """Give a job's outcome, waiting for it up to 30 seconds; 202 if it has not ended."""
    if not 0 <= call.query.wait <= _LONGEST_WAIT_S:
        raise Refused(422, f"wait={call.query.wait:g} must be from 0 to {_LONGEST_WAIT_S:.0f} seconds")
    job = await visible_job(call)
    outcome = await call.verbs.aresult(job.id, timeout=call.query.wait, raw=True)
    ended = outcome.status in FINISHED
    return Answer(200 if ended else 202, ResultView(job.id, outcome.status, outcome.value, outcome.error))
