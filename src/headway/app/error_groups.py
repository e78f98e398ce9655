"""The verbs that tell which errors there were, those of one kind together."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from headway.app.base import VerbBase, page_size, then
from headway.clock import from_micros
from headway.errors import InvalidJob, NotFound
from headway.model.duration import Duration, to_ms
from headway.model.error_groups import (
    ERROR_ORDERS,
    ERROR_STATUSES,
    ErrorFilter,
    ErrorGroup,
    ErrorOrder,
    ErrorStatus,
    given_fingerprint,
    listed,
)
from headway.model.ids import as_id
from headway.store.ops import Op, Steps


class ErrorVerbs(VerbBase):
    """Executions that failed, timed out or were lost, grouped by fingerprint: the kind, the type of the exception and
    its place in the code, not the numbers in its message."""

    def errors(
        self,
        *,
        since: datetime | Duration | None = None,
        kind: str | Collection[str] | None = None,
        queue: str | Collection[str] | None = None,
        status: ErrorStatus | Collection[ErrorStatus] | None = None,
        tenant: str | UUID | None = None,
        job: str | UUID | None = None,
        order: ErrorOrder = "last_seen",
        limit: int = 50,
        offset: int = 0,
    ) -> list[ErrorGroup]:
        """The groups of errors, the one seen last first, or by `order="count"` the most frequent first.

        `since` is a time or an age ("6h"): groups that were seen since then, with all their count. `status` is how the
        executions ended: failed, timeout or lost. `job`: the group of this job's last bad end. Over several tenants, a
        group is the sum of theirs. The jobs of a group: `app.jobs(error=group.fingerprint)`. Reads no jobs, however
        many failed. Raises `InvalidJob`.
        """
        return self._run(self._errors(since, kind, queue, status, tenant, job, order, limit, offset))

    def error(
        self,
        fingerprint: str,
        *,
        kind: str | Collection[str] | None = None,
        queue: str | Collection[str] | None = None,
        tenant: str | UUID | None = None,
    ) -> ErrorGroup:
        """One group of errors, with the last one's whole text as `sample`; raises `NotFound`, `InvalidJob`."""
        return self._run(self._error(fingerprint, kind, queue, tenant))

    # as ops

    def _errors(
        self,
        since: datetime | Duration | None,
        kind: str | Collection[str] | None,
        queue: str | Collection[str] | None,
        status: ErrorStatus | Collection[ErrorStatus] | None,
        tenant: str | UUID | None,
        job: str | UUID | None,
        order: ErrorOrder,
        limit: int,
        offset: int,
    ) -> Op[list[ErrorGroup]]:
        if order not in ERROR_ORDERS:
            raise InvalidJob(f"order={order!r} is unknown: use {', '.join(ERROR_ORDERS)}")
        if offset < 0:
            raise InvalidJob(f"offset={offset!r} must not be negative")
        statuses: Any = _several(status)
        unknown = [each for each in statuses or () if each not in ERROR_STATUSES]
        if unknown:
            raise InvalidJob(f"status={unknown[0]!r} is not how an error ends: use {', '.join(ERROR_STATUSES)}")
        where = ErrorFilter(
            tenant_id=self._tenant_to_read(tenant),
            kind=_several(kind),
            queue=_several(queue),
            status=statuses,
            since=self._since(since),
        )
        count, job_id = page_size(limit), None if job is None else as_id(job)
        ops = self._store.ops

        def steps() -> Steps[list[ErrorGroup]]:
            wanted = where
            if job_id is not None:
                fingerprint = yield from ops.error_of(job_id, tenant_id=where.tenant_id).steps()
                if fingerprint is None:
                    return []
                wanted = msgspec.structs.replace(where, fingerprint=fingerprint)
            return listed((yield from ops.errors(wanted).steps()), wanted, order, limit=count, offset=offset)

        return Op(steps, writes=False)

    def _error(
        self,
        fingerprint: str,
        kind: str | Collection[str] | None,
        queue: str | Collection[str] | None,
        tenant: str | UUID | None,
    ) -> Op[ErrorGroup]:
        where = ErrorFilter(
            tenant_id=self._tenant_to_read(tenant),
            fingerprint=given_fingerprint(fingerprint),
            kind=_several(kind),
            queue=_several(queue),
        )

        def one(found: list[ErrorGroup]) -> ErrorGroup:
            for group in listed(found, where, "last_seen", limit=1, offset=0):
                return group
            raise NotFound(f"there is no error {fingerprint} (any more): headway errors lists them")

        return then(self._store.ops.errors(where), one)

    def _since(self, since: datetime | Duration | None) -> datetime | None:
        if since is None:
            return None
        if not isinstance(since, datetime):
            return from_micros(self.clock.now()) - timedelta(milliseconds=to_ms(since, "since"))
        if since.tzinfo is None:
            raise InvalidJob(f"since={since!r} has no time zone")
        return since


def _several(names: str | Collection[str] | None) -> tuple[str, ...] | None:
    return None if names is None else (names,) if isinstance(names, str) else tuple(names)
