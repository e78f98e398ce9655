"""Queues and workers."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.api.access.narrowed import seen_queues
from headway.api.call import Answer, Call
from headway.api.routes import SUPERADMINS, VIEWERS, MostCounted, Routes
from headway.api.wire.pages import PartQuery, etag, part
from headway.api.wire.views import Listed
from headway.model.fleet import Queue, Worker

routes = Routes("queues and workers")


class QueueList(msgspec.Struct):
    items: list[Queue]
    next_cursor: str | None


class QueueQuery(msgspec.Struct, forbid_unknown_fields=True):
    """With `most`, jobs are counted up to that many, which takes no longer however many there are."""

    most: MostCounted | None = None


class QueuesQuery(PartQuery, forbid_unknown_fields=True, kw_only=True):
    """The same, and which part of the list."""

    most: MostCounted | None = None


@routes.get("/queues", roles=VIEWERS, query=QueuesQuery, answers={200: QueueList}, problems=(422,))
async def list_queues(call: Call[None, QueuesQuery]) -> Listed:
    """List the queues, with the number of their unfinished jobs per status."""
    found = await seen_queues(call, call.query.most)
    return part("queues", call.query, found, key=lambda each: each.name)


@routes.post("/queues/{name}/pause", roles=SUPERADMINS, answers={200: QueueList}, problems=(412, 422), tagged=True)
async def pause_queue(call: Call[None, None]) -> Answer:
    """Stop claims from a queue; running jobs go on."""
    await call.app.apause(call.params["name"], actor=call.actor, if_match=call.if_match)
    return await _one(call)


@routes.post("/queues/{name}/resume", roles=SUPERADMINS, answers={200: QueueList}, problems=(412, 422), tagged=True)
async def resume_queue(call: Call[None, None]) -> Answer:
    """Allow claims from a paused queue again."""
    await call.app.aresume(call.params["name"], actor=call.actor, if_match=call.if_match)
    return await _one(call)


async def _one(call: Call[Any, Any]) -> Answer:
    found = await call.app.aqueues(name=call.params["name"])
    return Answer(200, Listed(found), etag(found[0]) if found else {})


class WorkerList(msgspec.Struct):
    items: list[Worker]
    next_cursor: str | None


@routes.get("/workers", roles=SUPERADMINS, query=PartQuery, answers={200: WorkerList}, problems=(422,))
async def list_workers(call: Call[None, PartQuery]) -> Listed:
    """List the registered workers."""
    return part("workers", call.query, await call.app.aworkers(), key=lambda each: each.id)
