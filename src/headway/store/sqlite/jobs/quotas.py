"""Quotas: refuses a call that would let a tenant store more than an operator allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.errors import QueueFull
from headway.model.job import NewJob
from headway.model.limit import fan_out_refusal, group_refusal, quota_refusal
from headway.store.ops import Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("jobs/quotas")


class Quotas(msgspec.Struct, frozen=True):
    """What one tenant may store; None is no bound."""

    tenant_id: str
    slug: str
    max_pending: int | None
    max_bytes: int | None
    max_events: int | None
    max_schedules: int | None
    max_group: int | None
    max_fan_out: int | None

    @property
    def of_jobs(self) -> bool:
        return any(most is not None for most in (self.max_pending, self.max_bytes, self.max_group, self.max_fan_out))


def quotas_of(tenant_ids: Iterable[str]) -> Steps[dict[str, Quotas]]:
    """The quotas of those of these tenants that have any limit."""
    rows = yield Statement(_SQL["of"], (json_list(sorted(set(tenant_ids))),))
    return {row[0]: Quotas(*row) for row in rows}


def check_jobs(
    jobs: Sequence[NewJob], rows: Sequence[Row], quotas: Mapping[str, Quotas], new: int, parents: Mapping[str, str]
) -> Steps[None]:
    """Look after the insert: what met an existing job does not count. Raises `QueueFull`."""
    for tenant_id, quota in sorted(quotas.items()):
        mine = [job for job, row in zip(jobs, rows, strict=True) if row[1] == tenant_id]
        if quota.max_pending is not None:
            ((waiting,),) = yield Statement(_SQL["pending"], (tenant_id, quota.max_pending + len(mine)))
            if waiting > quota.max_pending:
                more = min(len(mine), new)
                raise _full("max_pending", quota, has=waiting - more, more=more, most=quota.max_pending)
        if quota.max_bytes is not None:
            ((waiting,),) = yield Statement(_SQL["bytes"], (tenant_id,))
            if waiting > quota.max_bytes:
                more = sum(len(job.payload.encode()) for job in mine)
                raise _full("max_bytes", quota, has=waiting - more, more=more, most=quota.max_bytes)
        if quota.max_group is not None:
            groups = sorted({job.group_id for job in mine if job.group_id is not None})
            found = yield Statement(_SQL["full_group"], (json_list(groups), quota.max_group))
            if found:
                raise QueueFull(group_refusal(found[0][0], quota.slug, quota.max_group))
        if quota.max_fan_out is not None:
            yield from _check_fan_out(mine, quota, quota.max_fan_out, parents)


def _check_fan_out(jobs: Sequence[NewJob], quota: Quotas, most: int, parents: Mapping[str, str]) -> Steps[None]:
    children = Counter(parents[job.id] for job in jobs if job.id in parents)
    followed = sorted({parent for job in jobs for parent in job.after})
    found = yield Statement(_SQL["fanned_out"], (json_list(followed), most))
    over = sorted([*(parent for parent, many in children.items() if many > most), *(row[0] for row in found)])
    if over:
        raise QueueFull(fan_out_refusal(over[0], quota.slug, most))


def check_events(tenant_ids: Sequence[str], new: int) -> Steps[None]:
    """The same for events that were put in. Raises `QueueFull`."""
    for tenant_id, quota in sorted((yield from quotas_of(tenant_ids)).items()):
        if quota.max_events is not None:
            ((pending,),) = yield Statement(_SQL["events"], (tenant_id, quota.max_events + new))
            if pending > quota.max_events:
                raise _full("max_events", quota, has=pending - new, more=new, most=quota.max_events)


def check_schedules(tenant_id: str) -> Steps[None]:
    """Before one more schedule or trigger is put in. Raises `QueueFull`."""
    quota = (yield from quotas_of([tenant_id])).get(tenant_id)
    if quota is not None and quota.max_schedules is not None:
        ((found,),) = yield Statement(_SQL["schedules"], (tenant_id,))
        if found >= quota.max_schedules:
            raise _full("max_schedules", quota, has=found, more=1, most=quota.max_schedules)


def _full(name: str, quota: Quotas, *, has: int, more: int, most: int) -> QueueFull:
    return QueueFull(quota_refusal(name, quota.slug, has=has, more=more, most=most))
