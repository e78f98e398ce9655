"""The rows of a report: those of its payload, or of a named query over the jobs of its tenant."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.errors import InvalidJob
from headway.model.duration import to_ms
from headway.model.job import Attempt, Job
from headway.model.listing import Cursor, Filter
from headway.model.stats import COUNTS, SPAN_MS, Span
from headway.model.status import FINISHED, UNFINISHED
from headway.store.run import Store

Row = Mapping[str, Any]
Rows = AsyncIterator[Sequence[Row]]
"""Pages of rows: a report has one page in memory."""

_PAGE = 500

_JOB_COLUMNS = (
    *("id", "kind", "queue", "status", "priority", "tries", "losses", "created_at", "scheduled_for", "started_at"),
    *("finished_at", "duration_ms", "train", "source", "correlation_id", "unique_key", "tags", "error"),
)
_ATTEMPT_COLUMNS = (
    *("job_id", "kind", "queue", "fence", "status", "started_at", "finished_at", "duration_ms", "worker_id", "step"),
    *("exit_code", "error"),
)
_STAT_COLUMNS = ("at", "queue", "kind", *COUNTS, "depth")

QUERIES = {"jobs": _JOB_COLUMNS, "attempts": _ATTEMPT_COLUMNS, "stats": _STAT_COLUMNS}
"""Every query, with its columns."""
_OF_JOBS = {
    *("status", "kind", "queue", "source", "correlation_id", "unique_key", "train", "tags"),
    *("created_after", "created_before"),
}
_OF_STATS = {"queue", "kind", "every", "since", "until"}


def check_where(query: str, where: Mapping[str, Any]) -> None:
    """Raises `InvalidJob` for a filter that the query does not have, or a value that is none."""
    known = _OF_STATS if query == "stats" else _OF_JOBS
    for name, value in where.items():
        if name not in known:
            raise InvalidJob(f"{query} has no filter {name!r}: it has {', '.join(sorted(known))}")
        if name == "tags":
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise InvalidJob("where.tags is a list of tags")
        elif not isinstance(value, str):
            raise InvalidJob(f"where.{name} is a text")
    if where.get("status", "dead") not in (*FINISHED, *UNFINISHED):
        raise InvalidJob(f"where.status={where['status']!r} is no status of a job")
    if where.get("every", "day") not in SPAN_MS:
        raise InvalidJob(f"where.every={where['every']!r} is none of {', '.join(SPAN_MS)}")
    for name in ("created_after", "created_before", "since", "until"):
        if name in where:
            _time(name, where[name], datetime.now(UTC))


def _time(name: str, value: str, now: datetime) -> datetime:
    """A time, or an age: "7d" is a week ago."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        try:
            return now - timedelta(milliseconds=to_ms(value, name))
        except InvalidJob:
            raise InvalidJob(f'where.{name}={value!r} is neither a time nor an age such as "7d"') from None
    if found.tzinfo is None:
        raise InvalidJob(f"where.{name}={value!r} has no zone: write 2026-05-17T00:00:00Z")
    return found


async def rows_given(rows: Sequence[Any], columns: Sequence[str]) -> Rows:
    """Those of the payload: objects, or lists in the order of the columns."""
    for start in range(0, len(rows), _PAGE):
        page = rows[start : start + _PAGE]
        yield [row if isinstance(row, dict) else dict(zip(columns, row, strict=False)) for row in page]


async def rows_found(store: Store, tenant_id: str, query: str, where: Mapping[str, Any]) -> Rows:
    """Those of a query, in pages: jobs and their attempts newest first, numbers in order of time."""
    now = await store.arun(store.ops.now())
    if query == "stats":
        yield await _stats(store, tenant_id, where, now)
        return
    values: dict[str, Any] = {**where}
    for name in ("created_after", "created_before"):
        if name in where:
            values[name] = _time(name, where[name], now)
    if "tags" in where:
        values["tags"] = tuple(where["tags"])
    wanted = Filter(tenant_id=tenant_id, **values)
    last: Cursor | None = None
    while jobs := await store.arun(store.ops.find(wanted, limit=_PAGE, after=last)):
        last = Cursor.of(jobs[-1], "after")
        if query == "jobs":
            yield [_job(job) for job in jobs]
            continue
        for job in jobs:
            attempts = await store.arun(store.ops.attempts(job.id, tenant_id=tenant_id))
            yield [_attempt(job, each) for each in reversed(attempts)]


async def _stats(store: Store, tenant_id: str, where: Mapping[str, Any], now: datetime) -> list[Row]:
    every: Span = where.get("every", "day")
    usual = {"minute": timedelta(hours=1), "hour": timedelta(days=1), "day": timedelta(days=30)}
    until = _time("until", where["until"], now) if "until" in where else now + timedelta(milliseconds=SPAN_MS[every])
    since = _time("since", where["since"], now) if "since" in where else now - usual[every]
    queue, kind = (None if where.get(name) is None else (where[name],) for name in ("queue", "kind"))
    op = store.ops.stats(every, since=since, until=until, tenant_id=tenant_id, queue=queue, kind=kind)
    return [
        {"at": each.at, "queue": each.queue, "kind": each.kind, "depth": each.numbers.depth}
        | {name: getattr(each.numbers, name) for name in COUNTS}
        for each in await store.arun(op)
    ]


def _job(job: Job) -> Row:
    made = {name: getattr(job, name, None) for name in _JOB_COLUMNS}
    return made | {"duration_ms": _took(job.started_at, job.finished_at), "error": _first_line(job.error)}


def _attempt(job: Job, attempt: Attempt) -> Row:
    made = {name: getattr(attempt, name, None) for name in _ATTEMPT_COLUMNS}
    took = _took(attempt.started_at, attempt.finished_at)
    of_job = {"kind": job.kind, "queue": job.queue}
    return made | of_job | {"duration_ms": took, "error": _first_line(attempt.error)}


def _took(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else round((end - start).total_seconds() * 1_000)


def _first_line(text: str | None) -> str | None:
    """A traceback's last line has the error itself."""
    return None if text is None else (text.strip().splitlines() or [""])[-1][:500]


def number_text(value: float) -> str:
    """A number for people: every digit of money and counts, but not those that adding floats leaves behind.

    >>> number_text(1234567.89), number_text(0.1 + 0.2), number_text(12), number_text(1e-9)
    ('1,234,567.89', '0.3', '12', '1e-09')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value and not 1e-6 <= abs(value) < 1e15:
        return f"{value:.6g}"
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def time_text(value: datetime) -> str:
    """A time for people, in UTC, to the second."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def text_of(value: Any) -> str:
    """A value as a cell shows it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case list() | tuple() if all(isinstance(each, str) for each in value):
            return ", ".join(value)
        case dict() | list() | tuple():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)
