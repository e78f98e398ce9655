"""Builds the job or the signal of a fire: renders the payload and options of its trigger, and validates them."""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.clock import to_micros
from headway.define.definitions import Definitions
from headway.define.options import stored_options
from headway.define.signals import signal_to, signal_to_key
from headway.define.triggers import receiver
from headway.errors import RenderError
from headway.model.actor import is_caller
from headway.model.codec import KEY_LIMIT
from headway.model.connector import WEBHOOK
from headway.model.cron import zone
from headway.model.event import Event
from headway.model.job import NewJob, Source
from headway.model.render import look_up, placeholders, render
from headway.model.schedule import jittered
from headway.model.signal import NewSignal
from headway.model.template import Template
from headway.model.trace import trace_id
from headway.model.trigger import ResolvedTrigger, Trigger


def schedule_job(
    resolved: ResolvedTrigger, nominal_at: datetime, definitions: Definitions, *, now: datetime, limit: int
) -> NewJob:
    """The job of a schedule's nominal time; raises `RenderError`, `InvalidJob`, `InvalidPayload`."""
    trigger = resolved.trigger
    names = schedule_names(trigger, nominal_at, now)
    job = _job(resolved, names, definitions, now=now, limit=limit, source="schedule", source_ref=_shown(nominal_at))
    if trigger.jitter_ms:
        job = msgspec.structs.replace(
            job, scheduled_for=jittered(trigger.id, nominal_at, trigger.jitter_ms), delay_ms=None
        )
    return job


def event_job(
    resolved: ResolvedTrigger, event: Event, definitions: Definitions, *, now: datetime, limit: int
) -> tuple[NewJob, str]:
    """The job of an event by this trigger, and the digest that dedupes it; raises as `schedule_job`."""
    trigger = resolved.trigger
    names = event_names(trigger, event)
    job = _job(resolved, names, definitions, now=now, limit=limit, source="event", source_ref=event.id)
    job = msgspec.structs.replace(
        job,
        correlation_id=job.correlation_id or event.correlation_id or event.id,
        trace_id=job.trace_id or event.trace_id or trace_id(None, event.job_id or event.id),
    )
    if trigger.dedupe_key is not None:
        key = str(render(trigger.dedupe_key, names, limit=limit))
    elif placeholders(trigger.payload):
        key = job.payload
    else:
        key = msgspec.json.encode(event.payload).decode()  # its jobs are all the same, but its events are not
    return job, hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def event_signal(trigger: Trigger, event: Event, *, limit: int) -> NewSignal:
    """The signal of an event by this trigger, with an id of its own for each event; raises as `schedule_job`."""
    assert trigger.signal is not None
    assert trigger.signal_to is not None
    names = event_names(trigger, event)
    payload = render(trigger.payload, names, limit=limit) if trigger.payload else event.payload
    dedup_key = None if trigger.dedupe_key is None else _key_text(trigger.dedupe_key, names)
    kind, to = receiver(trigger.signal_to)
    if kind is None:
        signal = signal_to(_key_text(to, names), trigger.signal, payload, dedup_key=dedup_key, limit=limit)
    else:
        signal = signal_to_key(kind, _key_text(to, names), trigger.signal, payload, dedup_key=dedup_key, limit=limit)
    return msgspec.structs.replace(
        signal,
        id=str(uuid.uuid5(uuid.UUID(trigger.id), event.id)),
        tenant=trigger.tenant or trigger.tenant_id,
        tenant_id=trigger.tenant_id,
        trace_id=event.trace_id,
    )


def _key_text(template: str, names: dict[str, Any]) -> str:
    """A key or id, rendered; it is text, even if the event has a number there."""
    return str(render(template, names, limit=64 * KEY_LIMIT))


def matches(trigger: Trigger, event: Event) -> bool:
    """Whether the event matches the trigger's `when`: each path has its value, or one of its list. The end of a webhook
    delivery never triggers another delivery."""
    if WEBHOOK in (trigger.kind, trigger.template_kind) and _is_end_of(event, WEBHOOK):
        return False
    names = event_names(trigger, event)
    for path, wanted in trigger.when.items():
        found, value = look_up(names, path)
        if not found or not any(_same(value, each) for each in (wanted if isinstance(wanted, list) else [wanted])):
            return False
    return True


def _is_end_of(event: Event, kind: str) -> bool:
    return event.job_id is not None and isinstance(event.payload, dict) and event.payload.get("kind") == kind


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def template_job(
    template: Template,
    payload: dict[str, Any],
    options: dict[str, Any],
    definitions: Definitions,
    *,
    now: datetime,
    limit: int,
    spill_limit: int | None = None,
) -> NewJob:
    """The job of a template, with these overriding its payload and options; without a `spill_limit`, its payload may
    not spill."""
    job = definitions.build(
        template.kind,
        {**template.payload, **payload},
        stored_options(template.options, options),
        now=to_micros(now),
        limit=limit,
        spill_limit=spill_limit,
    )
    return msgspec.structs.replace(job, template_id=template.id, template_revision=template.revision)


def schedule_names(trigger: Trigger, nominal_at: datetime, now: datetime) -> dict[str, Any]:
    """What a schedule's payload may look up."""
    local = nominal_at.astimezone(zone(trigger.tz))
    return {
        "schedule": {
            "id": trigger.id,
            "name": trigger.name,
            "nominal_at": _shown(nominal_at),
            "local_at": local.isoformat(),
            "date": local.date().isoformat(),
            "tz": trigger.tz,
            "fired_at": _shown(now),
            "last_fired_at": None if trigger.last_fired_at is None else _shown(trigger.last_fired_at),
        },
        **_common(trigger),
    }


def event_names(trigger: Trigger, event: Event) -> dict[str, Any]:
    """What an event trigger's payload may look up."""
    common = _common(trigger)
    common["meta"] |= {
        "event_id": event.id,
        "event_name": event.name,
        "emitted_at": _shown(event.emitted_at),
        "correlation_id": event.correlation_id,
    }
    return {"event": event.payload, **common}


def _common(trigger: Trigger) -> dict[str, Any]:
    return {
        "trigger": {"id": trigger.id, "name": trigger.name},
        "meta": {"tenant": trigger.tenant, "tenant_id": trigger.tenant_id},
    }


def _job(
    resolved: ResolvedTrigger,
    names: dict[str, Any],
    definitions: Definitions,
    *,
    now: datetime,
    limit: int,
    source: Source,
    source_ref: str,
) -> NewJob:
    trigger, template = resolved.trigger, resolved.template
    payload = render(trigger.payload, names, limit=limit)
    options = _rendered(trigger.options, names)
    if is_caller(trigger.created_by):
        kind = trigger.kind if template is None else template.kind
        definitions.check_bounds(kind or "", stored_options({} if template is None else template.options, options))
    if template is not None:
        job = template_job(template, payload, options, definitions, now=now, limit=limit)
    elif trigger.kind is not None:
        job = definitions.build(trigger.kind, payload, options, now=to_micros(now), limit=limit)
    else:
        raise RenderError(f"the template of {trigger.name} no longer exists: give it another one, or a kind")
    return msgspec.structs.replace(
        job,
        tenant=trigger.tenant or trigger.tenant_id,
        tenant_id=trigger.tenant_id,
        source=source,
        source_ref=source_ref,
        trigger_id=trigger.id,
    )


def _rendered(options: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """The options, rendered; a key or tag is text, even if the event has a number there."""
    filled = {}
    for name, value in options.items():
        new = render(value, names, limit=64 * KEY_LIMIT)
        if name == "tags" and isinstance(new, list):
            new = [_text(each) for each in new]
        filled[name] = _text(new) if name.endswith("_key") or name == "tags" else new
    return filled


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) else value


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
