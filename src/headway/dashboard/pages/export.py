"""Export: a filtered list as a file, sent page by page while it is read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from headway.api.wire.problems import Refused
from headway.dashboard.list_table import seen_since
from headway.dashboard.shown.json_text import as_text, masked_json
from headway.dashboard.table import Download, Pages
from headway.dashboard.visit import Visit
from headway.printable import cell_text

pages = Pages()

_PAGE = 200
_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


@dataclass(frozen=True)
class _List:
    """A list that can be exported: the route that it is read from, its filters, and the columns of its CSV."""

    path: str
    filters: tuple[str, ...]
    columns: tuple[str, ...]


_LISTS = {
    "jobs": _List(
        "/jobs",
        (
            *("status", "kind", "queue", "tag", "source", "train", "group", "correlation_id", "unique_key"),
            *("created_after", "created_before", "error", "q", "order"),
        ),
        (
            *("id", "tenant", "kind", "status", "queue", "priority", "source", "tries", "max_attempts", "losses"),
            *("created_at", "scheduled_for", "queued_at", "started_at", "finished_at", "worker_id", "created_by"),
            *("train", "group_id", "unique_key", "correlation_id", "tags", "error", "payload", "result"),
        ),
    ),
    "events": _List(
        "/events",
        ("name", "status"),
        (
            *("id", "tenant", "name", "status", "emitted_at", "handled_at", "correlation_id", "created_by", "job_id"),
            *("error", "payload"),
        ),
    ),
    "audit": _List(
        "/audit",
        ("actor", "action"),
        (
            *("id", "at", "actor", "action", "detail", "job_id", "request_id", "address"),
            *("actor_name", "changes", "seal", "hash"),
        ),
    ),
    "errors": _List(
        "/errors",
        ("kind", "queue", "status", "order"),
        (
            *("fingerprint", "kind", "queue", "status", "type", "place", "message", "count", "dead", "tenants"),
            *("first_seen_at", "last_seen_at", "job_id"),
        ),
    ),
}


@pages.get("/export/{name}")
async def export(visit: Visit, name: str) -> Download:
    """What the list's page would show on all of its pages together, in its order."""
    of, _, ending = name.rpartition(".")
    if of not in _LISTS or ending not in _TYPES:
        raise Refused(404, "there is no such file")
    wanted = _LISTS[of]
    query: dict[str, Any] = {each: visit.query.getlist(each) for each in wanted.filters}
    if of == "errors":  # its page has spans, such as an hour, and the route has times
        query["since"] = seen_since(visit)
    rows = _rows(visit, wanted.path, query)
    first = [each async for each in _taken(rows, 1)]  # refuse a wrong filter before anything is sent
    visit.note_export(name)
    parts = _csv(first, rows, wanted.columns) if ending == "csv" else _json(first, rows)
    return Download(name, _TYPES[ending], parts)


async def _rows(visit: Visit, path: str, query: Mapping[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
    cursor: str | None = None
    while True:
        page = await visit.ask("GET", path, query={**query, "limit": _PAGE, "cursor": cursor})
        yield [_plain(each) for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return
        await visit.check_still_in()


async def _taken(pages_: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    for _ in range(count):
        yield await anext(pages_)


def _plain(item: Any) -> dict[str, Any]:
    """A row with its secrets masked; stored JSON as it is otherwise."""
    fields = item if isinstance(item, dict) else msgspec.structs.asdict(item)
    return {name: _masked(value) for name, value in fields.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, (dict, list, msgspec.Raw)) and value:
        return msgspec.Raw(masked_json(as_text(value) or "null").encode())
    return value


async def _json(first: list[list[dict[str, Any]]], rows: AsyncIterator[list[dict[str, Any]]]) -> AsyncIterator[bytes]:
    yield b"["
    between = b"\n"
    for page in first:
        for each in page:
            yield between + msgspec.json.encode(each)
            between = b",\n"
    async for page in rows:
        if page:  # a search may have found nothing so far
            yield between + b",\n".join(map(msgspec.json.encode, page))
            between = b",\n"
    yield b"\n]\n"


async def _csv(
    first: list[list[dict[str, Any]]], rows: AsyncIterator[list[dict[str, Any]]], columns: tuple[str, ...]
) -> AsyncIterator[bytes]:
    yield _lines([columns])
    for page in first:
        yield _lines([_cell(each.get(name)) for name in columns] for each in page)
    async for page in rows:
        yield _lines([_cell(each.get(name)) for name in columns] for each in page)


def _lines(rows: Any) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def _cell(value: Any) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    text = " ".join(value) if isinstance(value, (tuple, list)) else value if isinstance(value, str) else as_text(value)
    return cell_text(text or "")
