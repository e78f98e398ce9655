"""Jobs: list, look, wait."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.api.call import Answer, Call
from headway.api.cursors import make_cursor, read_cursor
from headway.api.problems import Refused
from headway.api.routes import READERS, VIEWERS, Routes
from headway.api.views import AttemptView, JobView, Listed, attempt_view, job_view
from headway.errors import NotFound
from headway.model.job import Job, Source
from headway.model.status import FINISHED, Status

routes = Routes("jobs")

_LONGEST_WAIT_S = 30.0


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
