"""assert_enqueued and its like: finds enqueued jobs; a failure shows what is there instead."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from headway.app import Verbs
from headway.define import Kind, Machine, checks
from headway.define.keys import KEYS
from headway.errors import HeadwayError, InvalidJob
from headway.model.codec import decode, encode
from headway.model.job import Job
from headway.model.listing import Cursor
from headway.model.status import STATUSES, UNFINISHED

_FIELDS = tuple(name for name in Job.__struct_fields__ if name not in ("kind", "status"))
_PAGE = 1_000
_SHOWN = 10

_OPTIONS: dict[str, checks.Check] = {
    "group": checks.group,
    "rate": checks.rate,
    "burst": checks.burst,
    **dict.fromkeys(KEYS, lambda value, name: {name: str(value) if isinstance(value, int | UUID) else value}),
}

AnyKind = str | Kind[..., Any] | type[Machine]
Statuses = str | Collection[str]


def all_enqueued(
    app: Verbs, kind: AnyKind | None = None, *, status: Statuses | None = None, **filters: Any
) -> list[Job]:
    """The unfinished jobs that match, oldest first; `app` may be `app.tenant(…)`.

    A filter is any field of a job (`queue`, `priority`, `tenant`, `train`, `unique_key`, `scheduled_for`, …), or an
    option as it was given (`group`, `rate`, `burst`). `payload` and `meta` need only be a part of the job's; a function
    as a value decides (`priority=lambda p: p < 10`); `status` names one or several statuses, also finished ones, or
    "any". A machine is given by its class; `step`, `state` and `awaiting` say where it is.
    """
    filters = _as_fields(filters)
    _check(filters)
    return [job for job in _found(app, kind, status) if _mismatch(job, filters) is None]


def assert_enqueued(
    app: Verbs,
    kind: AnyKind | None = None,
    *,
    count: int | None = None,
    status: Statuses | None = None,
    **filters: Any,
) -> list[Job]:
    """Check that jobs like this are enqueued, exactly `count` or else at least one; gives them, oldest first.

        assert_enqueued(app, welcome, payload={"user_id": 7}, queue="mail", count=1)

    Takes the filters of `all_enqueued`. The failure says what is there and how it differs.
    """
    __tracebackhide__ = True
    found = all_enqueued(app, kind, status=status, **filters)
    if (not found) if count is None else (len(found) != count):
        wanted = "a job" if count is None else f"{count} {_jobs(count)}"
        there = "none is" if not found else f"{len(found)} {'is' if len(found) == 1 else 'are'}"
        raise AssertionError(
            f"expected {wanted} {_like(kind, status, filters)} to be enqueued, and {there}.\n"
            + _what_is_there(app, kind, filters, status)
        )
    return found


def refute_enqueued(app: Verbs, kind: AnyKind | None = None, *, status: Statuses | None = None, **filters: Any) -> None:
    """Check that no job like this is enqueued; takes the filters of `all_enqueued`."""
    __tracebackhide__ = True
    found = all_enqueued(app, kind, status=status, **filters)
    if found:
        raise AssertionError(
            f"expected no job {_like(kind, status, filters)} to be enqueued, and "
            f"{len(found)} {'is' if len(found) == 1 else 'are'}:\n" + _list(found, {})
        )


def _found(app: Verbs, kind: AnyKind | None, status: Statuses | None) -> list[Job]:
    wanted = _statuses(status)
    name = _name(kind)
    jobs: list[Job] = []
    # unmasked: a test may look for values that people are not shown
    while page := app._run(app._find(_PAGE, Cursor(jobs[-1].id) if jobs else None, "newest", {"kind": name})):
        jobs += page
        if len(page) < _PAGE:
            break
    return [job for job in reversed(jobs) if job.status in wanted]


def _name(kind: AnyKind | None) -> str | None:
    match kind:
        case Kind():
            return kind.name
        case type():
            return kind.kind().name
        case _:
            return kind


def _statuses(status: Statuses | None) -> Collection[str]:
    match status:
        case None:
            return UNFINISHED
        case "any":
            return STATUSES
        case str():
            chosen: Collection[str] = (status,)
        case _:
            chosen = status
    for each in chosen:
        if each not in STATUSES:
            raise InvalidJob(f"status={each!r} does not exist: use {', '.join(STATUSES)}, or 'any'")
    return chosen


def _as_fields(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters, with options renamed to the fields of a job's row."""
    fields: dict[str, Any] = {}
    for name, value in filters.items():
        check = _OPTIONS.get(name)
        fields |= {name: value} if check is None or callable(value) else check(value, name)
    return fields


def _check(filters: Mapping[str, Any]) -> None:
    for name in filters:
        if name not in _FIELDS:
            close = difflib.get_close_matches(name, _FIELDS, 1)
            hint = f"did you mean {close[0]}?" if close else f"use {', '.join(_FIELDS)}"
            raise InvalidJob(f"{name} is not a field of a job: {hint}")


def _mismatch(job: Job, filters: Mapping[str, Any]) -> str | None:
    """The first difference between the job and the filters, or None."""
    for name, wanted in filters.items():
        fault = _differs(name, wanted, getattr(job, name))
        if fault is not None:
            return fault
    return None


def _differs(path: str, wanted: Any, there: Any) -> str | None:
    if callable(wanted) and not isinstance(wanted, type):
        return None if wanted(there) else f"{path} is {there!r}"
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        for key, value in wanted.items():
            if str(key) not in there:
                return f"{path} has no {key}"
            fault = _differs(f"{path}.{key}", value, there[str(key)])
            if fault is not None:
                return fault
        return None
    if _is_list(wanted) and _is_list(there) and len(wanted) == len(there):
        faults = (_differs(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(wanted, there, strict=True)))
        return next((fault for fault in faults if fault is not None), None)
    return None if wanted == there or _as_stored(wanted) == there else f"{path} is {there!r}"


def _as_stored(value: Any) -> Any:
    """The value as JSON has it: a UUID as text, a dataclass as a dict."""
    try:
        return decode(encode(value, limit=1 << 30))
    except HeadwayError:
        return msgspec.UNSET  # equal to nothing that is stored


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _like(kind: AnyKind | None, status: Statuses | None, filters: Mapping[str, Any]) -> str:
    parts = [] if kind is None else [f'of kind "{_name(kind)}"']
    if filters:
        parts.append("with " + ", ".join(f"{name}={value!r}" for name, value in filters.items()))
    if status is not None:
        parts.append(f"in status {status}")
    return " ".join(parts) or "of any kind"


def _what_is_there(app: Verbs, kind: AnyKind | None, filters: Mapping[str, Any], status: Statuses | None) -> str:
    same = _found(app, kind, "any")
    if same:
        return "There are:\n" + _list(same, filters, _statuses(status))
    others = _found(app, None, "any") if kind is not None else []
    if others:
        return "There are none of that kind; of others there are:\n" + _list(others, {})
    return "There is no job at all."


def _list(jobs: list[Job], filters: Mapping[str, Any], statuses: Collection[str] = STATUSES) -> str:
    lines = []
    for job in jobs[-_SHOWN:]:
        fault = None if job.status in statuses else f"it is {job.status} already"
        fault = fault or _mismatch(job, filters)
        payload = encode(job.payload, limit=1 << 30)
        shown = payload if len(payload) <= 200 else payload[:200] + "…"
        when = f" for {job.scheduled_for.isoformat()}" if job.status == "scheduled" and job.scheduled_for else ""
        tenant = "" if job.tenant == "default" else f" of tenant {job.tenant}"
        train = "" if job.train is None else f" in train {job.train}"
        step = "" if job.step is None else f" at step {job.step}"
        differs = f"  ({fault})" if fault else ""
        lines.append(f"  {job.kind} {shown}, {job.status}{when}{step} in queue {job.queue}{train}{tenant}{differs}")
    if len(jobs) > _SHOWN:
        lines.append(f"  and {len(jobs) - _SHOWN:,} older")
    return "\n".join(lines)


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"
