"""Checks what people write of schedules and event triggers, and makes rows of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from headway import secrets
from headway.define import checks
from headway.define.options import check_stored_options
from headway.errors import InvalidJob, RenderError
from headway.model.codec import check_text, encode
from headway.model.cron import Cron, zone
from headway.model.duration import Duration, to_ms
from headway.model.event import check_pattern
from headway.model.ids import new_id
from headway.model.render import placeholders
from headway.model.schedule import next_time
from headway.model.trigger import CatchUp, NewTrigger, Overlap, Trigger, TriggerChange

_SHORTEST_MS = 1_000
_DESCRIPTION = 500
_LABEL = 200
_SCHEDULE = ("cron", "every", "tz", "catch_up", "catch_up_window", "overlap", "jitter", "start", "end")
_EVENT = ("event", "when", "dedupe_window", "dedupe_key", "signal", "to")
_BOTH = ("name", "kind", "template_id", "payload", "options", "description", "label", "enabled")
_TIMING = frozenset({"cron", "every_ms", "tz", "start_at", "end_at", "enabled"})
_ENSURED = (
    *(
        "kind",
        "template_id",
        "description",
        "label",
        "cron",
        "every_ms",
        "tz",
        "catch_up",
        "catch_up_window_ms",
        "overlap",
    ),
    *("jitter_ms", "start_at", "end_at"),
)
ROOTS = {
    "schedule": ("schedule", "trigger", "meta"),
    "event": ("event", "trigger", "meta"),
}
"""What the paths of a payload template begin with."""
_KNOWN = {
    "schedule": ("id", "name", "nominal_at", "local_at", "date", "tz", "fired_at", "last_fired_at"),
    "trigger": ("id", "name"),
    "meta": ("tenant", "tenant_id", "event_id", "event_name", "emitted_at", "correlation_id"),
}
"""The names under each root."""
_FIRST_YEAR, _LAST_YEAR = 1970, 9000


def new_schedule(
    given: Mapping[str, Any], *, tenant: str, tenant_id: str, now: datetime, limit: int, created_by: str | None = None
) -> NewTrigger:
    """A schedule of these options (None: not given); raises `InvalidJob`, `InvalidPayload`."""
    row = NewTrigger(
        id=new_id(),
        tenant=tenant,
        tenant_id=tenant_id,
        type="schedule",
        created_by=created_by,
        **{"name": "", **_checked(given, "schedule", limit)},
    )
    _check_whole(row)
    return msgspec.structs.replace(row, next_fire_at=_first_time(row, now))


def new_trigger(
    given: Mapping[str, Any], *, tenant: str, tenant_id: str, limit: int, created_by: str | None = None
) -> NewTrigger:
    """An event trigger of these options; raises `InvalidJob`, `InvalidPayload`."""
    row = NewTrigger(
        id=new_id(),
        tenant=tenant,
        tenant_id=tenant_id,
        type="event",
        created_by=created_by,
        **{"name": "", **_checked(given, "event", limit)},
    )
    _check_whole(row)
    return row


def unsaved(row: NewTrigger, now: datetime) -> Trigger:
    """The trigger as it would be read if it were stored now."""
    fields: dict[str, Any] = {each: getattr(row, each) for each in row.__struct_fields__ if each != "run_on_start"}
    fields |= {each: msgspec.json.decode(fields[each]) for each in ("payload", "options", "when")}
    fields |= dict.fromkeys(("template_kind", "declared_at", "last_fired_at", "last_job_id", "error"))
    return Trigger(**fields, origin="stored", created_at=now, updated_at=now, revision=1)


def changed_trigger(trigger: Trigger, given: Mapping[str, Any], *, now: datetime, limit: int) -> TriggerChange:
    """The change of this trigger; None takes a value back where that is possible."""
    changes = _checked(given, trigger.type, limit, changing=True)
    if not changes:
        raise InvalidJob("nothing to change was given")
    if changes.get("kind") is not None:
        changes.setdefault("template_id", None)
    if changes.get("template_id") is not None:
        changes.setdefault("kind", None)
    if changes.get("signal") is not None:
        changes = {"kind": None, "template_id": None} | changes
    elif trigger.signal is not None and (changes.get("kind") or changes.get("template_id")) is not None:
        changes = {"signal": None, "signal_to": None} | changes
    if changes.get("cron") is not None:
        changes.setdefault("every_ms", None)
    if changes.get("every_ms") is not None:
        changes.setdefault("cron", None)
    if trigger.type == "schedule":
        whole = msgspec.structs.replace(trigger, **{name: to for name, to in changes.items() if name in _TIMING})
        _check_timing(whole)
        # unless its times change, what is due stays due
        if any(getattr(whole, name) != getattr(trigger, name) for name in _TIMING):
            changes["next_fire_at"] = _first_time(whole, now) if whole.enabled else None
    elif changes.get("signal", trigger.signal) is not None:
        _check_signal(_as_new(trigger, changes))
    return TriggerChange(**changes, of_revision=trigger.revision)


def _as_new(trigger: Trigger, changes: Mapping[str, Any]) -> NewTrigger:
    """The parts of the changed trigger that `_check_signal` reads."""
    texts = {name: msgspec.json.encode(getattr(trigger, name)).decode() for name in ("payload", "options")}
    kept = {name: getattr(trigger, name) for name in ("name", "kind", "template_id", "signal", "signal_to")}
    fields = {**kept, **texts, **{name: to for name, to in changes.items() if name in (*kept, *texts)}}
    return NewTrigger(id=trigger.id, tenant_id=trigger.tenant_id, type="event", **fields)


def ensured_schedule(stored: Trigger, wanted: NewTrigger, *, enabled: bool | None) -> TriggerChange | None:
    """The change that makes the stored schedule like the wanted one; None if it is. `enabled` None stays as it is."""
    changes = {name: getattr(wanted, name) for name in _ENSURED if getattr(wanted, name) != getattr(stored, name)}
    for name in ("payload", "options"):
        if msgspec.json.decode(getattr(wanted, name)) != getattr(stored, name):
            changes[name] = getattr(wanted, name)
    if enabled not in (None, stored.enabled):
        changes["enabled"] = enabled
    if not changes:
        return None
    if not _TIMING.isdisjoint(changes):
        changes["next_fire_at"] = wanted.next_fire_at if changes.get("enabled", stored.enabled) else None
    return TriggerChange(**changes, of_revision=stored.revision)


def _checked(
    given: Mapping[str, Any], type_: Literal["schedule", "event"], limit: int, *, changing: bool = False
) -> dict[str, Any]:
    known = (*_BOTH, *(_SCHEDULE if type_ == "schedule" else _EVENT))
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            word = "a schedule" if type_ == "schedule" else "an event trigger"
            shown = ["new_name" if changing and each == "name" else each for each in known]
            raise InvalidJob(checks.unknown_option(name, shown, word))
        if value is None and not changing:
            continue
        changes |= _CHECKS[name](value, name, type_, limit)
    if changes.get("signal") is not None and "dedupe_window_ms" in changes:
        raise InvalidJob("dedupe_window= is for jobs: a machine gets one signal for each dedupe_key, for good")
    return changes


def _check_whole(row: NewTrigger) -> None:
    if not row.name:
        raise InvalidJob("it needs a name: name='nightly'")
    if row.type == "event" and (row.signal, row.signal_to) != (None, None):
        _check_signal(row)
    elif (row.kind is None) == (row.template_id is None):
        raise InvalidJob(f"{row.name}: give what it enqueues, either kind= or template=")
    if row.type == "event":
        if row.event is None:
            raise InvalidJob(f"{row.name}: give the event that it waits for, event='provider.folder.updated'")
        return
    _check_timing(row)


def _check_signal(row: NewTrigger) -> None:
    if row.signal is None or row.signal_to is None:
        raise InvalidJob(f"{row.name}: signal= and to= go together: what it sends, and to which machine")
    if (row.kind, row.template_id) != (None, None):
        raise InvalidJob(f"{row.name}: it sends a signal or enqueues a job: leave out signal=, or kind= and template=")
    if row.options != "{}":
        raise InvalidJob(f"{row.name}: options= are for jobs, and it sends a signal: leave them out")
    secrets.check_none(row.payload, "signal")


def _check_timing(row: NewTrigger | Trigger) -> None:
    if (row.cron is None) == (row.every_ms is None):
        raise InvalidJob(f"{row.name}: give when it is due, either a cron expression or every=")
    if row.start_at is not None and row.end_at is not None and row.end_at < row.start_at:
        raise InvalidJob(f"{row.name}: end={row.end_at.isoformat()} is before start={row.start_at.isoformat()}")


def _first_time(row: NewTrigger | Trigger, now: datetime) -> datetime | None:
    time = next_time(row, now)
    if time is None and (row.end_at is None or row.end_at > now):
        raise InvalidJob(f"{row.name}: cron={row.cron!r} is never due: no such day comes within fifty years")
    return time if row.enabled else None


def _moment(value: Any, name: str) -> datetime | None:
    if value is None:
        return None
    checks.moment(value, name)
    if not _FIRST_YEAR < value.year < _LAST_YEAR:
        raise InvalidJob(f"{name}={value.isoformat()} is out of range: give a time after {_FIRST_YEAR}")
    moment: datetime = value.astimezone(UTC)
    return moment


def _cron(value: Any) -> str | None:
    return None if value is None else Cron(value).text


def _every(value: Duration | None) -> int | None:
    if value is None:
        return None
    ms = to_ms(value, "every")
    if ms < _SHORTEST_MS:
        raise InvalidJob(f"every={value!r} is too often: a second is the shortest interval")
    return ms


def _one_of(value: Any, name: str, values: Any) -> str:
    if value not in get_args(values):
        raise InvalidJob(f"{name}={value!r} is not known: use {', '.join(get_args(values))}")
    return str(value)


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidJob(f"{name}={value!r} must be True or False")
    return value


def _described(value: Any) -> str:
    return check_text(value or "", "description", limit=_DESCRIPTION) if value else ""


def _labeled(value: Any) -> str | None:
    return check_text(value, "label", limit=_LABEL) if value else None


def _object(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidJob(f"{name} is {type(value).__name__}, not a mapping")
    return dict(value)


def _template(value: Any, name: str, type_: str, limit: int) -> str:
    """A payload with placeholders, as JSON text; raises `InvalidJob` for paths that can never have a value."""
    _check_places(value, type_)
    return encode(_object(value, name), limit=limit, what=name)


def _check_places(value: Any, type_: str) -> None:
    roots = ROOTS[type_]
    try:
        for path in placeholders(value):
            root, _, name = path.partition(".")
            if root in _KNOWN and root in roots and name.partition(".")[0] not in _KNOWN[root]:
                raise InvalidJob(f"{{{{{path}}}}} is not known: {root} has {', '.join(_KNOWN[root])}")
            if root not in roots:
                raise InvalidJob(f"{{{{{path}}}}} begins with none of {', '.join(roots)}: write {{{{{roots[0]}.…}}}}")
    except RenderError as error:
        raise InvalidJob(str(error)) from None


def _options(value: Any, name: str, type_: str, limit: int) -> str:
    options = _object(value, name)
    _check_places(options, type_)
    check_stored_options(options)
    return encode(options, limit=limit, what=name)


def _when(value: Any, limit: int) -> str:
    conditions = _object(value, "when")
    for path in conditions:
        _check_places(f"{{{{{path}}}}}", "event")
    return encode(conditions, limit=limit, what="when")


def event_name(value: Any, name: str = "event") -> str:
    """The name of an event: dotted words, like provider.folder.updated."""
    return checks.name(value, name)


def _awaited(value: Any) -> str:
    """An event's name, or a pattern of names."""
    return value if isinstance(value, str) and "*" in check_pattern(value) else check_pattern(event_name(value))


def _dedupe_key(value: Any) -> str | None:
    if value is None:
        return None
    _check_places(value, "event")
    return check_text(value, "dedupe_key")


def receiver(to: str) -> tuple[str | None, str]:
    """The kind and the key of "checkout:{{event.order}}", or None and the text for a job's id."""
    kind, colon, key = to.partition(":")
    return (kind, key) if colon else (None, to)


def _signal_to(value: Any) -> str | None:
    if value is None:
        return None
    text = check_text(value, "to")
    _check_places(text, "event")
    kind, key = receiver(text)
    if kind is not None and ("{{" in kind or not key):
        raise InvalidJob(
            f"to={text!r} names no machine: give its kind and its unique key, 'checkout:{{{{event.order}}}}', or a "
            "job's id, '{{event.job_id}}'"
        )
    if kind is not None:
        checks.name(kind, "kind")
    return text


_CHECKS: dict[str, Any] = {
    "name": lambda value, name, _type, _limit: {"name": checks.name(value, name)},
    "kind": lambda value, name, _type, _limit: {"kind": None if value is None else checks.name(value, name)},
    "template_id": lambda value, _name, _type, _limit: {"template_id": value},
    "payload": lambda value, name, type_, limit: {"payload": _template(value, name, type_, limit)},
    "options": lambda value, name, type_, limit: {"options": _options(value, name, type_, limit)},
    "description": lambda value, _name, _type, _limit: {"description": _described(value)},
    "label": lambda value, _name, _type, _limit: {"label": _labeled(value)},
    "enabled": lambda value, name, _type, _limit: {"enabled": _flag(value, name)},
    "cron": lambda value, _name, _type, _limit: {"cron": _cron(value)},
    "every": lambda value, _name, _type, _limit: {"every_ms": _every(value)},
    "tz": lambda value, _name, _type, _limit: {"tz": zone(value).key},
    "catch_up": lambda value, name, _type, _limit: {"catch_up": _one_of(value, name, CatchUp)},
    "catch_up_window": lambda value, name, _type, _limit: {"catch_up_window_ms": to_ms(value, name)},
    "overlap": lambda value, name, _type, _limit: {"overlap": _one_of(value, name, Overlap)},
    "jitter": lambda value, name, _type, _limit: {"jitter_ms": to_ms(value or 0, name)},
    "start": lambda value, name, _type, _limit: {"start_at": _moment(value, name)},
    "end": lambda value, name, _type, _limit: {"end_at": _moment(value, name)},
    "event": lambda value, _name, _type, _limit: {"event": _awaited(value)},
    "when": lambda value, _name, _type, limit: {"when": _when(value, limit)},
    "dedupe_window": lambda value, name, _type, _limit: {"dedupe_window_ms": to_ms(value or 0, name)},
    "signal": lambda value, name, _type, _limit: {name: None if value is None else checks.name(value, name)},
    "to": lambda value, _name, _type, _limit: {"signal_to": _signal_to(value)},
    "dedupe_key": lambda value, _name, _type, _limit: {"dedupe_key": _dedupe_key(value)},
}
