"""Trains and groups: jobs that run one after another, and jobs that were enqueued together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.api.access.narrowed import is_narrowed, may_see, seen_ids, sees_group, shown_duplicate
from headway.api.call import Answer, Call
from headway.api.chapters.enqueue import JobIn, built_jobs
from headway.api.routes import OPERATORS, PRODUCERS, READERS, VIEWERS, Routes
from headway.api.wire.pages import PageQuery, page
from headway.api.wire.problems import Refused
from headway.api.wire.replays import REPLAYED, UnlessReplayed
from headway.api.wire.views import JobView, Listed, job_view
from headway.errors import Duplicate, NotFound, Replayed
from headway.model.group import Group, GroupFailure, GroupStatus, Mode
from headway.model.status import UNFINISHED, Status
from headway.model.train import Train

routes = Routes("trains and groups")

_LARGEST_GROUP = 1_000


class TrainQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    blocked: bool | None = None


class TrainList(msgspec.Struct):
    items: list[Train]
    next_cursor: str | None


@routes.get("/trains", roles=VIEWERS, query=TrainQuery, answers={200: TrainList}, problems=(422,))
async def list_trains(call: Call[None, TrainQuery]) -> Listed:
    """List the trains that have unfinished cars or are on hold, by name."""
    query = call.query

    async def fetch(count: int, after: str | None) -> list[Train]:
        return await call.verbs.atrains(blocked=query.blocked, limit=count, after=after)

    listed = await page("trains", query, fetch, key=lambda each: each.train)
    listed.items = [train for each in listed.items if (train := await _seen_train(call, each)) is not None]
    return listed


class CarsQuery(msgspec.Struct, forbid_unknown_fields=True):
    limit: int = 200


class TrainShown(msgspec.Struct):
    """A train with its unfinished cars in their order, the locomotive first."""

    train: Train
    cars: list[JobView]  # type: ignore[valid-type]


@routes.get("/trains/{key}", roles=VIEWERS, query=CarsQuery, answers={200: TrainShown}, problems=(404, 422))
async def get_train(call: Call[None, CarsQuery]) -> dict[str, Any]:
    """Show a train with its unfinished cars, in the order in which they run."""
    if not 1 <= call.query.limit <= 1_000:
        raise Refused(422, f"limit={call.query.limit} must be from 1 to 1,000")
    return await _shown(call, call.query.limit)


class HoldIn(msgspec.Struct, forbid_unknown_fields=True):
    reason: str | None = None


@routes.post("/trains/{key}/hold", roles=OPERATORS, body=HoldIn, answers={200: TrainShown}, problems=(403, 404, 422))
async def hold_train(call: Call[HoldIn, None]) -> dict[str, Any]:
    """Start no further car until it is resumed; the running one goes on. A train need not have cars yet."""
    await _check_cars(call)
    await call.verbs.ahold_train(call.params["key"], reason=call.body.reason, actor=call.actor)
    return await _shown(call, 200)


class Resumed(msgspec.Struct):
    resumed: bool


@routes.post("/trains/{key}/resume", roles=OPERATORS, answers={200: Resumed}, problems=(403, 404))
async def resume_train(call: Call[None, None]) -> Resumed:
    """End a train's hold, so that its next car may start."""
    await _check_cars(call)
    return Resumed(await call.verbs.aresume_train(call.params["key"], actor=call.actor))


class SkipIn(msgspec.Struct, forbid_unknown_fields=True):
    job_id: str


class Skipped(msgspec.Struct):
    id: str
    status: Status


@routes.post("/trains/{key}/skip", roles=OPERATORS, body=SkipIn, answers={200: Skipped}, problems=(403, 404, 409, 422))
async def skip_car(call: Call[SkipIn, None]) -> Skipped:
    """Take a car out of the train, which then goes on."""
    job = await call.verbs.aget(call.body.job_id)
    if job.train != call.params["key"] or not may_see(call, job):
        raise NotFound(f"there is no job {call.body.job_id} in train {call.params['key']!r}")
    return Skipped(job.id, await call.verbs.askip(job.id, actor=call.actor))


class Cleared(msgspec.Struct):
    canceled: list[str]


@routes.post("/trains/{key}/clear", roles=OPERATORS, answers={200: Cleared}, problems=(403, 404))
async def clear_train(call: Call[None, None]) -> Cleared:
    """Cancel all cars but the running one, and end the hold."""
    await _check_cars(call)
    return Cleared(await call.verbs.aclear_train(call.params["key"], actor=call.actor))


async def _shown(call: Call[Any, Any], limit: int) -> dict[str, Any]:
    key = call.params["key"]
    for each in await _train(call, key):
        if each.train == key and (train := await _seen_train(call, each)) is not None:
            cars = await call.verbs.atrain(key, limit=limit, raw=True)
            return {"train": train, "cars": [job_view(job) for job in cars if may_see(call, job)]}
    raise NotFound(f"there is no train {key!r} with unfinished cars or on hold")


async def _seen_train(call: Call[Any, Any], train: Train) -> Train | None:
    """The train as the key may see it, with its head only if it may see that; None: it has no car that it may see."""
    if not is_narrowed(call):
        return train
    kinds, queues = call.key.kinds or None, call.key.queues or None
    own = await call.verbs.ajobs(train=train.train, status=UNFINISHED, kind=kinds, queue=queues, limit=1, raw=True)
    if not own:
        return None
    if train.head_id is not None and await seen_ids(call, [train.head_id]):
        return train
    return msgspec.structs.replace(train, head_id=None, head_kind=None)


async def _train(call: Call[Any, Any], key: str) -> list[Train]:
    store = call.app.store
    tenant_id = call.verbs.tenant_id or call.verbs._id_of(call.verbs._own_tenant)
    return await store.arun(store.ops.trains(tenant_id=tenant_id, train=key, blocked=None, limit=1, after=None))


async def _check_cars(call: Call[Any, Any]) -> None:
    """Raises `Refused` where the train has cars that the key may not touch."""
    if is_narrowed(call):
        cars = await call.verbs.atrain(call.params["key"], limit=10_000)
        seen = [job for job in cars if may_see(call, job)]
        if not seen:
            raise NotFound(f"there is no train {call.params['key']!r} with unfinished cars or on hold")
        if len(seen) < len(cars):
            raise Refused(403, "this train has cars that this key is not for")


# groups


class GroupView(msgspec.Struct, kw_only=True):
    """A group with how far its members are."""

    group: Group
    status: GroupStatus
    total: int
    done: int
    failed: int
    progress: float


class GroupIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Jobs to enqueue together, and the job that runs once all have ended."""

    jobs: list[JobIn]
    mode: Mode = "parallel"
    on_failure: GroupFailure = "stop"
    callback: JobIn | None = None


@routes.post(
    "/groups",
    roles=PRODUCERS,
    body=GroupIn,
    answers={201: GroupView},
    problems=(403, 404, 409, 422, 429),
    limit=16 * 2**20,
    creates=True,
)
async def create_group(call: Call[GroupIn, None]) -> Answer:
    """Enqueue up to 1,000 jobs as a group, all or none."""
    body = call.body
    if not 1 <= len(body.jobs) <= _LARGEST_GROUP:
        raise Refused(422, f"a group has 1 to {_LARGEST_GROUP:,} jobs, not {len(body.jobs):,}")
    headers: dict[str, str] = {}
    try:
        async with UnlessReplayed(call.verbs, call.request):
            jobs = await built_jobs(call, body.jobs, "jobs")
            callback = None if body.callback is None else (await built_jobs(call, [body.callback], "callback"))[0]
        made = await call.verbs.agroup(
            jobs, mode=body.mode, on_failure=body.on_failure, callback=callback, request=call.request
        )
        group_id = made.id
    except Replayed as again:
        group_id, headers = await _group_of(call, [job_id for job_id, _ in again.created]), REPLAYED
    except Duplicate as taken:
        raise await shown_duplicate(call, taken) from None
    (shown,) = await _group_views(call, [await call.verbs.aget_group(group_id)])
    return Answer(201, shown, headers)


async def _group_of(call: Call[Any, Any], ids: list[str]) -> str:
    """The group that these jobs were made as."""
    for job in await call.verbs.ajobs(ids=ids, limit=len(ids), raw=True):
        if job.group_id is not None:
            return job.group_id
    raise Refused(409, "the jobs of this group, which this request made, were deleted meanwhile", job_id=ids[0])


class GroupList(msgspec.Struct):
    items: list[GroupView]
    next_cursor: str | None


@routes.get("/groups", roles=VIEWERS, query=PageQuery, answers={200: GroupList}, problems=(422,))
async def list_groups(call: Call[None, PageQuery]) -> Listed:
    """List the groups with how far their members are, the newest first."""

    async def fetch(count: int, after: str | None) -> list[Group]:
        return await call.verbs.agroups(limit=count, after=after)

    listed = await page("groups", call.query, fetch, key=lambda each: each.id)
    listed.items = await _group_views(call, [each for each in listed.items if await sees_group(call, each.id)])
    return listed


@routes.get("/groups/{id}", roles=READERS, answers={200: GroupView}, problems=(404,))
async def get_group(call: Call[None, None]) -> GroupView:
    """Show a group's progress."""
    (shown,) = await _group_views(call, [await _visible_group(call)])
    return shown


class ReasonIn(msgspec.Struct, forbid_unknown_fields=True):
    reason: str | None = None


class Statuses(msgspec.Struct):
    """The status of each member, by id."""

    statuses: dict[str, Status]


@routes.post("/groups/{id}/cancel", roles=OPERATORS, body=ReasonIn, answers={200: Statuses}, problems=(403, 404, 422))
async def cancel_group(call: Call[ReasonIn, None]) -> Statuses:
    """Cancel the callback and all members that are not over."""
    group = await _visible_group(call, whole=True)
    return Statuses(await call.verbs.acancel_group(group.id, reason=call.body.reason, actor=call.actor))


class Retried(msgspec.Struct):
    ids: list[str]


@routes.post("/groups/{id}/retry", roles=OPERATORS, answers={200: Retried}, problems=(403, 404, 409), creates=True)
async def retry_group(call: Call[None, None]) -> Answer:
    """Run again the members that ended without success; at_most_once jobs run as new ones."""
    headers: dict[str, str] = {}
    try:
        async with UnlessReplayed(call.verbs, call.request):
            group = await _visible_group(call, whole=True)
        ids = await call.verbs.aretry_group(group.id, actor=call.actor, request=call.request)
    except Replayed as again:
        ids, headers = [job_id for job_id, _ in again.created], REPLAYED
    return Answer(200, Retried(ids), headers)


async def _visible_group(call: Call[Any, Any], *, whole: bool = False) -> Group:
    """The group of the path; for a key of some queues or kinds only if it has, or is only of, such jobs."""
    group = await call.verbs.aget_group(call.params["id"])
    if is_narrowed(call):
        jobs = await call.verbs.ajobs(group_id=group.id, limit=10_000)
        seen = [job for job in jobs if may_see(call, job)]
        if not seen:
            raise NotFound(f"there is no group {group.id}")
        callback = [] if group.callback_id is None else [group.callback_id]
        if whole and (len(seen) < len(jobs) or len(await seen_ids(call, callback)) < len(callback)):
            raise Refused(403, "this group has jobs that this key is not for")
    return group


async def _group_views(call: Call[Any, Any], groups: Sequence[Group]) -> list[GroupView]:
    """The groups; a callback that the key may not see is not named."""
    if is_narrowed(call):
        seen = await seen_ids(call, [each.callback_id for each in groups if each.callback_id is not None])
        groups = [
            each if each.callback_id in seen else msgspec.structs.replace(each, callback_id=None) for each in groups
        ]
    return [_group_view(each) for each in groups]


def _group_view(group: Group) -> GroupView:
    return GroupView(
        group=group,
        status=group.status,
        total=group.total,
        done=group.done,
        failed=group.failed,
        progress=group.progress,
    )
