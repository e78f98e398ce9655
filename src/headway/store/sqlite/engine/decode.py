"""Turns rows into the values of the model."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.clock import from_micros
from headway.errors import InvalidPayload
from headway.model import codec
from headway.model.audit import read_entry
from headway.model.connector import Connector
from headway.model.definition import Definition
from headway.model.event import Event
from headway.model.fleet import Worker
from headway.model.job import Attempt, AuditEntry, Brief, Job, Watched
from headway.model.machine import Child
from headway.model.outcome import Match
from headway.model.signal import Signal
from headway.model.spill import stored_result
from headway.model.status import whole_scope
from headway.model.template import Template
from headway.model.trigger import Fire, Trigger
from headway.store.ops import Row

_decode = msgspec.json.Decoder().decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode

_JOB = Job.__struct_fields__
_WATCHED = Watched.__struct_fields__
_ATTEMPT = Attempt.__struct_fields__[:-1]  # its artifacts are rows of their own
_WORKER = Worker.__struct_fields__
_SIGNAL = Signal.__struct_fields__
_DEFINITION = Definition.__struct_fields__
_TEMPLATE = Template.__struct_fields__
_CONNECTOR = Connector.__struct_fields__
_TRIGGER = Trigger.__struct_fields__
_FIRE = Fire.__struct_fields__
_EVENT = Event.__struct_fields__


def to_job(row: Row, raw: bool = False) -> Job:
    values = _values(_JOB, row, json=("payload", "result", "meta", "state"), raw=raw)
    scope = show_json(values["unique_scope"])
    values["unique_scope"] = whole_scope(scope if isinstance(scope, list) else ())
    values["pending"] = bool(values["pending"])
    values["awaiting"] = to_names(values["awaiting"])
    values["match"] = to_match(values["match"])
    values["tags"] = to_names(values["tags"])
    return Job(**values)


def to_brief(row: Row) -> Brief:
    job_id, tenant_id, kind, queue, status, queued_at, scheduled_for = row
    return Brief(
        *(job_id, tenant_id, kind, queue, status),
        None if queued_at is None else from_micros(queued_at),
        None if scheduled_for is None else from_micros(scheduled_for),
    )


def to_watched(row: Row) -> Watched:
    return Watched(**_values(_WATCHED, row, json=()))


def to_attempt(row: Row, raw: bool = False) -> Attempt:
    return Attempt(**_values(_ATTEMPT, row, json=("state",), raw=raw))


def to_signal(row: Row, raw: bool = False) -> Signal:
    return Signal(**_values(_SIGNAL, row, json=("payload",), raw=raw))


def to_child(row: Row, raw: bool = False) -> Child:
    job_id, kind, status, result, error, spilled = row
    return Child(id=job_id, kind=kind, status=status, result=stored_result(result, spilled, raw=raw), error=error)


def to_worker(row: Row) -> Worker:
    values = _values(_WORKER, row, json=("queues", "kinds", "metadata", "wanted"))
    values["kinds"] = tuple(values["kinds"])
    return Worker(**values)


def to_definition(row: Row) -> Definition:
    values = _values(_DEFINITION, row, json=("schema", "enqueuer_may", "policy", "changed", "tenants", "tenant_ids"))
    values["computed"] = bool(values["computed"])
    values["active"] = bool(values["active"])
    values["changed"] = tuple(values["changed"])
    values["tenants"] = None if values["tenants"] is None else tuple(values["tenants"])
    values["tenant_ids"] = None if values["tenants"] is None else tuple(values["tenant_ids"])
    return Definition(**values)


def to_template(row: Row) -> Template:
    """A template; a JSON object that cannot be read is given as its text."""
    values = _values(_TEMPLATE, row, json=())
    for name in ("payload", "options"):
        values[name], _ = read_json(values[name])
    return Template(**values)


def to_connector(row: Row) -> Connector:
    """A connector's configuration; JSON that cannot be read is given as its text."""
    values = _values(_CONNECTOR, row, json=())
    for name in ("headers", "options", "events"):
        values[name], _ = read_json(values[name])
    values["enabled"] = bool(values["enabled"])
    return Connector(**values)


def to_trigger(row: Row) -> Trigger:
    """A trigger; a JSON object that cannot be read is given as its text."""
    values = _values(_TRIGGER, row, json=())
    for name in ("payload", "options", "when"):
        values[name], _ = read_json(values[name])
    values["enabled"] = bool(values["enabled"])
    return Trigger(**values)


def to_fire(row: Row) -> Fire:
    return Fire(**_values(_FIRE, row, json=()))


def to_event(row: Row, raw: bool = False) -> tuple[Event, str | None]:
    """An event, and why its payload cannot be read, if so; the payload is its text then."""
    values = _values(_EVENT, row, json=("payload",) if raw else (), raw=raw)
    if raw:
        return Event(**values), None
    values["payload"], fault = read_json(values["payload"])
    return Event(**values), fault


def to_audit(row: Row) -> AuditEntry:
    return read_entry(row, from_micros)


def to_names(awaiting: str | None) -> tuple[str, ...]:
    """The stored names; none if the text is not a list of names, so that a damaged row fails no claim."""
    try:
        return () if awaiting is None else _decode_names(awaiting)
    except codec.FAULTS:
        return ()


def to_match(match_all: int | None) -> Match:
    return "all" if match_all else "any"


def show_json(text: str | None, what: str = "value") -> Any:
    """The decoded value, or a note that says why it cannot be read."""
    try:
        return None if text is None else _decode(text)
    except codec.FAULTS:
        return codec.shown(text, what=what)


def read_json(stored: str | bytes, what: str = "payload") -> tuple[Any, str | None]:
    """The decoded value; or, if the text cannot be decoded, the text itself and why.

    Anybody's SQL may have stored it: numbers beyond a double, half a surrogate pair, thousands of levels.
    """
    try:
        return codec.read(stored, what=what), None
    except InvalidPayload as error:
        text = stored if isinstance(stored, str) else stored.decode("utf-8", "replace")
        return text, str(error)


def _values(names: tuple[str, ...], row: Row, *, json: tuple[str, ...], raw: bool = False) -> dict[str, Any]:
    values = dict(zip(names, row, strict=True))
    for name, value in values.items():
        if value is not None and (name.endswith("_at") or name == "scheduled_for"):
            values[name] = from_micros(value)
    for name in json:
        values[name] = codec.as_stored(values[name], what=name) if raw else show_json(values[name], name)
    return values
