"""Jobs: list, look, wait."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from headway.api.access.narrowed import is_narrowed, may_see, seen_counts, seen_names, seen_queues, visible_job
from headway.api.call import Answer, Call
from headway.api.routes import READERS, VIEWERS, MostCounted, Routes
from headway.api.wire.cursors import is_cursor_of, make_cursor, read_cursor
from headway.api.wire.pages import PartQuery, etag, part
from headway.api.wire.problems import Fault, Refused
from headway.api.wire.views import ArtifactView, AttemptView, JobView, Listed, artifact_view, attempt_view, job_view
from headway.clock import from_micros
from headway.model.job import Job, Outcome, Source
from headway.model.listing import Order
from headway.model.spill import Spilled
from headway.model.status import FINISHED, Status

routes = Routes("jobs")

_LONGEST_WAIT_S = 30.0
PAGE = 50
SEARCHED = 20_000
"""How many jobs a page looks at for a filter that no index finds: a fraction of a second, however many there are."""
_ID_BEGINNING = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{0,35}\Z")


class JobQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`q` is the beginning of an id, or an exact unique key; a job has all of `tag`; `error` is the
    fingerprint with which its last execution ended."""

    status: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    definition_key: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    source: tuple[Source, ...] = ()
    tag: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    correlation_id: str | None = None
    unique_key: str | None = None
    dedupe_key: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    error: str | None = None
    q: str | None = None
    order: Order = "newest"
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = PAGE
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    cursor: str | None = None


class JobList(msgspec.Struct):
    items: list[JobView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/jobs", roles=VIEWERS, query=JobQuery, answers={200: JobList}, problems=(422,))
async def list_jobs(call: Call[None, JobQuery]) -> Listed:
    """List jobs, newest first or in another order."""
    query = call.query
    filters = job_filters(query, call)
    if query.q is None:
        return await _page(call, "jobs", filters)
    by_key = filters | {"unique_key": query.q}
    if query.cursor is not None and is_cursor_of(_named("jobs by key", query), query.cursor):
        return await _page(call, "jobs by key", by_key)
    if _ID_BEGINNING.match(query.q):
        found = await _page(call, "jobs", filters | {"id_prefix": query.q})
        if found.items or found.next_cursor is not None or query.cursor is not None:
            return found
    return await _page(call, "jobs by key", by_key)


async def _page(call: Call[None, JobQuery], of: str, filters: dict[str, Any]) -> Listed:
    query = call.query
    name = _named(of, query)
    after = read_cursor(name, query.cursor)
    if after is not None and query.offset:
        raise Refused(422, "cursor and offset exclude each other: give one", faults=[Fault("not valid", "offset")])
    found = await call.verbs.ajobs(
        limit=query.limit,
        after=after,
        order=query.order,
        offset=query.offset,
        raw=True,
        search_limit=SEARCHED,
        **filters,
    )
    last = getattr(found, "reached", None)
    # a page of large jobs ends early
    if last is None and found and (len(found) == query.limit or getattr(found, "early", False)):
        last = found[-1].cursor
    return Listed([job_view(job) for job in found], None if last is None else make_cursor(name, last))


def _named(of: str, query: JobQuery) -> str:
    """The list that a cursor belongs to: one in another order is another list."""
    return f"{of}, {query.order}"


def job_filters(query: Any, call: Call[Any, Any]) -> dict[str, Any]:
    """The filters of the library that a query or a bulk action means, narrowed to what the key may see."""
    kinds = (*query.kind, *query.definition_key)
    if query.unique_key is not None and query.dedupe_key not in (None, query.unique_key):
        raise Refused(422, "dedupe_key and unique_key mean the same, and differ")
    return {
        "status": tuple("dead" if each == "dead_letter" else each for each in query.status) or None,
        "kind": seen_names(kinds, call.key.kinds),
        "queue": seen_names(query.queue, call.key.queues),
        "source": query.source or None,
        "tags": query.tag or None,
        "train": query.train or None,
        "group_id": query.group or None,
        "correlation_id": query.correlation_id,
        "unique_key": query.unique_key or query.dedupe_key,
        "created_after": query.created_after,
        "created_before": query.created_before,
        "error": query.error,
    }


class SummaryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """With `most`, and without `by`, jobs are counted up to that many of each status, which takes no longer however
    many there are."""

    by: Literal["queue", "kind"] | None = None
    most: MostCounted | None = None
    oldest: bool = True  # whether to look for the job that is queued longest


class Summary(msgspec.Struct):
    counts: dict[str, int]
    running: int
    oldest_queued_at: datetime | None
    oldest_queued_age_seconds: float | None
    by: dict[str, dict[str, int]] | None = None  # counts of each queue or kind


@routes.get("/jobs/summary", roles=VIEWERS, query=SummaryQuery, answers={200: Summary})
async def summarize(call: Call[None, SummaryQuery]) -> Summary:
    """Count jobs by status, and with `by=queue` or `by=kind` for each of these."""
    counts: dict[Any, int] = {}
    by: dict[str, dict[str, int]] | None = None if call.query.by is None else {}
    if by is None and not is_narrowed(call):
        counts = await call.verbs.acounts(most=call.query.most)
    else:
        for each in await seen_counts(call):
            counts[each.status] = counts.get(each.status, 0) + each.count
            if by is not None:
                of = by.setdefault(each.queue if call.query.by == "queue" else each.kind, {})
                of[each.status] = of.get(each.status, 0) + each.count
    queues = await seen_queues(call, call.query.most) if call.query.oldest else []
    oldest = min((each.oldest_queued_at for each in queues if each.oldest_queued_at is not None), default=None)
    age = None if oldest is None else max(0.0, (from_micros(call.verbs.clock.now()) - oldest).total_seconds())
    return Summary(counts, counts.get("running", 0), oldest, age, by)


@routes.get("/jobs/{id}", roles=READERS, answers={200: JobView}, problems=(404,), tagged=True)
async def get_job(call: Call[None, None]) -> Answer:
    """Show a job."""
    return shown(await visible_job(call))


def shown(job: Job) -> Answer:
    """A job, with the ETag of what is shown."""
    return Answer(200, job_view(job), etag(job))


async def _outcome(call: Call[None, ResultQuery], job: Job) -> Outcome:
    """How the job ended, or is now when the time is over, the client has gone, or the server ends."""
    if not call.query.wait or job.status in FINISHED:
        return await call.verbs.aresult(job.id, timeout=0, raw=True)
    ended = asyncio.ensure_future(call.verbs.aresult(job.id, timeout=call.query.wait, raw=True))
    others = (asyncio.ensure_future(call.gone()), asyncio.ensure_future(call.server.stopping.wait()))
    try:
        async with call.waiting():
            await asyncio.wait((ended, *others), return_when=asyncio.FIRST_COMPLETED)
        return await (ended if ended.done() else call.verbs.aresult(job.id, timeout=0, raw=True))
    finally:
        for each in (ended, *others):
            each.cancel()
        await asyncio.gather(ended, *others, return_exceptions=True)


class AttemptList(msgspec.Struct):
    items: list[AttemptView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/jobs/{id}/attempts", roles=READERS, query=PartQuery, answers={200: AttemptList}, problems=(404, 422))
async def list_attempts(call: Call[None, PartQuery]) -> Listed:
    """List the executions of a job, the open one last."""
    job = await visible_job(call)
    found = await call.verbs.aattempts(job.id, raw=True)
    listed = part(f"attempts of {job.id}", call.query, found, key=lambda each: str(each.fence))
    listed.items = [attempt_view(each) for each in listed.items]
    return listed


@routes.get("/jobs/{id}/chain", roles=VIEWERS, query=PartQuery, answers={200: JobList}, problems=(404, 422))
async def list_chain(call: Call[None, PartQuery]) -> Listed:
    """List a job with the jobs that it retries and that retry it, the first one first."""
    job = await visible_job(call)
    chain = [each for each in await call.verbs.achain(job.id, raw=True) if may_see(call, each)]
    listed = part(f"chain of {job.id}", call.query, chain, key=lambda each: each.id)
    listed.items = list(map(job_view, listed.items))
    return listed


class ResultQuery(msgspec.Struct, forbid_unknown_fields=True):
    wait: float = 0


class ResultView(msgspec.Struct):
    """How a job ended, or its status now. The content of `artifact`, if there is one, is the result."""

    id: str
    status: Status
    result: Any = None
    error: str | None = None
    artifact: ArtifactView | None = None  # type: ignore[valid-type]


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
    outcome = await _outcome(call, job)
    ended = outcome.status in FINISHED
    spilled = outcome.value.id if type(outcome.value) is Spilled else None
    artifact: Any = None if spilled is None else artifact_view(await call.verbs.aartifact(spilled))
    return Answer(200 if ended else 202, ResultView(job.id, outcome.status, outcome.value, outcome.error, artifact))
