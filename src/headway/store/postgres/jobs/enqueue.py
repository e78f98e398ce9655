"""Enqueue: one job as named parameters, a batch as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import Any, cast

import msgspec

from headway.model.group import NewGroup
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Enqueued, NewJob, is_plain
from headway.model.machine import Checkpoint
from headway.model.status import UNFINISHED, Status
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.arrays import column
from headway.store.postgres.order.groups import new_group

# the fields of a job: field, parameter and type in headway.enqueue and in headway.enqueue_many, and the default, which
# is not sent
_COLUMNS: tuple[tuple[str, str, str, str, str, Any], ...] = (
    ("tenant_id", "tenant", "uuid", "p_tenants", "uuid[]", DEFAULT_TENANT_ID),
    ("tenant", "slug", "text", "p_slugs", "text[]", "default"),
    ("kind", "kind", "text", "p_kinds", "text[]", None),
    ("queue", "queue", "text", "p_queues", "text[]", "default"),
    ("payload", "payload", "json", "p_payloads", "json[]", "{}"),
    ("priority", "priority", "integer", "p_priorities", "smallint[]", 100),
    ("delay_ms", "delay", "interval", "p_delays_ms", "bigint[]", None),
    ("scheduled_for", "scheduled_for", "timestamptz", "p_scheduled_for", "timestamptz[]", None),
    ("expires_at", "expires_at", "timestamptz", "p_expires_at", "timestamptz[]", None),
    ("max_attempts", "max_attempts", "integer", "p_max_attempts", "integer[]", 5),
    ("max_losses", "max_losses", "integer", "p_max_losses", "integer[]", 5),
    ("backoff_base_ms", "backoff_base", "interval", "p_backoff_base_ms", "bigint[]", 1_000),
    ("backoff_cap_ms", "backoff_cap", "interval", "p_backoff_cap_ms", "bigint[]", 3_600_000),
    ("timeout_ms", "timeout", "interval", "p_timeouts_ms", "bigint[]", None),
    ("delivery", "delivery", "text", "p_deliveries", "text[]", "at_least_once"),
    ("idempotency_key", "idempotency_key", "text", "p_idempotency_keys", "text[]", None),
    ("unique_key", "unique_key", "text", "p_unique_keys", "text[]", None),
    ("unique_scope", "unique_scope", "text[]", "p_unique_scopes", "text[]", UNFINISHED),
    ("unique_group", "unique_group", "text", "p_unique_groups", "text[]", None),
    ("unique_for_ms", "unique_for", "interval", "p_unique_for_ms", "bigint[]", None),
    ("on_conflict", "on_conflict", "text", "p_on_conflicts", "text[]", "return"),
    ("replace", "replace", "text[]", "p_replaces", "text[]", ()),
    ("debounce_max_ms", "debounce_max", "interval", "p_debounce_max_ms", "bigint[]", None),
    ("correlation_id", "correlation_id", "text", "p_correlation_ids", "text[]", None),
    ("trace_id", "trace_id", "text", "p_trace_ids", "text[]", None),
    ("source", "source", "text", "p_sources", "text[]", "manual"),
    ("source_ref", "source_ref", "text", "p_source_refs", "text[]", None),
    ("created_by", "created_by", "text", "p_created_by", "text[]", None),
    ("meta", "meta", "json", "p_metas", "json[]", None),
    ("train", "train", "text", "p_trains", "text[]", None),
    ("on_canceled", "on_canceled", "text", "p_on_canceled", "text[]", "advance"),
    ("on_dead", "on_dead", "text", "p_on_dead", "text[]", "advance"),
    ("partition", "partition", "text", "p_partitions", "text[]", None),
    ("concurrency", "concurrency", "integer", "p_concurrency", "integer[]", None),
    ("concurrency_key", "concurrency_key", "text", "p_concurrency_keys", "text[]", None),
    ("rate_count", "rate_count", "integer", "p_rate_counts", "integer[]", None),
    ("rate_period_ms", "rate_period", "interval", "p_rate_periods_ms", "bigint[]", None),
    ("rate_burst", "rate_burst", "integer", "p_rate_bursts", "integer[]", None),
    ("rate_key", "rate_key", "text", "p_rate_keys", "text[]", None),
    ("group_id", '"group"', "uuid", "p_groups", "uuid[]", None),
    ("after", "after", "uuid[]", "p_afters", "text[]", ()),
    ("on_failure", "on_failure", "text", "p_on_failures", "text[]", "stop"),
)
_FIELDS = attrgetter(*(column[0] for column in _COLUMNS))
_DEFAULTS = tuple(column[5] for column in _COLUMNS)
# a machine's checkpoint; its state is separate, for jsonb would not keep its text, and so are the tags of a single job
_PLACE, _STATE, _TAGS = range(len(_COLUMNS), len(_COLUMNS) + 3)
_SENT = (
    *(column[1:5] for column in _COLUMNS),
    ("checkpoint", "jsonb", "p_checkpoints", "jsonb[]"),
    ("state", "json", "p_states", "json[]"),
    ("tags", "text[]", "", ""),
)
# what a job was made from is sent with the checkpoint, because few jobs have it
_MADE_OF_FIELDS = ("template_id", "template_revision", "trigger_id")
_MADE_OF = attrgetter(*_MADE_OF_FIELDS)
_NOTHING = (None, None, None)
# the fields in which plain jobs differ
_PLAIN = attrgetter(
    "id",
    "kind",
    "queue",
    "payload",
    "priority",
    "max_attempts",
    "max_losses",
    "backoff_base_ms",
    "backoff_cap_ms",
    "timeout_ms",
)
_MAX_LOSSES = 10  # its index in _COLUMNS: its default is the job's max_attempts


class EnqueueVerbs:
    def enqueue(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> Op[list[Enqueued]]:
        sent = False

        def steps(alone: bool = False) -> Steps[list[Enqueued]]:
            nonlocal sent
            again, sent = sent, True
            if group is not None:
                yield new_group(group)
            given = yield from enqueue(jobs, alone=alone)
            if not again:
                return given
            # the store runs this again because the answer was lost: jobs found by their own id were made by this call
            return [
                Enqueued(each.id, each.status, each.id == job.id, each.replaced)
                for each, job in zip(given, jobs, strict=True)
            ]

        return Op(
            steps,
            writes=True,
            refusable=any(job.on_conflict == "raise" or job.after or job.group_id for job in jobs),
            atomic=group is not None,
            alone=lambda: steps(alone=True),
        )


def enqueue(jobs: Sequence[NewJob], *, alone: bool = False) -> Steps[list[Enqueued]]:
    """Enqueue the jobs, in call order; `alone`: in a transaction of its own."""
    if len(jobs) == 1 and not jobs[0].replaces and jobs[0].unique_for_ms is None:
        return [(yield from _enqueue_single(jobs[0], alone))]
    outcome = [Enqueued(job.id, "queued", True) for job in jobs]
    if jobs:
        for ordinal, job_id, *rest in (yield enqueue_all(jobs, alone)):
            outcome[ordinal - 1] = Enqueued(str(job_id), *rest)
    return outcome


def _enqueue_single(job: NewJob, alone: bool) -> Steps[Enqueued]:
    if is_plain(job):
        ((answer,),) = yield Statement(_ENQUEUE_PLAIN, list(_PLAIN(job)))
        return _plainly(job, answer)
    ((job_id, *rest),) = yield enqueue_one(job, alone)
    return Enqueued(str(job_id), *rest)


def _plainly(job: NewJob, answer: str | None) -> Enqueued:
    """The answer of enqueue_plain: None if the job is new and queued, else id, status and created."""
    if answer is None:
        return Enqueued(job.id, "queued", True)
    job_id, status, created = answer.split()
    return Enqueued(job_id, cast(Status, status), created == "true")


def enqueue_one(job: NewJob, alone: bool) -> Statement:
    """The enqueue of a single job; `alone`: in a transaction of its own."""
    used: list[int] = []
    params: list[Any] = [job.id]
    for n, (value, unset) in enumerate(zip(_FIELDS(job), _DEFAULTS, strict=True)):
        if value != (job.max_attempts if n == _MAX_LOSSES else unset):
            used.append(n)
            params.append(_scalar(n, value))
    if job.checkpoint is not None:
        used += [_PLACE, _STATE]
        params += [_checkpoint(job), _state(job)]
    elif _MADE_OF(job) != _NOTHING:
        used.append(_PLACE)
        params.append(_checkpoint(job))
    if job.tags:
        used.append(_TAGS)
        params.append(list(job.tags))
    return Statement(_one_sql(tuple(used), alone and job.train is not None), params)


def enqueue_all(jobs: Sequence[NewJob], alone: bool, parents: Sequence[str | None] | None = None) -> Statement:
    """The enqueue of a batch; `parents`: the machines that spawned them."""
    used: list[int] = []
    params: list[Any] = [[job.id for job in jobs]]
    for n, (field, *_, unset) in enumerate(_COLUMNS):
        values = column(jobs, field, unset)
        if n == _MAX_LOSSES:
            values = [job.max_losses for job in jobs]
            values = None if values == [job.max_attempts for job in jobs] else values
        if values is not None:
            used.append(n)
            params.append(values)
    if parents is not None or any(job.checkpoint is not None or _MADE_OF(job) != _NOTHING or job.tags for job in jobs):
        used.append(_PLACE)
        params.append(
            [_checkpoint(job, parent, job.tags) for job, parent in zip(jobs, parents or repeat(None), strict=False)]
        )
    if any(states := [_state(job) for job in jobs]):
        used.append(_STATE)
        params.append(states)
    return Statement(_all_sql(tuple(used), alone), params)


# only values that are not defaults are sent: a shorter statement is parsed faster


@lru_cache(1_000)
def _one_sql(used: tuple[int, ...], alone: bool) -> str:
    named = [f"{_SENT[n][0]} => ${number}::{_SENT[n][1]}" for number, n in enumerate(used, start=2)]
    named += ["alone => true"] * alone
    return _ENQUEUE_ONE.format(", ".join(["id => $1::uuid", *named, "checked => true"]))


@lru_cache(1_000)
def _all_sql(used: tuple[int, ...], alone: bool) -> str:
    named = [f"{_SENT[n][2]} => ${number}::{_SENT[n][3]}" for number, n in enumerate(used, start=2)]
    named += ["p_alone => true"] * alone
    return _ENQUEUE_ALL.format(", ".join(["p_ids => $1::uuid[]", *named, "p_checked => true"]))


_PLAIN_TYPES = "$1::uuid, $2, $3, $4::json, $5::smallint, $6::integer, $7::integer, $8::bigint, $9::bigint, $10::bigint"
_ENQUEUE_PLAIN = f"select headway.enqueue_plain({_PLAIN_TYPES})"
_ENQUEUE_ONE = "select job_id, job_status, created, replaced from headway.enqueue({})"
_ENQUEUE_ALL = "select ordinal, id, status, created, replaced from headway.enqueue_many({})"


def _scalar(n: int, value: Any) -> Any:
    match _COLUMNS[n][2]:
        case "interval":
            return timedelta(milliseconds=value)
        case "text[]" | "uuid[]":
            return list(value)
        case _:
            return value


def _checkpoint(job: NewJob, parent: str | None = None, tags: tuple[str, ...] = ()) -> str | None:
    """Where a machine begins (without its state), what the job was made from, and tags, as JSON; None if there is none
    of these."""
    given: dict[str, Any] = {}
    if job.checkpoint is not None:
        given = {name: value for name in _AT_START if (value := getattr(job.checkpoint, name)) not in (None, ())}
    if parent is not None:
        given["parent_id"] = parent
    if tags:
        given["tags"] = tags
    given.update({name: value for name in _MADE_OF_FIELDS if (value := getattr(job, name)) is not None})
    return None if not given and job.checkpoint is None else msgspec.json.encode(given).decode()


def _state(job: NewJob) -> str | None:
    return None if job.checkpoint is None else bytes(job.checkpoint.state).decode() or None


_AT_START = tuple(name for name in Checkpoint.__struct_fields__ if name not in ("state", "signals", "partition"))
