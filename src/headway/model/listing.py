"""Lists of jobs: which of them, in which order, and where a page ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from headway.errors import InvalidJob
from headway.model.ids import DEFAULT_TENANT_ID, given_id
from headway.model.job import Job, Source
from headway.model.status import Status

Order = Literal["newest", "oldest", "priority", "run"]
ORDERS: tuple[Order, ...] = get_args(Order)

_CURSOR = re.compile(r"([^/]+)(?:/(-?[0-9]{1,5})/(-?[0-9]{1,18})?)?\Z")
_KEY = re.compile(r'[^."\\\x00-\x1f]{1,255}\Z')
_SCALARS = (str, int, float, bool, type(None))


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a read or a bulk verb means; None means any, several values mean one of them."""

    tenant_id: str | None = None
    status: Status | None = None
    kind: str | tuple[str, ...] | None = None
    queue: str | None = None
    source: Source | tuple[Source, ...] | None = None
    correlation_id: str | None = None
    unique_key: str | None = None
    retry_of: str | None = None
    group_id: str | tuple[str, ...] | None = None
    parent_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    tags: tuple[str, ...] | None = None  # all of them
    any_tags: tuple[str, ...] | None = None  # at least one of them
    meta: tuple[tuple[str, Any], ...] | None = None  # paths such as "customer.id", and the scalar that is there
    train: str | tuple[str, ...] | None = None
    id_from: str | None = None  # from this id on …
    id_to: str | None = None  # … up to this one, both included
    ids: tuple[str, ...] | None = None  # one of these
    error: str | None = None  # the fingerprint with which its last execution ended

    @property
    def is_a_search(self) -> bool:
        """Whether jobs may have to be looked at one by one for those that match: unless an index finds only these, or
        only few others."""
        if not (self.ids is None and self.group_id is None and self.retry_of is None and self.parent_id is None):
            return False
        if self.status == "queued" or self.tenant_id == DEFAULT_TENANT_ID:  # no index has them in order of ids
            return True
        return self != Filter(tenant_id=self.tenant_id, status=self.status)


class Cursor(msgspec.Struct, frozen=True):
    """Where a page ended: what its last job is sorted by, in any order. It stays right when that job changes or goes.

    >>> Cursor.of("0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10/100/2048", "after")
    Cursor(id='0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10', priority=100, position=2048)
    """

    id: str
    priority: int | None = None
    position: int | None = None

    @classmethod
    def of(cls, value: Job | str, what: str) -> Cursor:
        """The cursor of a job, of its `cursor`, or of its id; raises `InvalidJob`."""
        if isinstance(value, Job):
            return cls(value.id, value.priority, value.position)
        found = _CURSOR.match(value) if isinstance(value, str) else None
        if found is None or found[2] is None:
            return cls(given_id(value, what))
        return cls(given_id(found[1], what), int(found[2]), None if found[3] is None else int(found[3]))


def sort_key(order: Order) -> Callable[[Job], Any]:
    """What jobs are sorted by in this order; newest: backwards."""
    match order:
        case "priority":
            return lambda job: (job.priority, job.id)
        case "run":
            return lambda job: (job.priority, job.position or 0, job.id)
    return lambda job: job.id


def check_order(order: object, where: Mapping[str, Any], after: Cursor | None) -> Order:
    """The order, which may need a filter; raises `InvalidJob`."""
    if order not in ORDERS:
        raise InvalidJob(f"order={order!r} is unknown: use {', '.join(ORDERS)}")
    if order == "run":
        if where.get("status") not in (None, "queued"):
            raise InvalidJob("order='run' is the order of queued jobs: leave status= out")
        if not isinstance(where.get("queue"), str):
            raise InvalidJob("order='run' is the order of one queue, which has a line of its own: give one queue=")
    if after is not None and order in ("priority", "run") and after.priority is None:
        raise InvalidJob(f"after={after.id!r} is only an id: with order={order!r}, give the last job, or its .cursor")
    return order


def meta_paths(value: object) -> tuple[tuple[str, Any], ...]:
    """Checked paths into `meta`, with the value that each must have; raises `InvalidJob`.

    >>> meta_paths({"customer.id": 7})
    (('customer.id', 7),)
    """
    if not isinstance(value, Mapping) or not value:
        raise InvalidJob(f"meta={value!r} is not a mapping of paths: give one like {{'customer.id': 7}}")
    for path, wanted in value.items():
        if not isinstance(path, str) or not all(_KEY.match(key) for key in path.split(".")):
            raise InvalidJob(f"meta has {path!r}, which is not a path: join the names of the fields with dots")
        if not isinstance(wanted, _SCALARS) or wanted != wanted or wanted in (float("inf"), float("-inf")):
            raise InvalidJob(
                f"meta has {wanted!r} for {path}: give a text, a number, True, False or None; a longer path leads into "
                "an object"
            )
        if isinstance(wanted, str) and "\0" in wanted:
            raise InvalidJob(f"meta has a NUL character for {path}, which no job's meta has")
    return tuple(value.items())


def several(value: str | tuple[str, ...] | None) -> list[str] | None:
    """One value or several, as a list; None stays None."""
    return None if value is None else [value] if isinstance(value, str) else list(value)
