"""What happened: the numbers of minutes, hours and days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.clock import from_micros, to_micros
from headway.model.stats import ALL_TENANTS, Key, Level, Numbers, Span, StatRow, facts, histograms_added, merged
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.stats.fold import read_delta, read_numbers

_SQL = statements("stats/reads")


class StatVerbs(Verbs):
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
        def steps() -> Steps[list[StatRow]]:
            queues, kinds = (None if names is None else json_list(names) for names in (queue, kind))
            params = (span, to_micros(since), to_micros(until), queues, kinds)
            if level in ("queues", "total") or (level == "tenants" and tenant_id is not None):
                rows = yield Statement(_SQL["sums"], (*params, tenant_id or ALL_TENANTS, level == "queues"))
            elif level == "tenants":
                rows = yield Statement(_SQL["stats_of_tenants"], params[:3])
            elif tenant_id is None:
                rows = yield Statement(_SQL["deaths" if died else "stats"], params)
            else:
                rows = yield Statement(_SQL["deaths_of_tenant" if died else "stats_of_tenant"], (*params, tenant_id))
            deltas = yield Statement(_SQL["deltas"], (queues, kinds, tenant_id))
            found: list[tuple[datetime, Key, Numbers]] = [
                (from_micros(row[0]), row[1:4], read_numbers(row[4:])) for row in rows
            ]
            for (minute_ms, key), numbers in facts(map(read_delta, deltas)).items():
                at = from_micros(minute_ms * 1_000)
                if since <= at < until:
                    found.append((at, key, numbers))
            return [row for row in merged(span, since, found, level) if row.numbers.dead or not died]

        return SqliteOp(steps, writes=False)

    def stats_side_by_side(
        self, *, since: datetime, until: datetime, sampled_after: datetime
    ) -> Op[dict[str, Numbers]]:
        def steps() -> Steps[dict[str, Numbers]]:
            params = (to_micros(since), to_micros(until))
            rows = yield Statement(_SQL["side_by_side"], ("minute", *params))
            samples = yield Statement(_SQL["last_samples"], (*params, to_micros(sampled_after)))
            deltas = yield Statement(_SQL["deltas"], (None, None, None))
            found = {row[0]: Numbers(*row[1:-2], *map(histograms_added, row[-2:])) for row in rows}
            for tenant_id, depth, oldest_ms in samples:
                found[tenant_id].depth, found[tenant_id].oldest_ms = depth, oldest_ms
            for (minute_ms, (tenant_id, *_)), numbers in facts(map(read_delta, deltas)).items():
                if since <= from_micros(minute_ms * 1_000) < until:
                    found.setdefault(tenant_id, Numbers()).add(numbers)
            return found

        return SqliteOp(steps, writes=False)
