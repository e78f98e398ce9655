"""Quotas: refuses a call that would make a tenant store more than an operator allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headway.model import refusals
from headway.model.job import NewJob
from headway.model.limit import Quotas
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("jobs/quotas")


def quotas_of(tenant_ids: Iterable[str]) -> Steps[dict[str, Quotas]]:
    """The quotas of those of these tenants that have any limit."""
    rows = yield Statement(_SQL["of"], (json_list(sorted(set(tenant_ids))),))
    return {row[0]: Quotas(*row) for row in rows}


def refuse_suspended(tenant_ids: Iterable[str]) -> Steps[None]:
    """Raises `TenantSuspended`."""
    for quota in (yield from quotas_of(tenant_ids)).values():
        if quota.suspended:
            raise refusals.tenant_suspended(quota.slug)


def check_jobs(
    new: Sequence[NewJob], quotas: Mapping[str, Quotas], parents: Mapping[str, str], replaced: Sequence[NewJob] = ()
) -> Steps[None]:
    """Check these after their insert. Jobs that met existing ones are not among them, so that a call can be repeated;
    those that replaced one count for their payloads.

    Raises `QueueFull`."""
    for tenant_id, quota in sorted(quotas.items()):
        mine = [job for job in new if job.tenant_id == tenant_id]
        given = [*mine, *(job for job in replaced if job.tenant_id == tenant_id)]
        if not given:
            continue
        if quota.max_pending is not None and mine:
            ((waiting,),) = yield Statement(_SQL["pending"], (tenant_id, quota.max_pending + len(mine)))
            if waiting > quota.max_pending:
                raise quota.exceeded("max_pending", waiting, len(mine))
        yield from _check_bytes(quota, tenant_id, sum(len(job.payload.encode()) for job in given))
        if quota.max_group is not None:
            groups = sorted({job.group_id for job in mine if job.group_id is not None})
            found = yield Statement(_SQL["full_group"], (json_list(groups), quota.max_group))
            if found:
                raise refusals.group_too_large(found[0][0], quota.slug, quota.max_group)
        if quota.max_fan_out is not None:
            yield from _check_fan_out(mine, quota, quota.max_fan_out, parents)


def check_spilled_bytes(new: Mapping[str, int]) -> Steps[None]:
    """The same for payloads that artifacts have, once these are kept; `new` has their bytes by tenant. Raises
    `QueueFull`."""
    for tenant_id, quota in sorted((yield from quotas_of(new)).items()):
        yield from _check_bytes(quota, tenant_id, new[tenant_id])


def _check_bytes(quota: Quotas, tenant_id: str, new: int) -> Steps[None]:
    if quota.max_bytes is not None:
        ((waiting,),) = yield Statement(_SQL["bytes"], (tenant_id,))
        if waiting > quota.max_bytes:
            raise quota.exceeded("max_bytes", waiting, new)


def _check_fan_out(jobs: Sequence[NewJob], quota: Quotas, most: int, parents: Mapping[str, str]) -> Steps[None]:
    children = Counter(parents[job.id] for job in jobs if job.id in parents)
    followed = sorted({parent for job in jobs for parent in job.after})
    found = yield Statement(_SQL["fanned_out"], (json_list(followed), most))
    over = sorted([*(parent for parent, many in children.items() if many > most), *(row[0] for row in found)])
    if over:
        raise refusals.too_many_followers(over[0], quota.slug, most)


def check_event_quotas(new: Sequence[str]) -> Steps[None]:
    """The same for events that were put in; `new` has the tenant of each. Raises `QueueFull`."""
    many = Counter(new)
    for tenant_id, quota in sorted((yield from quotas_of(new)).items()):
        if quota.suspended:
            raise refusals.tenant_suspended(quota.slug)
        if quota.max_events is not None:
            ((pending,),) = yield Statement(_SQL["events"], (tenant_id, quota.max_events + many[tenant_id]))
            if pending > quota.max_events:
                raise quota.exceeded("max_events", pending, many[tenant_id])


def check_schedules(tenant_id: str) -> Steps[None]:
    """Check before a schedule or trigger is inserted. Raises `QueueFull`."""
    quota = (yield from quotas_of([tenant_id])).get(tenant_id)
    if quota is not None and quota.suspended:
        raise refusals.tenant_suspended(quota.slug)
    if quota is not None and quota.max_schedules is not None:
        ((found,),) = yield Statement(_SQL["schedules"], (tenant_id,))
        if found >= quota.max_schedules:
            raise quota.exceeded("max_schedules", found + 1, 1)
