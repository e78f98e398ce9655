"""The verbs of limits: how many jobs of a queue, kind or tenant may run, start or wait; and fairness."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack
from uuid import UUID

import msgspec

from headway.app.base import VerbBase
from headway.define import checks
from headway.define.option_types import LimitOptions
from headway.errors import ChangedMeanwhile, InvalidJob
from headway.model.ids import tenant_ref
from headway.model.limit import (
    EVERY_TENANT,
    QUOTAS,
    Limit,
    LimitInUse,
    Scope,
    concurrency_key,
    queue_key,
    rate_key,
    tenant_key,
)
from headway.store.ops import Op, Steps

_MOST = 2_147_483_647
_MOST_BYTES = 2**60


class LimitVerbs(VerbBase):
    """Operators set limits at run time. They override what jobs carry, for all workers, from the next claim on."""

    def limit(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **limits: Unpack[LimitOptions],
    ) -> Limit:
        """Set limits of one queue, kind or tenant ("*": every tenant without its own); returns those now in force.

        `max_running` at once; `rate="100/min"` starts of a kind, with a `burst` at once. Quotas of a tenant:
        `max_pending` jobs that wait, with `max_bytes` of payload, `max_events` to be handled, `max_schedules` and
        triggers, `max_group` members of a group, `max_fan_out` children and followers of a job. None removes one; what
        is not given stays. Raises `InvalidJob`.
        """
        limit = self._run(self._limit(queue, kind, tenant, limits, actor, if_match), conn)
        self._wake_up(queue, conn)
        return limit

    def limits(self) -> list[Limit]:
        """The limits that were set, by scope and name."""
        return self._run(self._for_all_tenants("look at limits", self._store.ops.limits()))

    def limits_in_use(self) -> list[LimitInUse]:
        """The same, each with how many jobs run under it and how many it holds back."""
        return self._run(self._for_all_tenants("look at limits", self._limits_in_use()))

    def fair(self, queue: str, fair: bool = True, *, actor: str | None = None, conn: Any = None) -> None:
        """Serve a queue's tenants in turn, whatever their backlogs, as by default; False: first come, first served."""
        self._run(self._fair(queue, fair, actor), conn)

    # as ops

    def _limits_in_use(self) -> Op[list[LimitInUse]]:
        ops = self._store.ops

        def steps() -> Steps[list[LimitInUse]]:
            limits = yield from ops.limits().steps()
            ids = [each.name for each in limits if each.scope == "tenant" and each.name != EVERY_TENANT]
            names = yield from ops.tenants(ids).steps()
            keys = [key for each in limits for key in _keys(each)]
            used = {each.key: each for each in (yield from ops.usages(keys).steps())}
            found = []
            for each in limits:
                usages = [used[key] for key in _keys(each)]
                running = usages[0].running if usages else None
                limited = sum(usage.waiting for usage in usages) if usages and each.scope != "queue" else None
                tenant = names.get(each.name) if each.scope == "tenant" else None
                found.append(LimitInUse(each, tenant, running, limited))
            return found

        return Op(steps, writes=False)

    def _limit(
        self,
        queue: str | None,
        kind: str | None,
        tenant: str | UUID | None,
        limits: LimitOptions,
        actor: str | None,
        etags: Collection[str] | None = None,
    ) -> Op[Limit]:
        scope, name = self._limited(queue, kind, tenant)
        changes = _changes(scope, limits)
        ops = self._store.ops

        def steps() -> Steps[Limit]:
            # before it is read: of two callers that set different limits, neither takes back the other's
            yield from ops.lock_row("setting", f"{scope} {name}", tenant_id=None).steps()
            known = yield from ops.limits().steps()
            limit = next((each for each in known if (each.scope, each.name) == (scope, name)), None)
            limit = limit or Limit(scope=scope, name=name)
            if etags is not None and limit.etag not in etags:
                raise ChangedMeanwhile(f"the limit of {scope} {name} has changed meanwhile: look at it again")
            limit = msgspec.structs.replace(limit, **changes)
            if limit.rate_burst is not None and limit.rate_count is None:
                raise InvalidJob(f"burst={limit.rate_burst} means nothing without rate: give rate='100/min' too")
            yield from ops.set_limit(limit, actor=actor).steps()
            return limit

        return self._for_all_tenants("set limits", Op(steps, writes=True, refusable=True, atomic=True))

    def _limited(self, queue: str | None, kind: str | None, tenant: str | UUID | None) -> tuple[Scope, str]:
        """What is limited: a queue, a kind, or a tenant, by its id."""
        match queue, kind, tenant:
            case str(), None, None:
                return "queue", checks.name(queue, "queue")
            case None, str(), None:
                return "kind", checks.name(kind, "kind")
            case None, None, "*":
                return "tenant", EVERY_TENANT
            case None, None, str() | UUID() if not self._is_for_one_tenant:
                return "tenant", self._id_for(tenant_ref(tenant))
            case None, None, str() | UUID():
                return "tenant", self._own_tenant
        raise InvalidJob("whose limit? Give the name of one queue=, kind= or tenant= (tenant='*' is every tenant)")

    def _fair(self, queue: str, fair: bool, actor: str | None) -> Op[None]:
        if not isinstance(fair, bool):
            raise InvalidJob(f"fair={fair!r} is neither True nor False")
        op = self._store.ops.set_fair(checks.name(queue, "queue"), fair, actor=actor)
        return self._for_all_tenants("make a queue fair", op)


def _keys(limit: Limit) -> tuple[str, ...]:
    """What tells how full a limit is; nothing does where it is of every tenant."""
    match limit.scope:
        case "queue":
            return (queue_key(limit.name),)
        case "kind":
            return concurrency_key("", limit.name, None), rate_key("", limit.name, None)
        case "tenant":
            return () if limit.name == EVERY_TENANT else (tenant_key(limit.name),)


def _changes(scope: Scope, given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        raise InvalidJob(
            f"which limit? Give max_running=, rate= and burst= (of a kind), or {', '.join(QUOTAS)} (of a tenant)"
        )
    changes: dict[str, Any] = {}
    for option, value in given.items():
        match option:
            case "rate" | "burst" if scope != "kind":
                raise InvalidJob(f"{option} is a limit of kinds, not of a {scope}: give kind=, or max_running=")
            case _ if option in QUOTAS and scope != "tenant":
                raise InvalidJob(f"{option} is a limit of tenants, not of a {scope}: give tenant=, or max_running=")
            case "rate":
                changes |= checks.rate(value, option)
                if value is None:
                    changes = {"rate_burst": None} | changes
            case "burst":
                changes |= checks.burst(value, option)
            case _ if option not in LimitOptions.__annotations__:
                raise InvalidJob(checks.unknown_option(option, list(LimitOptions.__annotations__), "limit()"))
            case _:
                most = _MOST_BYTES if option == "max_bytes" else _MOST
                changes[option] = None if value is None else checks.integer(value, option, 0, most)
    return changes
