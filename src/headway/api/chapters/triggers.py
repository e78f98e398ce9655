"""Triggers: what makes jobs by the clock and of events, in one list."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from headway.api.access.narrowed import is_narrowed, may_see_kind, queue_of
from headway.api.call import Answer, Call
from headway.api.routes import ADMINS, OPERATORS, VIEWERS, Routes
from headway.api.wire.pages import PageQuery, changes_of, given, page, revision_tag, size_of_payload
from headway.api.wire.problems import Fault, Refused
from headway.api.wire.replays import REPLAYED, UnlessReplayed
from headway.api.wire.views import Listed
from headway.app.triggers import Rehearsal
from headway.define.options import stored_options
from headway.errors import Duplicate, NotAllowed, NotFound, Replayed
from headway.model.ids import is_id
from headway.model.trigger import CatchUp, Fire, Overlap, Trigger
from headway.store.ops import Op

routes = Routes("triggers")

U = msgspec.UnsetType
_ALIASES = {
    "trigger_type": "type",
    "event_name": "event",
    "cron_expr": "cron",
    "timezone": "tz",
    "definition_key": "kind",
    "payload_template": "payload",
    "dedupe_window_seconds": "dedupe_window",
    "is_enabled": "enabled",
}
TriggerType = Literal["event", "schedule"]
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.]+")
_MOST_TIMES = 100
_HARMLESS = {"enabled", "label", "description", "new_name"}
_ONLY_OF = {
    "event": {"event", "when", "dedupe_window", "dedupe_key", "signal", "to"},
    "schedule": {"cron", "every", "tz", "jitter", "start", "end"},
}

_SHOWN: list[tuple[str, Any]] = [
    ("trigger_type", TriggerType),
    ("event_name", str | None),
    ("cron_expr", str | None),
    ("timezone", str),
    ("definition_key", str | None),
    ("payload_template", Any),
    ("dedupe_window_seconds", float),
    ("is_enabled", bool),
]
TriggerView = msgspec.defstruct(
    "Trigger",
    [*((field.name, field.type) for field in msgspec.structs.fields(Trigger)), *_SHOWN],
    namespace={"__doc__": "A schedule or an event trigger."},
)


def trigger_view(trigger: Trigger) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(trigger),
        "label": trigger.label or trigger.name,
        "trigger_type": trigger.type,
        "event_name": trigger.event,
        "cron_expr": trigger.cron,
        "timezone": trigger.tz,
        "definition_key": trigger.kind or trigger.template_kind,
        "payload_template": trigger.payload,
        "dedupe_window_seconds": trigger.dedupe_window_ms / 1_000,
        "is_enabled": trigger.enabled,
    }


class TriggerChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What can be changed. None removes a value."""

    label: str | U | None = msgspec.UNSET
    name: str | U = msgspec.UNSET
    description: str | U = msgspec.UNSET
    definition_key: str | U | None = msgspec.UNSET
    kind: str | U | None = msgspec.UNSET
    template: str | U | None = msgspec.UNSET
    payload_template: dict[str, Any] | U | None = msgspec.UNSET
    payload: dict[str, Any] | U | None = msgspec.UNSET
    options: dict[str, Any] | U | None = msgspec.UNSET
    is_enabled: bool | U = msgspec.UNSET
    enabled: bool | U = msgspec.UNSET
    event_name: str | U | None = msgspec.UNSET
    event: str | U | None = msgspec.UNSET
    when: dict[str, Any] | U | None = msgspec.UNSET
    dedupe_window_seconds: float | U | None = msgspec.UNSET
    dedupe_window: str | float | U | None = msgspec.UNSET
    dedupe_key: str | U | None = msgspec.UNSET
    signal: str | U | None = msgspec.UNSET
    to: str | U | None = msgspec.UNSET
    cron_expr: str | U | None = msgspec.UNSET
    cron: str | U | None = msgspec.UNSET
    every: str | float | U | None = msgspec.UNSET
    timezone: str | U | None = msgspec.UNSET
    tz: str | U | None = msgspec.UNSET
    catch_up: CatchUp | U = msgspec.UNSET
    catch_up_window: str | float | U = msgspec.UNSET
    overlap: Overlap | U = msgspec.UNSET
    jitter: str | float | U | None = msgspec.UNSET
    start: datetime | U | None = msgspec.UNSET
    end: datetime | U | None = msgspec.UNSET


class TriggerIn(TriggerChange, forbid_unknown_fields=True, kw_only=True):
    """A trigger to store, with its `trigger_type`; without a name it gets one made from its label."""

    trigger_type: TriggerType | U = msgspec.UNSET
    type: TriggerType | U = msgspec.UNSET


class TriggerQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    trigger_type: tuple[TriggerType, ...] = ()
    type: tuple[TriggerType, ...] = ()
    event_name: tuple[str, ...] = ()
    event: tuple[str, ...] = ()


class TriggerList(msgspec.Struct):
    items: list[TriggerView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/jobs/triggers", roles=VIEWERS, query=TriggerQuery, answers={200: TriggerList}, problems=(422,))
async def list_triggers(call: Call[None, TriggerQuery]) -> Listed:
    """List schedules and event triggers, oldest first."""
    query = call.query
    for alias, name in (("trigger_type", "type"), ("event_name", "event")):
        if len({frozenset(getattr(query, each)) for each in (alias, name)} - {frozenset()}) > 1:
            raise Refused(422, f"{alias} and {name} mean the same, and differ", faults=[Fault("differs", alias)])
    await call.verbs.alearn(None)  # a kind's queue, for keys of some queues
    queues: dict[str, str | None] = {}

    async def fetch(count: int, after: str | None) -> list[Trigger]:
        found = await call.verbs.atriggers(
            type=query.trigger_type or query.type or "any",
            event=query.event_name or query.event or None,
            limit=count,
            after=after,
        )
        queues.update(await _template_queues(call, found))
        return found

    return await page(
        "triggers",
        query,
        fetch,
        key=_id,
        show=trigger_view,
        visible=lambda each: _is_visible(call, each, queues),
        size=size_of_payload,
    )


@routes.post(
    "/jobs/triggers",
    roles=ADMINS,
    body=TriggerIn,
    answers={201: TriggerView},
    problems=(404, 409, 422, 429),
    tagged=True,
)
async def create_trigger(call: Call[TriggerIn, None]) -> Answer:
    """Store a trigger: what it waits for, and what it makes then."""
    options = given(call.body, _ALIASES)
    type_ = options.pop("type", None)
    if type_ is None:
        raise Refused(
            422, "which type? Give trigger_type: event or schedule", faults=[Fault("missing", "/trigger_type")]
        )
    options = _without_nulls_of_others(type_, options)
    name = options.pop("name", None)
    if name is None and not options.get("label"):
        raise Refused(422, "it needs a label, or a name", faults=[Fault("missing", "/label")])
    await _check_bounds(call, options)
    made = _name_of(str(options.get("label")))
    try:
        trigger = await _create(call, type_, name or made, options)
    except Duplicate:
        if name is not None:
            raise
        trigger = await _create(call, type_, f"{made}-{secrets.token_hex(4)}", options)
    return _tagged(trigger, 201)


async def _create(call: Call[Any, Any], type_: str, name: str, options: dict[str, Any]) -> Trigger:
    if type_ == "schedule":
        return await call.verbs.acreate_schedule(name, actor=call.actor, **options)
    rest = {**options}
    event = _event_of(rest)
    return await call.verbs.acreate_trigger(name, event, actor=call.actor, **rest)


def _without_nulls_of_others(type_: TriggerType, options: dict[str, Any]) -> dict[str, Any]:
    """Clients with one shape for both types send null in what only the other type has."""
    others = _ONLY_OF["schedule" if type_ == "event" else "event"]
    return {name: to for name, to in options.items() if to is not None or name not in others}


def _event_of(options: dict[str, Any]) -> str:
    """Take it out of these."""
    event = options.pop("event", None)
    if event is None:
        raise Refused(422, "an event trigger needs event_name", faults=[Fault("missing", "/event_name")])
    return str(event)


class PreviewIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A cron expression or an interval, as a schedule takes them."""

    cron_expr: str | U = msgspec.UNSET
    cron: str | U = msgspec.UNSET
    every: str | float | U = msgspec.UNSET
    timezone: str | U = msgspec.UNSET
    tz: str | U = msgspec.UNSET
    after: datetime | U = msgspec.UNSET
    count: int = 5


class Preview(msgspec.Struct):
    """The next times, and what clocks in the schedule's zone show then."""

    times: list[datetime]
    tz: str
    local: list[datetime]


@routes.post("/jobs/triggers/preview", roles=VIEWERS, body=PreviewIn, answers={200: Preview}, problems=(422,))
async def preview_times(call: Call[PreviewIn, None]) -> Preview:
    """Say when a schedule of this cron expression or interval would be due."""
    options = given(call.body, _ALIASES)
    if "tz" not in options:
        zone = Op(lambda: call.verbs._default_zone(call.verbs._id_of(call.verbs._own_tenant)), writes=False)
        options["tz"] = await call.app.store.arun(zone)
    times = await call.verbs.apreview_schedule(count=_count(options.pop("count")), **options)
    return _preview(times, options["tz"])


class UnsavedIn(TriggerChange, forbid_unknown_fields=True, kw_only=True):
    """An event trigger as it would be stored, and the payload of an event to try it with."""

    sample: Any = None


@routes.post("/jobs/triggers/test", roles=ADMINS, body=UnsavedIn, answers={200: Rehearsal}, problems=(404, 422))
async def test_unsaved(call: Call[UnsavedIn, None]) -> Rehearsal:
    """Say what an event trigger would make from a sample event, before it is stored. Nothing is stored."""
    options = given(call.body, _ALIASES)
    sample, name, event = options.pop("sample"), options.pop("name", None), _event_of(options)
    await _check_bounds(call, options)
    return await call.verbs.apreview_trigger(name or _name_of(str(options.get("label"))), event, sample, **options)


@routes.get("/jobs/triggers/{id}", roles=VIEWERS, answers={200: TriggerView}, problems=(404,), tagged=True)
async def get_trigger(call: Call[None, None]) -> Answer:
    """Show a trigger, with its revision as `ETag`."""
    return _tagged(await _visible(call))


@routes.patch(
    "/jobs/triggers/{id}",
    roles=ADMINS,
    body=TriggerChange,
    answers={200: TriggerView},
    problems=(404, 409, 412, 422),
    tagged=True,
)
async def change_trigger(call: Call[TriggerChange, None]) -> Answer:
    """Change a trigger. Of a schedule that the code declares, only whether it is enabled."""
    trigger = await _visible(call)
    changes = _without_nulls_of_others(trigger.type, changes_of(call.body, _ALIASES))
    if not {"kind", "template", "options"}.isdisjoint(changes):
        stored: dict[str, Any] = {"options": trigger.options}
        if changes.get("kind") is None:
            stored |= {"kind": trigger.kind} if trigger.template_id is None else {"template": UUID(trigger.template_id)}
        await _check_bounds(call, stored | changes)
    elif not changes.keys() <= _HARMLESS:
        await _check_own(call, trigger)
    return _tagged(await _change(call, trigger, changes))


@routes.delete("/jobs/triggers/{id}", roles=ADMINS, answers={204: None}, problems=(404, 412))
async def delete_trigger(call: Call[None, None]) -> Answer:
    """Delete a trigger; its jobs stay."""
    trigger = await _visible(call)
    if trigger.type == "schedule":
        await call.verbs.adelete_schedule(UUID(trigger.id), actor=call.actor, if_match=call.if_match)
    else:
        await call.verbs.adelete_trigger(UUID(trigger.id), actor=call.actor, if_match=call.if_match)
    return Answer(204)


@routes.post("/jobs/triggers/{id}/pause", roles=OPERATORS, answers={200: TriggerView}, problems=(404, 412), tagged=True)
async def pause_trigger(call: Call[None, None]) -> Answer:
    """Stop firing it until it is resumed."""
    return _tagged(await _change(call, await _visible(call), {"enabled": False}))


@routes.post(
    "/jobs/triggers/{id}/resume", roles=OPERATORS, answers={200: TriggerView}, problems=(404, 412), tagged=True
)
async def resume_trigger(call: Call[None, None]) -> Answer:
    """Let it fire again."""
    return _tagged(await _change(call, await _visible(call), {"enabled": True}))


class RunIn(msgspec.Struct, forbid_unknown_fields=True):
    payload: dict[str, Any] | None = None


@routes.post(
    "/jobs/triggers/{id}/run",
    roles=OPERATORS,
    body=RunIn,
    answers={201: Fire},
    problems=(404, 409, 422, 429),
    creates=True,
)
async def run_trigger(call: Call[RunIn, None]) -> Answer:
    """Fire a schedule once, now, with these fields over its payload. Its next time does not change."""
    headers: dict[str, str] = {}
    try:
        async with UnlessReplayed(call.verbs, call.request):
            trigger = await _visible(call)
            if trigger.type != "schedule":
                raise Refused(
                    409, "an event trigger fires when its event is emitted", fix="emit the event: POST /events"
                )
            kind = await _check_own(call, trigger)
            if call.body.payload:
                call.check_kind(kind)
        fire = await call.verbs.arun_schedule(
            UUID(trigger.id), call.body.payload, trace_id=call.trace, actor=call.actor, request=call.request
        )
    except Replayed as again:
        fire, headers = await _fire(call, again.created[0][0]), REPLAYED
    return Answer(201, fire, headers)


async def _fire(call: Call[Any, Any], fire_id: str) -> Fire:
    """A fire by its id: the newest before the id after it."""
    found = await call.verbs.afires(before=UUID(int=UUID(fire_id).int + 1), limit=1)
    if not found or found[0].id != fire_id:
        raise Refused(409, "what this request fired was deleted meanwhile")
    return found[0]


class TestIn(msgspec.Struct, forbid_unknown_fields=True):
    """A sample event; for a schedule, fields over its payload."""

    payload: Any = None
    event_name: str | None = None


@routes.post("/jobs/triggers/{id}/test", roles=OPERATORS, body=TestIn, answers={200: Rehearsal}, problems=(404, 422))
async def test_trigger(call: Call[TestIn, None]) -> Rehearsal:
    """Say what it would make from a sample event, or a schedule of this moment. Nothing is stored."""
    trigger = await _visible(call)
    if trigger.type == "schedule":
        return await call.verbs.atest_schedule(UUID(trigger.id), call.body.payload)
    return await call.verbs.atest_trigger(UUID(trigger.id), call.body.payload, event=call.body.event_name)


class FireList(msgspec.Struct):
    items: list[Fire]
    next_cursor: str | None


@routes.get("/jobs/triggers/{id}/fires", roles=VIEWERS, query=PageQuery, answers={200: FireList}, problems=(404, 422))
async def list_fires(call: Call[None, PageQuery]) -> Listed:
    """List what it fired, newest first."""
    trigger = await _visible(call)

    async def fetch(count: int, before: str | None) -> list[Fire]:
        return await call.verbs.afires(trigger=UUID(trigger.id), limit=count, before=before)

    return await page("fires", call.query, fetch, key=_id)


class TimesQuery(msgspec.Struct, forbid_unknown_fields=True):
    count: int = 5


@routes.get(
    "/jobs/triggers/{id}/preview", roles=VIEWERS, query=TimesQuery, answers={200: Preview}, problems=(404, 409, 422)
)
async def preview_trigger(call: Call[None, TimesQuery]) -> Preview:
    """Say when a schedule is due next."""
    trigger = await _visible(call)
    if trigger.type != "schedule":
        raise Refused(409, "an event trigger has no times: it fires when its event is emitted")
    return _preview(await call.verbs.apreview_schedule(UUID(trigger.id), _count(call.query.count)), trigger.tz)


def _preview(local: list[datetime], tz: str) -> Preview:
    return Preview([each.astimezone(UTC) for each in local], tz, local)


def _id(item: Any) -> str:
    return str(item.id)


def _count(asked: int) -> int:
    if not 1 <= asked <= _MOST_TIMES:
        raise Refused(422, f"count={asked} must be from 1 to {_MOST_TIMES}")
    return asked


async def _visible(call: Call[Any, Any]) -> Trigger:
    """The trigger of the path, if the key may see it."""
    ref = call.params["id"]
    await call.verbs.alearn(None)
    trigger = await call.verbs.aget_trigger(UUID(ref)) if is_id(ref) else None
    if trigger is None or not _is_visible(call, trigger, await _template_queues(call, [trigger])):
        raise NotFound(f"there is no trigger {ref}")
    return trigger


async def _template_queues(call: Call[Any, Any], triggers: list[Trigger]) -> dict[str, str | None]:
    """The queues that the templates of these triggers name, for a key of some queues."""
    ids = {each.template_id for each in triggers if each.template_id is not None} if call.key.queues else set()
    return {each: (await call.verbs.aget_template(UUID(each))).options.get("queue") for each in ids}


def _is_visible(call: Call[Any, Any], trigger: Trigger, queues: Mapping[str, str | None]) -> bool:
    kind = trigger.kind or trigger.template_kind
    if trigger.signal is not None:
        return not is_narrowed(call)
    named = queues.get(trigger.template_id or "")
    return may_see_kind(call, kind or "", stored_options({} if named is None else {"queue": named}, trigger.options))


async def _change(call: Call[Any, Any], trigger: Trigger, changes: dict[str, Any]) -> Trigger:
    guarded = {**changes, "actor": call.actor, "if_match": call.if_match}
    if trigger.type == "schedule":
        return await call.verbs.achange_schedule(UUID(trigger.id), **guarded)
    return await call.verbs.achange_trigger(UUID(trigger.id), **guarded)


def _tagged(trigger: Trigger, status: int = 200) -> Answer:
    return Answer(status, trigger_view(trigger), revision_tag(trigger))


async def _check_bounds(call: Call[Any, Any], options: dict[str, Any]) -> None:
    """A trigger may set only what its creator may set on an enqueue; raises `Refused`. Each fire is checked again."""
    await call.verbs.alearn(None)
    kind, asked = options.get("kind"), options.get("options") or {}
    if options.get("template") is not None:
        template = await call.verbs.aget_template(options["template"])
        kind, asked = template.kind, stored_options(template.options, asked)
    if kind is None:
        if is_narrowed(call):  # a signal goes to any machine
            raise Refused(403, "a key for some queues or kinds makes no trigger that signals", code="NotAllowed")
        return
    call.check_touch(queue=queue_of(call, kind, asked), kind=kind)
    definition = call.verbs.known_definition(kind)
    if definition is None or not definition.active:
        raise Refused(422, f"kind {kind!r} has no {'active ' if definition else ''}definition", code="UnknownKind")
    try:
        call.verbs._definitions.check_bounds(kind, asked)
    except NotAllowed as error:
        raise Refused(403, str(error), code="NotAllowed") from None


async def _check_own(call: Call[Any, Any], trigger: Trigger) -> str:
    """The kind of its jobs. Raises `Refused` for a trigger with options that the caller may not set: they may not make
    its jobs or fill them."""
    template = None if trigger.template_id is None else await call.verbs.aget_template(UUID(trigger.template_id))
    kind = (trigger.kind if template is None else template.kind) or ""
    call.check_options(kind, stored_options({} if template is None else template.options, trigger.options))
    return kind


def _name_of(label: str) -> str:
    """A name made from a label: letters, digits and hyphens."""
    return _NOT_IN_NAMES.sub("-", label).strip("-.").lower()[:100] or "trigger"
