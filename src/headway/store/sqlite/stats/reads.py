"""What happened: the numbers of minutes, hours and days."""

from __future__ import annotations

from datetime import datetime

from headway.clock import from_micros, to_micros
from headway.model.stats import ALL_TENANTS, Key, Level, Numbers, Span, StatRow, facts, merged
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
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
        queue: str | None = None,
        kind: str | None = None,
        level: Level = "kinds",
        died: bool = False,
    ) -> Op[list[StatRow]]:
        def steps() -> Steps[list[StatRow]]:
            params = (span, to_micros(since), to_micros(until), queue, kind)
            if level in ("queues", "total") or (level == "tenants" and tenant_id is not None):
                rows = yield Statement(_SQL["sums"], (*params, tenant_id or ALL_TENANTS, level == "queues"))
            elif level == "tenants":
                rows = yield Statement(_SQL["stats_of_tenants"], params[:3])
            elif tenant_id is None:
                rows = yield Statement(_SQL["deaths" if died else "stats"], params)
            else:
                rows = yield Statement(_SQL["deaths_of_tenant" if died else "stats_of_tenant"], (*params, tenant_id))
            deltas = yield Statement(_SQL["deltas"], (queue, kind, tenant_id))
            found: list[tuple[datetime, Key, Numbers]] = [
                (from_micros(row[0]), row[1:4], read_numbers(row[4:])) for row in rows
            ]
            for (minute_ms, key), numbers in facts(map(read_delta, deltas)).items():
                at = from_micros(minute_ms * 1_000)
                if since <= at < until:
                    found.append((at, key, numbers))
            return [row for row in merged(span, since, found, level) if row.numbers.dead or not died]

        return SqliteOp(steps, writes=False)
