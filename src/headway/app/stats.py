"""The verbs that tell what happened, in numbers."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import get_args

import msgspec

from headway.app.base import VerbBase, then
from headway.clock import from_micros
from headway.errors import InvalidJob
from headway.model.duration import Duration, to_ms
from headway.model.stats import SPAN_MS, SPANS, By, Level, Numbers, Span, Stat, StatRow, begin
from headway.store.ops import Op

_BY: tuple[By, ...] = get_args(By)
_USUAL = {"minute": timedelta(hours=1), "hour": timedelta(days=1), "day": timedelta(days=30)}
MOST_POINTS = 3_000


class StatVerbs(VerbBase):
    """What happened, by minute, hour or day."""

    def stats(
        self,
        every: Span = "minute",
        *,
        since: datetime | Duration | None = None,
        until: datetime | None = None,
        by: By | Collection[By] = (),
        queue: str | Collection[str] | None = None,
        kind: str | Collection[str] | None = None,
    ) -> list[Stat]:
        """What happened, in order of time: jobs enqueued, succeeded, dead and so on, how long they waited and ran.

        `since` is a time or an age ("6h"); by default the last hour by minutes, day by hours, 30 days by days. A span
        is given whole: the first one is that in which `since` is. `by="kind"`, or several of tenant, queue and kind,
        gives one each; spans in which nothing happened are left out. `queue` and `kind` may be several. Raises
        `InvalidJob`.
        """
        return self._run(self._stats(every, since, until, by, queue, kind))

    # as ops

    def _stats(
        self,
        every: Span,
        since: datetime | Duration | None,
        until: datetime | None,
        by: By | Collection[By],
        queue: str | Collection[str] | None,
        kind: str | Collection[str] | None,
        died: bool = False,
    ) -> Op[list[Stat]]:
        names = _checked_by(by)
        begin_at, end_at = self._between(every, since, until)
        op = self._store.ops.stats(
            every,
            since=begin_at,
            until=end_at,
            tenant_id=self._visible_tenant,
            queue=_names(queue),
            kind=_names(kind),
            level=_level(names, queue, kind, self._visible_tenant),
            died=died,
        )
        return then(op, lambda rows: _grouped(rows, names))

    def _between(
        self, every: Span, since: datetime | Duration | None, until: datetime | None
    ) -> tuple[datetime, datetime]:
        if every not in SPANS:
            raise InvalidJob(f"every={every!r} must be one of {', '.join(SPANS)}")
        now = from_micros(self.clock.now())
        end = now + timedelta(milliseconds=SPAN_MS[every]) if until is None else until
        if since is None:
            first = min(end, now) - _USUAL[every]
        elif isinstance(since, datetime):
            first = since
        else:
            first = now - timedelta(milliseconds=to_ms(since, "since"))
        for name, moment in (("since", first), ("until", end)):
            if moment.tzinfo is None:
                raise InvalidJob(f"{name}={moment!r} has no time zone")
        first = begin(first, every)
        if (end - first) / timedelta(milliseconds=SPAN_MS[every]) > MOST_POINTS:
            raise InvalidJob(
                f"since={first.isoformat()} is more than {MOST_POINTS:,} times a {every} ago: ask for longer spans"
            )
        return first, end


def _level(
    by: tuple[By, ...], queue: str | Collection[str] | None, kind: str | Collection[str] | None, tenant_id: str | None
) -> Level:
    """The sums that are enough for this question, or the rows of all kinds."""
    if kind is not None or "kind" in by:
        return "kinds"
    if queue is not None or "queue" in by:
        return "queues" if tenant_id is None and "tenant" not in by else "kinds"
    return "tenants" if tenant_id is not None or "tenant" in by else "total"


def _checked_by(by: By | Collection[By]) -> tuple[By, ...]:
    names = (by,) if isinstance(by, str) else tuple(by)
    unknown = [name for name in names if name not in _BY]
    if unknown:
        raise InvalidJob(f"by={by!r} must be some of {', '.join(_BY)}")
    return tuple(name for name in _BY if name in names)


def _names(given: str | Collection[str] | None) -> tuple[str, ...] | None:
    return (given,) if isinstance(given, str) else None if given is None else tuple(given)


def _grouped(rows: list[StatRow], by: tuple[By, ...]) -> list[Stat]:
    found: dict[tuple[datetime, str | None, str | None, str | None], Numbers] = {}
    for row in rows:
        key = (
            row.at,
            row.tenant_id if "tenant" in by else None,
            row.queue if "queue" in by else None,
            row.kind if "kind" in by else None,
        )
        if key in found:
            # what is queued at one time adds up
            depths = [each for each in (found[key].depth, row.numbers.depth) if each is not None]
            found[key].add(row.numbers)
            found[key].depth = sum(depths) if depths else None
        else:
            found[key] = row.numbers
    return [
        Stat(at=at, tenant_id=tenant_id, queue=queue, kind=kind, **msgspec.structs.asdict(numbers))
        for (at, tenant_id, queue, kind), numbers in found.items()
    ]
