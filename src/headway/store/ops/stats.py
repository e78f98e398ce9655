"""Numbers of what happened."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headway.model.error_groups import ErrorFilter, ErrorGroup
from headway.model.stats import Depth, Level, Numbers, Span, StatRow
from headway.model.vitals import Condition, Vitals
from headway.store.ops.recipe import Op


class Stats(Protocol):
    def fold_stats(self, *, limit: int, depths: Sequence[Depth] | None = None) -> Op[int]:
        """Add up to `limit` deltas to the numbers of their minutes, hours and days, and delete them, in one
        transaction. With `depths`, also that sample, unless somebody has stored one of this minute. Gives how many
        deltas: call it while there are as many as the limit. None while another session folds."""
        ...

    def depths(self) -> Op[list[Depth] | None]:
        """What is queued now, by tenant, queue and kind: of each queue no more than the first 100,000, and as many of
        all that limits have set aside. None if this minute has its sample."""
        ...

    def prune_stats(self, span: Span, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` rows of that span that began longer ago; gives how many."""
        ...

    def stats(
        self,
        span: Span,
        *,
        since: datetime,
        until: datetime,
        tenant_id: str | None,
        queue: Sequence[str] | None = None,
        kind: Sequence[str] | None = None,
        level: Level = "kinds",
        died: bool = False,
    ) -> Op[list[StatRow]]:
        """The numbers of the spans that began from `since` on and before `until`, in order of time, with deltas that
        are not added to them yet. One row for each span, tenant, queue and kind to whose jobs something happened;
        or the sums of that level, which are one row each. Of a tenant there are "kinds" and "tenants"; only "kinds" can
        be asked for kinds, and only "kinds" and "queues" for queues. With `died`, one row for each tenant, queue and
        kind of which jobs died, at the first of these times, with their number alone."""
        ...

    def stats_side_by_side(
        self, *, since: datetime, until: datetime, sampled_after: datetime
    ) -> Op[dict[str, Numbers]]:
        """The numbers of the minutes that began from `since` on and before `until`, together, of each tenant to whose
        jobs something happened then. What was queued is that of the last sample after that time."""
        ...

    def fold_errors(self, *, limit: int) -> Op[int]:
        """Add up to `limit` executions that ended badly to the groups of their fingerprints, and note which was the
        last of each job, in one transaction. Gives how many: call it while there are as many as the limit. None while
        another session does that."""
        ...

    def errors(self, where: ErrorFilter) -> Op[list[ErrorGroup]]:
        """What is stored of the groups that match, one for each tenant, fingerprint and queue, and those not added to
        them yet: of the stored ones no more than the 10,000 seen last. With samples if a fingerprint is given. Reads no
        jobs and no attempts."""
        ...

    def error_of(self, job_id: str, *, tenant_id: str | None) -> Op[str | None]:
        """The fingerprint of a job's last bad end; None if it had none."""
        ...

    def prune_errors(self, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` groups that were seen last longer ago; gives how many."""
        ...

    def vitals(self) -> Op[Vitals]:
        """How the database and its fleet are right now: what is queued and late, for metrics. Costs no more than to
        count 100,000 jobs of each status."""
        ...

    def condition(self) -> Op[Condition]:
        """Whether the database itself is in trouble; reads no jobs."""
        ...
