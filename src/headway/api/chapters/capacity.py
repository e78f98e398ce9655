"""What all tenants share: limits, reservations, and settings of queues and workers."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

import msgspec

from headway.api.access.narrowed import seen_queues
from headway.api.call import Answer, Call
from headway.api.chapters.fleet import QueueQuery
from headway.api.routes import SUPERADMINS, VIEWERS, Routes
from headway.api.wire.pages import PageQuery, PartQuery, changes_of, etag, given, page, part
from headway.api.wire.problems import Refused
from headway.api.wire.views import JobView, Listed, job_view
from headway.errors import ConfigError, NotFound
from headway.model.fleet import Queue, Reaped, Worker
from headway.model.ids import is_id
from headway.model.job import Job
from headway.model.limit import Limit, LimitInUse
from headway.model.reservation import Reservation
from headway.store.ops import Op, Steps

routes = Routes("limits and reservations")

U = msgspec.UnsetType


LimitView = msgspec.defstruct(
    "LimitInUse",
    [
        *((field.name, field.type, field.default) for field in msgspec.structs.fields(Limit)),
        ("tenant", str | None, None),
        ("running", int | None, None),
        ("limited", int | None, None),
    ],
    kw_only=True,
    namespace={"__doc__": "A limit, the name of its tenant, how many run under it, and how many it holds back."},
)


class LimitList(msgspec.Struct):
    items: list[LimitView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/limits", roles=SUPERADMINS, query=PageQuery, answers={200: LimitList}, problems=(422,))
async def list_limits(call: Call[None, PageQuery]) -> Listed:
    """List the limits of queues, kinds and tenants, with how full they are."""

    async def fetch(count: int, after: str | None) -> list[LimitInUse]:
        found = await call.app.alimits_in_use()
        return [each for each in found if after is None or _limit_key(each) > after][:count]

    return await page("limits", call.query, fetch, key=_limit_key, show=_limit_view)


@routes.get("/limits/{scope}/{name}", roles=SUPERADMINS, answers={200: Limit}, problems=(404,), tagged=True)
async def get_limit(call: Call[None, None]) -> Answer:
    """Show the limit of a queue, kind or tenant, which is named by its id, with its `ETag`."""
    scope, name = call.params["scope"], call.params["name"]
    for limit in await call.app.alimits():
        if (limit.scope, limit.name) == (scope, name):
            return Answer(200, limit, etag(limit))
    raise NotFound(f"no limit is set for {scope} {name!r}")


def _limit_key(found: LimitInUse) -> str:
    return f"{found.limit.scope} {found.limit.name}"


def _limit_view(found: LimitInUse) -> Any:
    use = {"tenant": found.tenant, "running": found.running, "limited": found.limited}
    return LimitView(**msgspec.structs.asdict(found.limit), **use)


class LimitIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The limit of one queue, kind or tenant ("*": every tenant without its own). None removes one."""

    queue: str | U = msgspec.UNSET
    kind: str | U = msgspec.UNSET
    tenant: str | U = msgspec.UNSET
    max_running: int | U | None = msgspec.UNSET
    rate: str | U | None = msgspec.UNSET
    burst: int | U | None = msgspec.UNSET
    max_pending: int | U | None = msgspec.UNSET
    max_bytes: int | U | None = msgspec.UNSET
    max_events: int | U | None = msgspec.UNSET
    max_schedules: int | U | None = msgspec.UNSET
    max_group: int | U | None = msgspec.UNSET
    max_fan_out: int | U | None = msgspec.UNSET


@routes.post(
    "/limits", roles=SUPERADMINS, body=LimitIn, answers={200: Limit}, problems=(404, 409, 412, 422), tagged=True
)
async def set_limit(call: Call[LimitIn, None]) -> Answer:
    """Set limits of a queue, kind or tenant; what is not given stays."""
    options = given(call.body, {})
    ref = options.pop("tenant", None)
    if ref is not None and ref != "*":
        # over HTTP, naming a tenant does not create it
        options["tenant"] = UUID((await call.app.aget_tenant(UUID(ref) if is_id(ref) else ref)).id)
    elif ref == "*":
        options["tenant"] = ref
    limit = await call.app.alimit(actor=call.actor, if_match=call.if_match, **options)
    return Answer(200, limit, etag(limit))


# reservations


class ReservationList(msgspec.Struct):
    items: list[Reservation]
    next_cursor: str | None


@routes.get("/reservations", roles=SUPERADMINS, query=PartQuery, answers={200: ReservationList}, problems=(422,))
async def list_reservations(call: Call[None, PartQuery]) -> Listed:
    """List the reserved queues."""
    return part("reservations", call.query, await call.app.areservations(), key=lambda each: each.id)


class ReservationIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A queue to reserve. With the `id` of a reservation it renews that one."""

    queue: str
    expires: str | float = "10m"
    id: str | None = None


@routes.post("/reservations", roles=SUPERADMINS, body=ReservationIn, answers={201: Reservation}, problems=(409, 422))
async def make_reservation(call: Call[ReservationIn, None]) -> Answer:
    """Reserve a queue: no worker claims from it until the reservation is given back or expires."""
    body = call.body
    made = await call.app.areserve_queue(body.queue, expires=body.expires, reservation_id=body.id, actor=call.actor)
    return Answer(201, made)


@routes.delete("/reservations/{id}", roles=SUPERADMINS, answers={204: None}, problems=(404,))
async def end_reservation(call: Call[None, None]) -> Answer:
    """End a reservation, no matter who made it."""
    found = [each for each in await call.app.areservations() if each.id == call.params["id"]]
    if not found or not await call.app.aunreserve_queue(found[0].queue, found[0].id, actor=call.actor):
        raise NotFound(f"there is no reservation {call.params['id']} (any more)")
    return Answer(204)


# queues and workers


@routes.get("/queues/{name}", roles=VIEWERS, query=QueueQuery, answers={200: Queue}, problems=(404,), tagged=True)
async def get_queue(call: Call[None, QueueQuery]) -> Answer:
    """Show a queue, with its limit, retention and the number of its unfinished jobs per status."""
    return await _queue(call, call.query.most)


class QueueJobs(msgspec.Struct):
    items: list[JobView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/queues/{name}/jobs", roles=VIEWERS, query=PageQuery, answers={200: QueueJobs}, problems=(404, 422))
async def list_queue(call: Call[None, PageQuery]) -> Listed:
    """List the queued jobs of a queue, in the order in which they will run."""
    name = call.params["name"]
    if call.key.queues and name not in call.key.queues:
        raise NotFound(f"there is no queue {name!r}")

    async def fetch(count: int, after: str | None) -> list[Job]:
        kinds = call.key.kinds or None
        return await call.verbs.ajobs(
            queue=name, status="queued", kind=kinds, order="run", limit=count, after=after, raw=True
        )

    return await page(f"queue {name}", call.query, fetch, key=lambda job: job.cursor, show=job_view)


class QueueChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    max_running: int | U | None = msgspec.UNSET
    fair: bool | U = msgspec.UNSET
    retention: str | dict[str, str] | U | None = msgspec.UNSET


@routes.patch(
    "/queues/{name}", roles=SUPERADMINS, body=QueueChange, answers={200: Queue}, problems=(404, 412, 422), tagged=True
)
async def change_queue(call: Call[QueueChange, None]) -> Answer:
    """Set how many jobs of a queue run at once, whether its tenants take turns, how long its jobs are kept."""
    app, name, actor = call.app, call.params["name"], call.actor
    changes = changes_of(call.body, {})
    ops: list[Op[Any]] = []
    if "max_running" in changes:
        ops.append(app._limit(name, None, None, {"max_running": changes["max_running"]}, actor))
    if "fair" in changes:
        ops.append(app._fair(name, changes["fair"], actor))
    if "retention" in changes:
        ops.append(app._set_retention(name, changes["retention"], actor))

    def steps() -> Steps[None]:
        for op in ops:
            yield from op.steps()

    change = Op(steps, writes=True, refusable=True, atomic=True)
    await app.store.arun(app._if_queue_matches(name, call.if_match, change))
    app._wake_up(name, None)
    return await _queue(call)


class Names(msgspec.Struct):
    queues: list[str]


@routes.post("/queues/pause", roles=SUPERADMINS, answers={200: Names})
async def pause_queues(call: Call[None, None]) -> Names:
    """Pause every queue; gives those that were not paused yet."""
    return Names(await call.app.apause_all(actor=call.actor))


@routes.post("/queues/resume", roles=SUPERADMINS, answers={200: Names})
async def resume_queues(call: Call[None, None]) -> Names:
    """Resume every paused queue; gives them."""
    return Names(await call.app.aresume_all(actor=call.actor))


async def _queue(call: Call[Any, Any], most: int | None = None) -> Answer:
    name = call.params["name"]
    found = await seen_queues(call, most, name)
    if not found:
        raise NotFound(f"there is no queue {name!r} with unfinished jobs, a worker or a setting")
    return Answer(200, found[0], etag(found[0]))


@routes.get("/workers/{id}", roles=SUPERADMINS, answers={200: Worker}, problems=(404,), tagged=True)
async def get_worker(call: Call[None, None]) -> Answer:
    """Show a registered worker."""
    worker = await _worker(call)
    return Answer(200, worker, etag(worker))


class WorkerChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    queues: list[str] | dict[str, int] | None = None
    concurrency: int | None = None
    order: Literal["turns", "strict"] | dict[str, int] | None = None


@routes.patch(
    "/workers/{id}", roles=SUPERADMINS, body=WorkerChange, answers={200: Worker}, problems=(404, 412, 422), tagged=True
)
async def change_worker(call: Call[WorkerChange, None]) -> Answer:
    """Change what a live worker serves; it takes that at its next heartbeat."""
    worker = await _worker(call)
    try:
        changes = msgspec.structs.asdict(call.body)
        await call.app.aset_worker(worker.id, actor=call.actor, if_match=call.if_match, **changes)
    except ConfigError as error:
        raise Refused(422, str(error)) from None
    worker = await _worker(call)
    return Answer(200, worker, etag(worker))


class ReapedList(msgspec.Struct):
    items: list[Reaped]
    next_cursor: str | None


@routes.post("/workers/{id}/dead", roles=SUPERADMINS, answers={200: ReapedList}, problems=(404, 412))
async def declare_dead(call: Call[None, None]) -> Listed:
    """Declare a worker dead, whatever its lease says; its jobs go to others at once."""
    worker = await _worker(call)
    return Listed(list(await call.app.adeclare_dead(worker.id, actor=call.actor, if_match=call.if_match)))


async def _worker(call: Call[Any, Any]) -> Worker:
    found = [each for each in await call.app.aworkers() if each.id == call.params["id"]]
    if not found:
        raise NotFound(f"there is no worker {call.params['id']} (any more)")
    return found[0]
