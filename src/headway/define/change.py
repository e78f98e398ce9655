"""The change of a job that has not run: checks what `app.change` was given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from headway.define import checks
from headway.errors import InvalidJob
from headway.model.codec import encode
from headway.model.job import Change

NAMES = (
    "priority",
    "queue",
    "max_attempts",
    "max_losses",
    "timeout",
    "scheduled_for",
    "delay",
    "expires_at",
    "payload",
    "meta",
    "tags",
)


OF_RETRY = ("scheduled_for", "delay", "max_attempts", "payload")


def retry_change_of(given: Mapping[str, Any], *, now: datetime, limit: int) -> Change | None:
    """What a retry sets before the job runs again, checked; None if nothing. Raises `InvalidJob`."""
    for option in given:
        if option not in OF_RETRY:
            raise InvalidJob(checks.unknown_option(option, list(OF_RETRY), "retry()"))
    return change_of(given, now=now, limit=limit) if given else None


def change_of(given: Mapping[str, Any], *, now: datetime, limit: int) -> Change:
    """The checked change; raises `InvalidJob` for an unknown name or a value that cannot be."""
    if not given:
        raise InvalidJob(f"there is nothing to change: give some of {', '.join(NAMES)}")
    fields: dict[str, Any] = {}
    for option, value in given.items():
        match option:
            case "priority":
                fields[option] = checks.integer(value, option, -32_768, 32_767)
            case "max_attempts" | "max_losses":
                fields[option] = checks.integer(value, option, 1, 32_767)
            case "queue":
                fields[option] = checks.name(value, option)
            case "timeout":
                fields |= checks.timeout(value, option)
            case "scheduled_for" | "expires_at":
                fields |= checks.moment(value, option)
            case "delay":
                ms = checks.delay(value, option)["delay_ms"]
                fields |= {"scheduled_for": None} if ms is None else {"delay_ms": ms}
            case "payload":
                if not isinstance(value, Mapping | msgspec.Raw):
                    raise InvalidJob(f"payload={value!r} is not a mapping of the kind's parameters")
                fields[option] = encode(
                    value, limit=limit, advice="; only an enqueue lets a payload spill to an artifact"
                )
            case "meta":
                fields |= checks.meta(value, option)
            case "tags":
                fields |= checks.tags(value, option)
            case _:
                raise InvalidJob(checks.unknown_option(option, list(NAMES), "change()"))
    if "delay" in given and "scheduled_for" in given:
        raise InvalidJob("delay and scheduled_for exclude each other: give one")
    expires_at = fields.get("expires_at")
    if expires_at is not None and expires_at <= now:
        raise InvalidJob(f"expires_at={expires_at.isoformat()} is in the past: cancel the job instead")
    return msgspec.structs.replace(Change(), **fields)
