"""Events: emit, list, look, retry."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import msgspec

from headway.api.access.narrowed import is_narrowed, seen_events, seen_ids
from headway.api.call import Answer, Call
from headway.api.chapters.triggers import FireList
from headway.api.routes import OPERATORS, PRODUCERS, VIEWERS, Routes
from headway.api.wire.pages import PageQuery, page
from headway.api.wire.problems import Refused
from headway.api.wire.replays import REPLAYED
from headway.api.wire.views import EventView, Json, Listed
from headway.errors import NotFound, Replayed
from headway.model.event import Event, NewEvent
from headway.model.trigger import Fire

routes = Routes("events")

_LONGEST_BATCH = 1_000


class EventIn(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    payload: Json | msgspec.UnsetType = msgspec.UNSET
    correlation_id: str | None = None


class EventsIn(msgspec.Struct, forbid_unknown_fields=True):
    events: list[EventIn]


class Emitted(msgspec.Struct):
    id: str


class EmittedMany(msgspec.Struct):
    ids: list[str]


@routes.post("/events", roles=PRODUCERS, body=EventIn, answers={201: Emitted}, problems=(409, 422, 429), creates=True)
async def emit(call: Call[EventIn, None]) -> Answer:
    """Store an event; triggers make jobs of it."""
    (event_id,), headers = await _emit(call, [call.body])
    return Answer(201, Emitted(event_id), headers)


@routes.post(
    "/events/batch",
    roles=PRODUCERS,
    body=EventsIn,
    answers={201: EmittedMany},
    problems=(409, 422, 429),
    limit=16 * 2**20,
    creates=True,
)
async def emit_many(call: Call[EventsIn, None]) -> Answer:
    """Store up to 1,000 events in one transaction: all of them, or none."""
    if not 1 <= len(call.body.events) <= _LONGEST_BATCH:
        raise Refused(422, f"a batch has 1 to {_LONGEST_BATCH:,} events, not {len(call.body.events):,}")
    ids, headers = await _emit(call, call.body.events)
    return Answer(201, EmittedMany(ids), headers)


async def _emit(call: Call[Any, None], events: list[EventIn]) -> tuple[list[str], dict[str, str]]:
    """The ids, and the headers of a repeated request."""
    verbs = call.verbs
    built = await call.aside(partial(_built, call, events))
    try:
        return await verbs.aemit_many(built, request=call.request), {}
    except Replayed as again:
        return [event_id for event_id, _ in again.created], REPLAYED


def _built(call: Call[Any, None], events: list[EventIn]) -> list[NewEvent]:
    build = call.verbs.build_event
    built = [build(each.name, each.payload or None, correlation_id=each.correlation_id) for each in events]
    return [msgspec.structs.replace(each, created_by=call.actor, trace_id=call.trace) for each in built]


class EventQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    name: tuple[str, ...] = ()
    status: tuple[Literal["pending", "handled", "failed"], ...] = ()


class EventList(msgspec.Struct):
    items: list[EventView]
    next_cursor: str | None


@routes.get("/events", roles=VIEWERS, query=EventQuery, answers={200: EventList}, problems=(422,))
async def list_events(call: Call[None, EventQuery]) -> Listed:
    """List events, newest first."""
    query = call.query

    async def fetch(count: int, before: str | None) -> list[Event]:
        return await call.verbs.aevents(
            name=query.name or None, status=query.status or None, limit=count, before=before, raw=True
        )

    listed = await page("events", query, fetch, key=lambda each: each.id)
    listed.items = await seen_events(call, listed.items)
    return listed


@routes.get("/events/{id}", roles=VIEWERS, answers={200: EventView}, problems=(404,))
async def get_event(call: Call[None, None]) -> Event:
    """Show an event, and what came of it."""
    return await _visible(call)


@routes.get("/events/{id}/fires", roles=VIEWERS, query=PageQuery, answers={200: FireList}, problems=(404, 422))
async def list_event_fires(call: Call[None, PageQuery]) -> Listed:
    """List what triggers made from an event, newest first."""
    event = await _visible(call)

    async def fetch(count: int, before: str | None) -> list[Fire]:
        return await call.verbs.afires(event_id=event.id, limit=count, before=before)

    found = await page("event fires", call.query, fetch, key=lambda each: each.id)
    if is_narrowed(call):
        seen = await seen_ids(call, (each.job_id for each in found.items if each.job_id is not None))
        found.items = [each for each in found.items if each.job_id in seen]
    return found


@routes.post("/events/{id}/retry", roles=OPERATORS, answers={200: EventView}, problems=(404, 409))
async def retry_event(call: Call[None, None]) -> Event:
    """Handle a failed event again, by the triggers that failed."""
    event = await _visible(call)
    await call.verbs.aretry_event(event.id, actor=call.actor)
    return await call.verbs.aget_event(event.id, raw=True)


async def _visible(call: Call[Any, Any]) -> Event:
    """The event of the path, if the key may see it."""
    event = await call.verbs.aget_event(call.params["id"], raw=True)
    if not await seen_events(call, [event]):
        raise NotFound(f"there is no event {event.id}")
    return event
