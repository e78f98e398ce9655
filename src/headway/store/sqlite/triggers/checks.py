"""What triggers and templates must be to be stored: the checks of their tables, with words that say what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headway.clock import to_micros
from headway.errors import InvalidJob
from headway.store.sqlite.engine.decode import read_json

_JSON = ("payload", "options", "when")
_TIMES = ("start_at", "end_at", "next_fire_at")
_LAST_AT = 221_845_392_000_000_000  # 9000-01-01
_LONGEST_MS = 3_162_240_000_000
_DURATIONS = {"every_ms": 1000, "catch_up_window_ms": 0, "jitter_ms": 0, "dedupe_window_ms": 0}
_WORDS = {"type": ("schedule", "event"), "catch_up": ("none", "latest", "all"), "overlap": ("allow", "skip")}


def check_objects(what: str, values: Mapping[str, Any]) -> None:
    """Raises `InvalidJob` where one of these values should be the text of a JSON object and is not."""
    for name in _JSON:
        if name not in values:
            continue
        value, fault = read_json(values[name], name)
        if fault is None and not isinstance(value, dict):
            fault = f"the {name} must be a JSON object"
        if fault is not None:
            raise InvalidJob(f"{what}: {fault}; nothing was stored")


def check_trigger(type_: str, values: Mapping[str, Any]) -> None:
    """Raises `InvalidJob` where a trigger's values, as they are to be stored, are not those of a trigger."""
    what = f'trigger "{values["name"]}"'
    for name, allowed in _WORDS.items():
        if (type_ if name == "type" else values[name]) not in allowed:
            raise InvalidJob(f"{name} of {what} must be one of {', '.join(allowed)}: nothing was stored")
    if (values["kind"] is None) == (values["template_id"] is None):
        raise InvalidJob(f"{what} needs exactly one of kind and template: nothing was stored")
    if type_ == "schedule" and (values["cron"] is None) == (values["every_ms"] is None):
        raise InvalidJob(f"{what} needs exactly one of cron and every: nothing was stored")
    if type_ == "event" and values["event"] is None:
        raise InvalidJob(f"{what} needs the name of an event: nothing was stored")
    for name, least in _DURATIONS.items():
        if values[name] is not None and not least <= values[name] <= _LONGEST_MS:
            raise InvalidJob(f"{name} of {what} must be {least} to {_LONGEST_MS}: nothing was stored")
    for name in _TIMES:
        _check_time(f"{name} of {what}", values[name])


def due_again(name: str, moment: datetime | None) -> int | None:
    """When a schedule is due next, as it is stored; raises `InvalidJob` for a time that is out of range."""
    at = None if moment is None else to_micros(moment)
    _check_time(f'next_fire_at of trigger "{name}"', at)
    return at


def _check_time(what: str, at: int | None) -> None:
    if at is not None and not 0 <= at <= _LAST_AT:
        raise InvalidJob(f"{what} must be from 1970-01-01 to 9000-01-01: nothing was stored")
