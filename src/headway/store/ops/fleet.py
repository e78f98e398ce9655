"""Workers, queues and tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headway.model.fleet import HeartbeatReply, NewWorker, Queue, Tenant, Worker
from headway.model.heartbeat_claims import ClaimsReply
from headway.model.served import ServedChange
from headway.store.ops.recipe import Op


class Fleet(Protocol):
    def register(self, worker: NewWorker) -> Op[HeartbeatReply]:
        """Add the worker with a fresh lease."""
        ...

    def heartbeat(
        self, worker_id: str, *, running: int, busy: Sequence[str], serves: tuple[Mapping[str, int], int] | None = None
    ) -> Op[HeartbeatReply]:
        """Renew the worker's lease, if it still has one (else `alive` is False and nothing is written). `busy` names
        its queues that have no free slot; `serves` are its queues and its concurrency, if they have changed."""
        ...

    def heartbeat_claims(
        self, worker_id: str, claims: Sequence[tuple[str, int]], *, complete: bool, tenant_id: str | None = None
    ) -> Op[ClaimsReply | None]:
        """Renew the lease of a worker that names the claims it still has: `complete`, all of them; else only if it runs
        nothing beside these. `lost` are those that it does not run (any more); `forgotten`, of a complete list, those
        that it claimed before its last heartbeat and does not name. With `tenant_id`, jobs of other tenants are not its
        own. None if it is not registered (any more)."""
        ...

    def worker(self, worker_id: str) -> Op[Worker | None]:
        """The registered worker of this id."""
        ...

    def set_worker(self, worker_id: str, wanted: ServedChange, *, actor: str | None) -> Op[None]:
        """Set what a live worker serves instead of what it was started with: it takes that at its next heartbeat, and
        it is gone with the worker. Changes what was set before field by field. Raises `NotFound`. Audited."""
        ...

    def retire(self, worker_id: str) -> Op[None]:
        """Note that a worker stops while it still has running jobs: when they are reaped, no loss is charged."""
        ...

    def unregister(self, worker_id: str) -> Op[None]:
        """Remove a worker that stops in good order; jobs that it still has are reaped as lost."""
        ...

    def workers(self) -> Op[list[Worker]]:
        """The registered workers."""
        ...

    def queue_names(self) -> Op[list[str]]:
        """The queues that there are, for patterns to match: those with jobs to claim, of kinds that have a definition,
        with a setting, or with a live worker. A probe for each, however many jobs there are."""
        ...

    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        """Pause the queue: once this returned, no claim from it commits. Audited."""
        ...

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        """Resume a paused queue. Audited."""
        ...

    def set_retention(self, queue: str, retention: Mapping[str, int] | None, *, actor: str | None) -> Op[None]:
        """How long finished jobs of the queue are kept: milliseconds by status, `model/retention.py`. None: as long as
        the default says. Audited."""
        ...

    def queues(
        self, *, tenant_id: str | None, most: int | None = None, names: Sequence[str] | None = None
    ) -> Op[list[Queue]]:
        """Every queue, or every one of these names, that has unfinished jobs (of this tenant), a worker or a setting. A
        tenant does not learn who paused or reserved it. With `most`, queued jobs are counted up to that many in each
        queue (of one tenant: in all), and jobs of the other statuses up to that many in all queues together, `limited`
        up to 1,000 at least: then it costs no more however many there are."""
        ...

    def tenants(self, ids: Sequence[str]) -> Op[dict[str, str]]:
        """The names of these tenants, as far as they are known."""
        ...

    def tenants_named(self, names: Sequence[str], *, create: bool) -> Op[dict[str, str]]:
        """The ids of the tenants of these names, as far as they exist; an id counts as a name, too. With `create`, new
        names become tenants under random ids (an id becomes a tenant without a name), unless the login may act for one
        tenant only. Raises `InvalidJob` for a name that is not valid, or that a tenant had before."""
        ...

    def refuse_suspended(self, tenant_id: str) -> Op[None]:
        """Raises `TenantSuspended` if the tenant is."""
        ...

    def list_tenants(self, *, limit: int, after: str | None = None, only: str | None = None) -> Op[list[Tenant]]:
        """Tenants in order of their names (of their ids, if they have none), from behind `after`; or the one with the
        id `only`."""
        ...

    def create_tenant(self, tenant_id: str, slug: str, *, actor: str | None) -> Op[None]:
        """Add a tenant. A repeat changes nothing. Raises `Duplicate` where another tenant has or had the name.
        Audited."""
        ...

    def rename_tenant(self, tenant_id: str, slug: str, *, actor: str | None) -> Op[None]:
        """Give a tenant another name; nobody can have the old one again. Raises `NotFound`, `Duplicate` (another
        tenant has or had the name), `NotAllowed` (the default tenant). Audited."""
        ...

    def set_tenant_zone(self, tenant_id: str, tz: str | None, *, actor: str | None) -> Op[None]:
        """Set the zone that a tenant's new schedules start with; None: the app's. Raises `NotFound`. Audited."""
        ...

    def suspend_tenant(self, tenant_id: str, *, actor: str | None) -> Op[None]:
        """Suspend a tenant: once this returned, no claim takes a job of it, its schedules and events wait, and enqueue,
        emit, new triggers and its limits raise `TenantSuspended`. Running jobs go on; their children and retries are
        stored, and wait. Raises `NotFound`. Audited."""
        ...

    def resume_tenant(self, tenant_id: str, *, actor: str | None) -> Op[None]:
        """Resume a suspended tenant, with the limits that it had. Many jobs come back in pieces: claims go on with the
        rest. Raises `NotFound`. Audited."""
        ...

    def tenant_rows(self, tenant_id: str) -> Op[dict[str, int]]:
        """How many rows of each table the tenant has: what `delete_tenant` will delete."""
        ...

    def delete_tenant(self, tenant_id: str, *, limit: int, actor: str | None) -> Op[bool]:
        """Delete up to `limit` jobs of a tenant and up to as many rows of each other table, and with the last of them
        the tenant; gives whether all of it is gone: call it until then. Suspends the tenant first. Its id and name are
        never used again. Raises `NotFound`, and `NotAllowed` for the default tenant and while jobs of it run.
        Audited."""
        ...
