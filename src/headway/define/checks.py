"""Checks the value of each option: gives the `Options` fields that it sets, or raises `InvalidJob` with the fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, get_args
from uuid import UUID

from headway.clock import from_micros
from headway.define import keys
from headway.errors import InvalidJob, InvalidPayload, NotFound
from headway.model import tags as model_tags
from headway.model.codec import check_text, encode
from headway.model.duration import to_ms
from headway.model.ids import DEFAULT_TENANT_ID, as_id, is_id, known_id, tenant_ref
from headway.model.job import Enqueued, Job, NewJob
from headway.model.rate import COUNT_LIMIT, parse_rate

Check = Callable[[Any, str], dict[str, Any]]

META_LIMIT = 65_536
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/-]{0,127}\Z")
_CAP_MS = 3_600_000
_MOST_TENANTS = 1_000
_BATCH_WAIT_LIMIT_MS = 60_000
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def name(value: object, what: str) -> str:
    """The name of a queue or a kind."""
    if not isinstance(value, str) or not _NAME.match(value):
        raise InvalidJob(
            f"{what}={value!r} is not a valid name: use 1 to 128 letters, digits, "
            "'.', '_', '-', ':' and '/', starting with a letter, a digit or '_'"
        )
    return value


def tenants(value: object, what: str) -> tuple[str, ...] | None:
    """Those whose jobs may be of a kind, by name or id; None: every tenant's."""
    if value is None:
        return None
    if isinstance(value, str | UUID) or not isinstance(value, Collection) or isinstance(value, bytes | dict):
        raise InvalidJob(f"{what}={value!r} is not a list of tenants: give their names or ids, like ['acme']")
    if not value:
        raise InvalidJob(f"{what} is empty: name the tenants whose jobs may be of it, or leave it out for all of them")
    if len(value) > _MOST_TENANTS:
        raise InvalidJob(f"{what} has {len(value):,} tenants: a kind is for at most {_MOST_TENANTS:,}, or for all")
    ids = {str(UUID(each)) for each in value if isinstance(each, str) and is_id(each)}
    return tuple(sorted(ids | {tenant_ref(each) for each in value if not isinstance(each, str) or not is_id(each)}))


def aliases(value: object, own: str) -> tuple[str, ...]:
    """Other names of the kind `own`, under which there may still be jobs."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Collection) or isinstance(given, bytes | dict):
        raise InvalidJob(f"{own}: aliases={value!r} is not a collection of names: give one like ('send_mail',)")
    found = tuple(dict.fromkeys(name(each, "aliases") for each in given))
    if own in found:
        raise InvalidJob(f'{own}: "{own}" is its name, so it needs no such alias: give its earlier names')
    return found


_ELSEWHERE = {
    **dict.fromkeys(("countdown", "delay_s", "delay_seconds", "schedule_in", "defer_by", "start_after"), "delay"),
    **dict.fromkeys(("eta", "run_at", "run_after", "at", "schedule_at", "defer_until"), "scheduled_for"),
    **dict.fromkeys(("retries", "max_retries", "tries", "max_tries", "attempts", "retry_limit"), "max_attempts"),
    **dict.fromkeys(("retry_backoff", "retry_delay", "retry_wait"), "backoff"),
    **dict.fromkeys(("time_limit", "job_timeout", "soft_time_limit", "timeout_s", "timeout_seconds"), "timeout"),
    **dict.fromkeys(("expires", "ttl", "expires_in", "expire"), "expires_at"),
    **dict.fromkeys(("dedupe_key", "queueing_lock", "singleton_key", "lock", "unique", "job_key"), "unique_key"),
    **dict.fromkeys(("task_id", "job_id", "workflow_id"), "idempotency_key"),
    **dict.fromkeys(("rate_limit", "throttle"), "rate"),
    **dict.fromkeys(("queue_name", "routing_key"), "queue"),
    **dict.fromkeys(("depends_on", "depends"), "after"),
    "metadata": "meta",
    "labels": "tags",
}
"""What other queues call our options."""


def unknown_option(option: str, known: list[str], where: str, *, elsewhere: Collection[str] = ()) -> str:
    if option in elsewhere:
        return f"{option} cannot be set by {where}: it belongs to the kind, so give it to @app.job({option}=…)"
    close = [name for name in (_ELSEWHERE.get(option),) if name in known] or difflib.get_close_matches(option, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(sorted(known))}"
    return f"{where} has no option {option}: {hint}"


def integer(value: object, option: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidJob(f"{option}={value!r} is not a whole number: give one from {least} to {most}")
    if not least <= value <= most:
        raise InvalidJob(f"{option}={value!r} is out of range: give a whole number from {least} to {most}")
    return int(value)


def one_of(literal: Any) -> Check:
    choices = get_args(literal)

    def check(value: Any, option: str) -> dict[str, Any]:
        if value not in choices:
            raise InvalidJob(f"{option}={value!r} is unknown: use {' or '.join(map(repr, choices))}")
        return {option: value}

    return check


def switch(value: Any, option: str) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise InvalidJob(f"{option}={value!r} must be True or False")
    return {option: value}


def text(value: Any, option: str) -> dict[str, Any]:
    if isinstance(value, UUID):
        value = str(value)
    return {option: None if value is None else check_text(value, option)}


def tenant(value: Any, _option: str) -> dict[str, Any]:
    if value is None:
        return {"tenant": None, "tenant_id": DEFAULT_TENANT_ID}
    ref = tenant_ref(value)
    return {"tenant": ref, "tenant_id": known_id(ref)}


def backoff(value: Any, option: str) -> dict[str, Any]:
    """A function stays in this process; durations are stored in the job's row."""
    if callable(value):
        return {"backoff": value}
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise InvalidJob(f"{option}={value!r} is not a pair: give (base, cap), like ('1s', '1h')")
        base, cap = to_ms(value[0], f"{option} base"), to_ms(value[1], f"{option} cap")
        if base > cap:
            raise InvalidJob(f"{option}={value!r} starts above its cap: give (base, cap) with base <= cap")
    else:
        base = to_ms(value, option)
        cap = max(base, _CAP_MS)
    return {"backoff_base_ms": base, "backoff_cap_ms": cap}


def timeout(value: Any, option: str) -> dict[str, Any]:
    if value is None:
        return {"timeout_ms": None}
    ms = to_ms(value, option)
    if ms == 0:
        raise InvalidJob(f"{option}={value!r} would end every execution at once: give None for no timeout")
    return {"timeout_ms": ms}


def batch_wait(value: Any, option: str) -> dict[str, Any]:
    ms = to_ms(value, option)
    if ms > _BATCH_WAIT_LIMIT_MS:
        raise InvalidJob(
            f"{option}={value!r} is too long: calls that wait keep their slots, so give at most one minute"
        )
    return {"batch_wait_ms": ms}


def delay(value: Any, option: str) -> dict[str, Any]:
    return {"delay_ms": None if value is None else to_ms(value, option)}


def moment(value: Any, option: str) -> dict[str, Any]:
    if value is not None:
        if not isinstance(value, datetime):
            raise InvalidJob(f"{option}={value!r} is not a datetime: give one with a zone, like datetime.now(UTC)")
        if value.utcoffset() is None:
            raise InvalidJob(f"{option}={value!r} carries no zone: use datetime.now(UTC) or .replace(tzinfo=…)")
        if not _FIRST <= value <= _LAST:
            raise InvalidJob(f"{option}={value.isoformat()} is out of range: give a time from 1970-01-01 to 9000-01-01")
    return {option: value}


def expiry(expires_at: datetime | None, scheduled_for: datetime | None, delay_ms: int | None, now: int | None) -> None:
    """Raises `InvalidJob` for a job that would expire before it may run; `now` in microseconds, or None."""
    if expires_at is None:
        return
    if scheduled_for is not None and expires_at <= scheduled_for:
        raise InvalidJob(
            f"expires_at={expires_at.isoformat()} is not after scheduled_for={scheduled_for.isoformat()}: "
            "the job would expire before it may run"
        )
    if now is None:
        return
    if expires_at <= from_micros(now):
        raise InvalidJob(f"expires_at={expires_at.isoformat()} is in the past: the job would never run")
    if delay_ms is not None and expires_at <= from_micros(now + delay_ms * 1_000):
        raise InvalidJob(
            f"expires_at={expires_at.isoformat()} is before the end of the delay of {delay_ms / 1_000:g}s: "
            "the job would expire before it may run"
        )


def meta(value: Any, option: str) -> dict[str, Any]:
    if value is None:
        return {"meta": None}
    if not isinstance(value, Mapping):
        raise InvalidJob(f"{option}={value!r} is not a dict: give one like {{'origin': 'import'}}")
    try:
        return {"meta": encode(value, limit=META_LIMIT, what="meta")}
    except InvalidPayload as error:
        raise InvalidJob(str(error)) from error


def tags(value: Any, option: str) -> dict[str, Any]:
    """None removes the kind's tags; others are added to them."""
    return {"tags": () if value is None else model_tags.tags(value, option)}


def key(value: Any, option: str) -> dict[str, Any]:
    """A literal key, instead of the one that the kind would make."""
    return {option: keys.literal(value, option), f"{option}_by": None}


def key_of(value: Any, option: str) -> dict[str, Any]:
    """A kind's key: literal, or made from each job's arguments."""
    source = keys.source(value)
    return key(value, option) if source is None else {option: None, f"{option}_by": source}


def concurrency(value: Any, option: str) -> dict[str, Any]:
    return {"concurrency": None if value is None else integer(value, option, 1, 1_000_000)}


def rate(value: Any, option: str) -> dict[str, Any]:
    count, period_ms = (None, None) if value is None else parse_rate(value, option)
    return {"rate_count": count, "rate_period_ms": period_ms}


def burst(value: Any, option: str) -> dict[str, Any]:
    return {"rate_burst": None if value is None else integer(value, option, 1, COUNT_LIMIT)}


def after(value: Any, option: str) -> dict[str, Any]:
    """The ids of jobs, given as jobs or ids."""
    if value is None:
        return {"after": ()}
    if isinstance(value, str | UUID | Enqueued | Job | NewJob):
        value = (value,)
    if not isinstance(value, Collection) or isinstance(value, Mapping):
        raise InvalidJob(f"{option}={value!r} is not a list of jobs: give what enqueue() or build() gave, or their ids")
    return {"after": tuple(dict.fromkeys(_job_id(each, option) for each in value))}


def _job_id(value: Any, option: str) -> str:
    if isinstance(value, Enqueued | Job | NewJob):
        return value.id
    try:
        return as_id(value)
    except NotFound:
        message = f"{option} has {value!r}, which is not a job: give what enqueue() or build() gave, or an id"
        raise InvalidJob(message) from None


def group(value: Any, option: str) -> dict[str, Any]:
    return {"group_id": None if value is None else group_id(value, option)}


def group_id(value: Any, what: str = "group") -> str:
    """The id of a group: from itself, from what `app.group(…)` gave, or as text."""
    found: Any = value if isinstance(value, Enqueued | Job | NewJob) else getattr(value, "id", value)
    try:
        return as_id(found)
    except NotFound:
        raise InvalidJob(f"{what}={value!r} is not a group: give what app.group(…) gave, or its id, a UUID") from None


def error_classes(value: Any, option: str) -> dict[str, Any]:
    classes = (value,) if isinstance(value, type) else value
    if not isinstance(classes, tuple | list | set | frozenset) or not classes:
        raise InvalidJob(f"{option}={value!r} is not an exception class or a tuple of them, like (OSError,)")
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise InvalidJob(f"{option} has {each!r}, which is not a subclass of Exception")
    return {option: tuple(classes)}


def error_classes_apart(retry_on: tuple[type[Exception], ...] | None, discard_on: tuple[type[Exception], ...]) -> None:
    for each in retry_on or ():
        if each in discard_on:
            raise InvalidJob(f"{each.__name__} is in retry_on and in discard_on: leave it in one of them")
