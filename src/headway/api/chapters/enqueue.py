"""Jobs: enqueue one, or many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import msgspec

from headway.api.access.narrowed import check_others, is_narrowed, refuse_hidden, shown_duplicate
from headway.api.aside import Breath, pause
from headway.api.call import Answer, Call
from headway.api.enqueues import is_plain_enough
from headway.api.routes import PRODUCERS, Routes
from headway.api.wire.bodies import LARGE
from headway.api.wire.problems import Fault, Refused, refused_at
from headway.api.wire.replays import REPLAYED, UnlessReplayed
from headway.api.wire.views import JsonObject
from headway.errors import Duplicate, HeadwayError, Replayed
from headway.model.codec import check_text
from headway.model.definition import Definition
from headway.model.job import Brief, Delivery, NewJob, OnConflict, OnEnd, OnFailure, Replaceable
from headway.model.restricted import OPTION_FIELDS
from headway.model.status import Status

routes = Routes("enqueue")

U = msgspec.UnsetType
_Build = Callable[[Any], NewJob]  # makes a job from a payload

_LONGEST_BATCH = 1_000
_BUILT_AT_ONCE = 100  # jobs of a batch, in a thread: others may have their turn between
_ALIASES = {"definition_key": "kind", "dedupe_key": "unique_key"}


class JobIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue: a kind or a template, a payload, and options. `definition_key` is `kind`, `dedupe_key` is
    `unique_key`; durations are texts such as "30s", or seconds."""

    kind: str | None = None
    definition_key: str | None = None
    template: str | None = None
    payload: JsonObject | U = msgspec.UNSET
    queue: str | U | None = msgspec.UNSET
    priority: int | U = msgspec.UNSET
    scheduled_for: datetime | U | None = msgspec.UNSET
    delay: str | float | U | None = msgspec.UNSET
    expires_at: datetime | U | None = msgspec.UNSET
    max_attempts: int | U = msgspec.UNSET
    max_losses: int | U = msgspec.UNSET
    timeout: str | float | U | None = msgspec.UNSET
    delivery: Delivery | U = msgspec.UNSET
    idempotency_key: str | U | None = msgspec.UNSET
    unique_key: str | U | None = msgspec.UNSET
    dedupe_key: str | U | None = msgspec.UNSET
    unique_by: list[str] | U | None = msgspec.UNSET
    unique_scope: list[str] | U | None = msgspec.UNSET
    unique_group: str | U | None = msgspec.UNSET
    unique_for: str | float | U | None = msgspec.UNSET
    on_conflict: OnConflict | U = msgspec.UNSET
    replace: list[Replaceable] | U | None = msgspec.UNSET
    debounce: str | float | U | None = msgspec.UNSET
    debounce_max: str | float | U | None = msgspec.UNSET
    train: str | U | None = msgspec.UNSET
    on_canceled: OnEnd | U = msgspec.UNSET
    on_dead: OnEnd | U = msgspec.UNSET
    partition: str | U | None = msgspec.UNSET
    concurrency: int | U | None = msgspec.UNSET
    concurrency_key: str | U | None = msgspec.UNSET
    rate: str | U | None = msgspec.UNSET
    burst: int | U | None = msgspec.UNSET
    rate_key: str | U | None = msgspec.UNSET
    group: str | U | None = msgspec.UNSET
    after: list[str] | str | U | None = msgspec.UNSET
    on_failure: OnFailure | U = msgspec.UNSET
    correlation_id: str | U | None = msgspec.UNSET
    tags: list[str] | U | None = msgspec.UNSET
    meta: dict[str, Any] | U | None = msgspec.UNSET


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
    """Enqueue a job; 200 with the existing one where its key is taken."""
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
        said = f"a batch has 1 to {_LONGEST_BATCH:,} jobs, not {len(call.body.jobs):,}"
        raise Refused(422, said, faults=[Fault("out of range", "/jobs")])
    made, headers = await _enqueue(call, call.body.jobs)
    return Answer(201, BatchMade(made), headers)


async def _enqueue(call: Call[Any, None], jobs: list[JobIn]) -> tuple[list[JobMade], dict[str, str]]:
    """The jobs, and the headers of a repeated request."""
    existing = partial(refuse_hidden, call) if is_narrowed(call) else None
    try:
        async with UnlessReplayed(call.verbs, call.request):
            built = await built_jobs(call, jobs, "" if isinstance(call.body, JobIn) else "jobs")
        if len(built) == 1 and is_plain_enough(built[0], call.app.payload_limit):
            one, row = await call.server.enqueues.enqueue(call.verbs, built[0], call.request)
            return [_made(row or _deleted(one.id), one.created)], {}
        done = await call.verbs.aenqueue_many(built, request=call.request, existing=existing)
    except Replayed as again:
        return await _stored(call, again.created), REPLAYED
    except Duplicate as taken:
        raise await shown_duplicate(call, taken) from None
    return await _stored(call, [(each.id, each.created) for each in done]), {}


async def built_jobs(call: Call[Any, None], jobs: Sequence[JobIn], at: str = "") -> list[NewJob]:
    """The jobs, as the key may enqueue them; raises `Refused`. `at` is the field of the body that has them, "" for a
    body that is one job."""
    await call.verbs.alearn(None)
    made_by: dict[str, Any] = {"created_by": check_text(call.actor, "created_by")}
    if (trace := call.trace) is not None:
        made_by["trace_id"] = trace
    built: list[NewJob] = []
    last: tuple[JobIn, _Build] | None = None
    alike: list[Any] = []  # payloads of jobs like the last, to be built together
    breath = Breath()
    try:
        for job in jobs:
            payload, job.payload = job.payload, msgspec.UNSET
            if last is not None and job == last[0]:  # most jobs of a batch differ by their payloads alone
                alike.append(payload)
                if len(alike) == _BUILT_AT_ONCE:
                    await _build_alike(call, last[1], alike, built)
            else:
                if last is not None:
                    await _build_alike(call, last[1], alike, built)
                if job.template:
                    built.append(await _from_template(call, job, payload, made_by))
                else:
                    build, first = await _first_of_many(call, job, payload, made_by)
                    built.append(first)
                    last = job, build
            await breath.take()
        if last is not None:
            await _build_alike(call, last[1], alike, built)
    except (Refused, HeadwayError) as error:
        place: list[str | int] = [at, len(built)] if at == "jobs" else [at] if at else []
        raise refused_at(error, place, JobIn.__struct_fields__) from None
    await check_others(call, built)
    return built


async def _build_alike(call: Call[Any, None], build: _Build, payloads: list[Any], built: list[NewJob]) -> None:
    """Build these, and leave none in the list; where one is refused, those before it are built. In a thread for a large
    body: payloads that are read on the event loop, even in small parts, leave garbage that is collected there."""

    def build_all() -> None:
        for payload in payloads:
            pause()
            new = build(payload)
            built.append(new)  # one by one: a refusal says how many there are before it

    await call.aside(build_all)
    payloads.clear()


async def _built(call: Call[Any, None], build: _Build, payload: Any) -> NewJob:
    if payload is msgspec.UNSET or len(payload) <= LARGE:
        return build(payload)
    return await call.aside(partial(build, payload))


async def _first_of_many(
    call: Call[Any, None], job: JobIn, payload: Any, made_by: dict[str, Any]
) -> tuple[_Build, NewJob]:
    """A function that builds jobs like this one, and the first of them: what is allowed for it is allowed for all."""
    kind, options = _options(call, job)
    definition = await _active(call, kind)
    build = call.verbs.job_builder(kind, stored=True, **options)

    def build_from(payload: Any) -> NewJob:
        new = build({} if payload is msgspec.UNSET else msgspec.Raw(bytes(payload)))
        return msgspec.structs.replace(new, **made_by)

    first = await _built(call, build_from, payload)
    _check(call, first, definition, options)
    return build_from, first


async def _from_template(call: Call[Any, None], job: JobIn, payload: Any, made_by: dict[str, Any]) -> NewJob:
    kind, options = _options(call, job)
    values = {} if payload is msgspec.UNSET else msgspec.json.decode(payload)
    new = await call.verbs.abuild_from_template(str(job.template), values, stored=True, **options, **made_by)
    definition = await _active(call, new.kind)
    if kind and kind != new.kind:
        raise Refused(422, f"template {job.template!r} is for kind {new.kind!r}, not {kind!r}: give one of them")
    _check(call, new, definition, OPTION_FIELDS)  # no matter who stored the template, its job is the caller's
    return new


def _check(call: Call[Any, None], new: NewJob, definition: Definition, options: Iterable[str]) -> None:
    """Raises `Refused` where the key may not enqueue such a job, with these options."""
    call.check_kind(new.kind)
    call.check_touch(queue=new.queue, kind=new.kind)
    fields = [field for option in options for field in OPTION_FIELDS.get(option, ())]
    call.check_bounds(new.kind, definition, {field: getattr(new, field) for field in fields})


async def _active(call: Call[Any, None], kind: str) -> Definition:
    """The kind's definition: without the code, nothing else says what its jobs are like."""
    definition = call.verbs.known_definition(kind)
    if definition is None:
        await call.verbs.alearn_again(None)
        definition = call.verbs.known_definition(kind)
    if definition is None or not definition.active:
        raise Refused(
            422,
            f"kind {kind!r} has no {'active ' if definition else ''}definition",
            code="UnknownKind",
            faults=[Fault("unknown", "/kind")],
            fix="start a worker that has it, which declares it; or create the definition",
        )
    return definition


async def _stored(call: Call[Any, None], enqueued: list[tuple[str, bool]]) -> list[JobMade]:
    ids = [job_id for job_id, _ in enqueued]
    found = {job.id: job for job in await call.app.store.arun(call.app.store.ops.brief(ids))}
    return [_made(found.get(job_id) or _deleted(job_id), created) for job_id, created in enqueued]


def _deleted(job_id: str) -> Any:
    raise Refused(409, f"job {job_id}, which this request enqueued, was deleted meanwhile", job_id=job_id)


def _options(call: Call[Any, None], job: JobIn) -> tuple[str, dict[str, Any]]:
    """The kind, "" for a template's, and the options, each under its own name."""
    if job.kind and job == _of_kind(job.kind):  # as most are: a kind and a payload
        return job.kind, {}
    fields = zip(job.__struct_fields__, msgspec.structs.astuple(job), strict=True)
    given = {name: value for name, value in fields if value is not msgspec.UNSET}
    for alias, name in _ALIASES.items():
        value = given.pop(alias, None)
        if value is not None:
            if given.get(name) not in (None, value):
                said = f"{alias} and {name} mean the same, and differ"
                raise Refused(422, said, faults=[Fault("differs", f"/{alias}")])
            given[name] = value
    kind, template = given.pop("kind") or "", given.pop("template")
    if not kind and not template:
        said = "which kind? Give kind (or definition_key), or template"
        raise Refused(422, said, faults=[Fault("missing", "/kind")])
    if isinstance(given.get("unique_scope"), list):
        given["unique_scope"] = ["dead" if each == "dead_letter" else each for each in given["unique_scope"]]
    if given.get("queue", "") is None:
        del given["queue"]
    if call.key.role != "superadmin":  # null means what the definition says, as for the database's own logins
        given = {name: value for name, value in given.items() if value is not None or name not in OPTION_FIELDS}
    return kind, given


@lru_cache(maxsize=1024)
def _of_kind(kind: str) -> JobIn:
    return JobIn(kind=kind)


def _made(job: Brief, created: bool) -> JobMade:
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
