"""Find: lists of jobs by their filters, in each order by the index that suits it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from headway.clock import to_micros
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Job
from headway.model.listing import Cursor, Filter, Order, several
from headway.model.status import STATUSES, Status
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.paging import first_edge, in_pieces, reached, search_start
from headway.store.sqlite.engine.decode import to_job
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.stats.errors import not_added

_SQL = statements("jobs/find")
_JOBS = statements("jobs/reads")["jobs"]
# what follows the cursor, up to the edge of the search, and the order of a page
_ENDS: dict[Order, str] = {
    "newest": " and {at} < ?24 and {at} >= ?25 order by {id} desc limit ?23",
    "oldest": " and {at} > ?24 and {at} <= ?25 order by {id} limit ?23",
    "priority": " and (jobs.priority, jobs.id) > (?25, ?24) order by jobs.priority, jobs.id limit ?23",
    "run": " and (jobs.priority, jobs.position, jobs.id) > (?25, ?26, ?24)"
    " order by jobs.priority, jobs.position, jobs.id limit ?23",
}
_IDS = {"tagged": "tagged.job_id", "tagged_of_tenant": "tagged.job_id", "erred": "erred.job_id"}
# a range of ids is walked between its own ends, which are as narrow as the cursor and the edge
_BESIDES = {"range": "+jobs.id"}
_PAGES = {
    (scan, order): text + end.format(id=_IDS.get(scan, "jobs.id"), at=_BESIDES.get(scan, _IDS.get(scan, "jobs.id")))
    for scan, text in _SQL.items()
    for order, end in _ENDS.items()
}
_WAYS: dict[Order, str] = {
    "newest": " and {id} < ?5 order by {id} desc limit 1 offset ?6 - 1",
    "oldest": " and {id} > ?5 order by {id} limit 1 offset ?6 - 1",
}
_EDGES = {
    (scan, order): text + way.format(id=_IDS.get(scan, "jobs.id"))
    for scan, text in statements("jobs/find_edges").items()
    for order, way in _WAYS.items()
}
_BEFORE_ALL = Cursor("", -(2**63), -(2**63))
_START: dict[Order, Cursor] = {
    "newest": Cursor("g"),  # after every id
    "oldest": _BEFORE_ALL,
    "priority": _BEFORE_ALL,
    "run": _BEFORE_ALL,
}


class FindVerbs(Verbs):
    def find(
        self,
        where: Filter,
        *,
        limit: int,
        order: Order = "newest",
        after: Cursor | None = None,
        raw: bool = False,
        search_limit: int | None = None,
    ) -> Op[list[Job]]:
        scans = _scans(where, order)
        fresh: str | None = None  # executions that are not noted as its yet
        edge: str | None = None  # the last id of the search

        def page(count: int, last: Cursor | None) -> Steps[Rows]:
            last = last or _START[order]
            within = _narrowed(where, order, last.id, edge)
            ends = {
                "newest": (edge or "",),
                "oldest": (edge or "g",),
                "priority": (last.priority,),
                "run": (last.priority, last.position),
            }
            found: dict[str, Row] = {}
            for scan, tag, status in scans:
                params = (*_params(within, status), fresh, tag, count, last.id, *ends[order])
                found |= {row[0]: row for row in (yield Statement(_PAGES[scan, order], params))}
            ids = sorted(found, key=lambda job_id: _key(found[job_id], order), reverse=order == "newest")[:count]
            rows = yield Statement(_JOBS, (json_list(ids), where.tenant_id))
            by_id = {row[0]: row for row in rows}
            return [by_id[job_id] for job_id in ids if job_id in by_id]

        def walked_to(most: int) -> Steps[str | None]:
            start = search_start(where, order, after, _START[order].id)
            ids = []
            for scan, tag, status in scans:
                if (scan, order) in _EDGES:
                    params = (where.tenant_id, status, tag, where.error, start, most)
                    ids += [str(row[0]) for row in (yield Statement(_EDGES[scan, order], params))]
            return first_edge(ids, where, order)

        def steps() -> Steps[list[Job]]:
            nonlocal fresh, edge
            if where.error is not None:
                fresh = json_list((yield from not_added(where.tenant_id, where.error)))
            if search_limit is not None and where.is_a_search:
                edge = yield from walked_to(search_limit)
            return reached((yield from in_pieces(limit, after, page, partial(to_job, raw=raw))), limit, edge)

        return SqliteOp(steps, writes=False)


def _narrowed(where: Filter, order: Order, last: str, edge: str | None) -> Filter:
    """A range of ids, no wider than from the cursor to the edge: SQLite walks from one end of it to the other."""
    if where.id_from is None or where.id_to is None or order not in _WAYS:
        return where
    if order == "newest":
        return msgspec.structs.replace(where, id_to=min(where.id_to, last), id_from=max(where.id_from, edge or ""))
    return msgspec.structs.replace(where, id_from=max(where.id_from, last), id_to=min(where.id_to, edge or "g"))


def _scans(where: Filter, order: Order) -> list[tuple[str, str | None, Status | None]]:
    """The statements whose indexes hold the fewest rows for this filter, with the tag and status to search for."""
    of_tenant = where.tenant_id is not None and where.tenant_id != DEFAULT_TENANT_ID
    if order == "run":
        return [("line", None, where.status), ("aside", None, where.status)]
    if where.ids is not None:
        return [("named", None, where.status)]
    if where.id_from is not None:
        return [("range", None, where.status)]
    if where.retry_of is not None:
        return [("retries", None, where.status)]
    if where.parent_id is not None:
        return [("spawned", None, where.status)]
    if where.group_id is not None:
        return [("members", None, where.status)]
    if where.tags or where.any_tags:
        scan = "tagged_of_tenant" if of_tenant else "tagged"
        tags = where.tags[:1] if where.tags else where.any_tags or ()
        return [(scan, tag, where.status) for tag in tags]
    if where.error is not None:
        return [("erred", None, where.status), ("erred_lately", None, where.status)]
    if of_tenant:
        return [("tenant", None, status) for status in ((where.status,) if where.status else STATUSES)]
    if where.status == "running":
        return [("running", None, where.status)]
    if where.status is not None and where.status != "queued":
        return [("listed", None, where.status)]
    return [("every", None, where.status)]


def _key(row: Row, order: Order) -> Any:
    job_id, priority, position = row
    match order:
        case "priority":
            return priority, job_id
        case "run":
            return priority, position, job_id
    return job_id


def _params(where: Filter, status: Status | None) -> tuple[Any, ...]:
    return (
        where.tenant_id,
        status,
        _listed(several(where.kind)),
        where.queue,
        _listed(several(where.source)),
        where.correlation_id,
        where.unique_key,
        where.retry_of,
        _listed(several(where.group_id)),
        where.parent_id,
        _micros(where.created_after),
        _micros(where.created_before),
        _listed(several(where.tags)),
        _listed(several(where.any_tags)),
        None if where.meta is None else json_list([_condition(path, value) for path, value in where.meta]),
        _listed(several(where.train)),
        where.id_from,
        where.id_to,
        _listed(several(where.ids)),
        where.error,
    )


def _condition(path: str, value: Any) -> tuple[str, str, Any]:
    """A path in SQLite's words, the types of JSON that the value may have there, and the value: true is not 1."""
    steps = "".join(f'."{key}"' for key in path.split("."))
    match value:
        case bool():
            types = "true" if value else "false"
        case int() | float():
            types = "integer real"
        case None:
            types = "null"
        case _:
            types = "text"
    return f"${steps}", types, value


def _listed(values: list[str] | None) -> str | None:
    return None if values is None else json_list(values)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
