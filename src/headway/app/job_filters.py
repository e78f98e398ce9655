"""Which jobs: the filters that `app.jobs` and its like take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import product
from typing import Any, TypedDict
from uuid import UUID

from headway.define.checks import group_id
from headway.define.option_types import HasId
from headway.errors import InvalidJob
from headway.model.error_groups import given_fingerprint
from headway.model.ids import given_id, ids_with_prefix
from headway.model.job import Source
from headway.model.listing import Filter, meta_paths
from headway.model.status import STATUSES, Status
from headway.model.tags import tags

_REPEATABLE = ("status", "kind", "queue", "source", "train", "group_id", "tags", "any_tags", "ids")
_APART = ("status", "queue")  # each of these values is a read of its own, by its own index
_MOST_READS = 64


class JobFilters(TypedDict, total=False):
    """What narrows `app.jobs(…)`; None means any. The first six take several values: a job matches if it has one. It
    has all of `tags`, at least one of `any_tags`, and in its meta, at each path, exactly that value. `error` is the
    fingerprint (`app.errors`) with which its last execution ended; it may be running again."""

    status: Status | Collection[Status] | None
    kind: str | Collection[str] | None
    queue: str | Collection[str] | None
    source: Source | Collection[Source] | None
    train: str | Collection[str] | None
    group_id: str | UUID | HasId | Collection[str | UUID | HasId] | None
    tenant: str | UUID | None
    parent_id: str | UUID | None
    correlation_id: str | None
    unique_key: str | None
    retry_of: str | UUID | None
    created_after: datetime | None
    created_before: datetime | None
    tags: str | Collection[str] | None
    any_tags: str | Collection[str] | None
    meta: Mapping[str, str | int | float | bool | None] | None
    id_prefix: str | None
    ids: Collection[str] | None
    error: str | None


def one_value_each(filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The filters with one status and queue each: several become several reads, so that each read uses its index."""
    several: dict[str, list[Any]] = {}
    filters = dict(filters)
    for name, value in filters.items():
        if isinstance(value, list | tuple | set | frozenset):
            if name not in _REPEATABLE:
                raise InvalidJob(f"{name} takes one value, not several: {', '.join(_REPEATABLE)} take several")
            if not value:
                raise InvalidJob(f"{name} has no value: leave it out for any")
            if name == "group_id":
                value = [group_id(each, name) for each in value]
            if name in _APART:
                several[name] = sorted(set(value))
            else:
                filters[name] = tuple(sorted(set(value)))
    found = [dict(zip(several, values, strict=True)) for values in product(*several.values())]
    if len(found) > _MOST_READS:
        raise InvalidJob(f"these filters are {len(found)} combinations of values: give {_MOST_READS} at most")
    return [{**filters, **each} for each in found]


def filter_of(filters: Mapping[str, Any], *, tenant_id: str | None) -> Filter:
    """Checked filters, but for `tenant`, with one status and queue; raises `InvalidJob`."""
    given = {name: value for name, value in filters.items() if value is not None and name != "tenant"}
    unknown = set(given) - set(JobFilters.__annotations__)
    if unknown:
        raise InvalidJob(f"{sorted(unknown)[0]!r} is not a filter: use {', '.join(JobFilters.__annotations__)}")
    if given.get("status", "queued") not in STATUSES:
        raise InvalidJob(f"status={given['status']!r} does not exist: use {', '.join(STATUSES)}")
    for name in ("created_after", "created_before"):
        if name in given and (not isinstance(given[name], datetime) or given[name].tzinfo is None):
            raise InvalidJob(f"{name}={given[name]!r} must be a datetime with a zone")
    for name in {"retry_of", "parent_id"} & given.keys():
        given[name] = given_id(given[name], name)
    if "group_id" in given:
        groups = given["group_id"]
        given["group_id"] = groups if isinstance(groups, tuple) else group_id(groups, "group_id")
    for name in {"tags", "any_tags"} & given.keys():
        given[name] = tags(given[name], name)
    if "ids" in given:
        given["ids"] = tuple(given_id(each, "ids") for each in given["ids"])
    if "id_prefix" in given:
        given["id_from"], given["id_to"] = ids_with_prefix(given.pop("id_prefix"))
    if "error" in given:
        given["error"] = given_fingerprint(given["error"])
    if "meta" in given:
        given["meta"] = meta_paths(given["meta"])
    return Filter(tenant_id=tenant_id, **given)
