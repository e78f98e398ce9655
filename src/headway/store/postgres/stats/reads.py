"""What happened: the numbers of minutes, hours and days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from headway.model.stats import ALL_TENANTS, COUNTS, Key, Level, Numbers, Span, StatRow, Times, histograms_added, merged
from headway.store.ops import Op, Row, Rows
from headway.store.postgres.engine.decode import plain
from headway.store.postgres.engine.verbs import read

_COUNTS = ", ".join(f"s.{name}" for name in COUNTS)
_WHERE = "($4::text[] is null or s.queue = any ($4)) and ($5::text[] is null or s.kind = any ($5))"


_KINDS = "s.queue <> '' and s.kind <> ''"
_QUEUES = "s.queue <> '' and s.kind = ''"
_TOTAL = "s.queue = '' and s.kind = ''"
_TENANTS = f"{_TOTAL} and s.tenant_id <> '{ALL_TENANTS}'"


_NUMBERS = f"{_COUNTS}, s.waits, s.runs, s.depth, s.oldest_ms"
_SUM_OF_DEAD = ", ".join("sum(s.dead)::integer" if name == "dead" else "0" for name in COUNTS)


def _sql(of_tenant: bool, rows: str, sums: bool = False) -> str:
    of = f"s.tenant_id = '{ALL_TENANTS}'" if sums else f"s.tenant_id {_tenant(of_tenant)}"
    return _with_deltas(of_tenant, f"s.at, s.tenant_id, s.queue, s.kind, {_NUMBERS}", f"{of} and {rows}")


def _died(of_tenant: bool) -> str:
    """Of each tenant, queue and kind together, at the first of these times."""
    columns = f"min(s.at), s.tenant_id, s.queue, s.kind, {_SUM_OF_DEAD}, '{{}}'::jsonb, '{{}}'::jsonb, null, null"
    where = f"s.tenant_id {_tenant(of_tenant)} and {_KINDS} and s.dead > 0"
    return _with_deltas(of_tenant, columns, where, "group by s.tenant_id, s.queue, s.kind")


def _tenant(of_tenant: bool) -> str:
    return "= $6::uuid" if of_tenant else "is not null"


def _with_deltas(of_tenant: bool, columns: str, where: str, grouped: str = "") -> str:
    """Both parts in one statement, so in one snapshot: what is folded meanwhile is in one of them."""
    tenant = _tenant(of_tenant)
    return f"""
select {columns}
  from headway.stats s
 where s.span = $1 and s.at >= $2::timestamptz and s.at < $3::timestamptz and {where} and {_WHERE}
 {grouped}
union all
select s.at, s.tenant_id, s.queue, s.kind, {_COUNTS}, s.waits, s.runs, null, null
  from headway.stat_facts(array(
         select d.ctid
           from headway.stat_deltas d
          where d.tenant_id {tenant}
            and ($4::text[] is null or d.queue = any ($4))
            and ($5::text[] is null or d.kind = any ($5)))) s
 where s.at >= $2::timestamptz and s.at < $3::timestamptz and {_WHERE}
"""  # noqa: S608 - texts of this file


_OF_ALL: dict[Level, str] = {
    "kinds": _sql(False, _KINDS),
    "tenants": _sql(False, _TENANTS),
    "queues": _sql(False, _QUEUES, sums=True),
    "total": _sql(False, _TOTAL, sums=True),
}
_OF_TENANT: dict[Level, str] = {"kinds": _sql(True, _KINDS), "tenants": _sql(True, _TOTAL)}
_DIED_OF_ALL, _DIED_OF_TENANT = _died(False), _died(True)
_MINUTES = f"s.span = 'minute' and s.at >= $1::timestamptz and s.at < $2::timestamptz and {_TENANTS}"
# each tenant's minutes together; the histograms as lists, which take longer to add up in SQL
_SIDE_BY_SIDE = f"""
select t.tenant_id, {", ".join(f"t.{name}" for name in COUNTS)}, t.waits, t.runs, l.depth, l.oldest_ms
  from (
    select s.tenant_id,
           {", ".join(f"sum(s.{name})::bigint as {name}" for name in COUNTS)},
           '[' || string_agg(s.waits::text, ',') || ']' as waits,
           '[' || string_agg(s.runs::text, ',') || ']' as runs
      from headway.stats s
     where {_MINUTES}
     group by s.tenant_id
  ) t
  left join (
    select distinct on (s.tenant_id) s.tenant_id, s.depth, s.oldest_ms
      from headway.stats s
     where {_MINUTES} and s.at > $3::timestamptz and s.depth is not null
     order by s.tenant_id, s.at desc
  ) l on l.tenant_id = t.tenant_id
union all
select s.tenant_id, {_COUNTS}, '[' || s.waits::text || ']', '[' || s.runs::text || ']', null, null
  from headway.stat_facts(array(select d.ctid from headway.stat_deltas d)) s
 where s.at >= $1::timestamptz and s.at < $2::timestamptz
"""  # noqa: S608 - texts of this file
_times = msgspec.json.Decoder(Times).decode


class StatVerbs:
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
        def shape(rows: Rows) -> list[StatRow]:
            found = merged(span, since, map(_counted, rows), level)
            return [row for row in found if row.numbers.dead or not died]

        params = [span, since, until, *(None if names is None else list(names) for names in (queue, kind))]
        if tenant_id is None:
            return read(_DIED_OF_ALL if died else _OF_ALL[level], params, shape)
        return read(_DIED_OF_TENANT if died else _OF_TENANT[level], [*params, tenant_id], shape)

    def stats_side_by_side(
        self, *, since: datetime, until: datetime, sampled_after: datetime
    ) -> Op[dict[str, Numbers]]:
        def shape(rows: Rows) -> dict[str, Numbers]:
            found: dict[str, Numbers] = {}
            for tenant_id, *counts, waits, runs, depth, oldest_ms in rows:
                numbers = Numbers(*[*counts, histograms_added(waits), histograms_added(runs), depth, oldest_ms])
                if str(tenant_id) in found:
                    found[str(tenant_id)].add(numbers)
                else:
                    found[str(tenant_id)] = numbers
            return found

        return read(_SIDE_BY_SIDE, [since, until, sampled_after], shape)


def _counted(row: Row) -> tuple[datetime, Key, Numbers]:
    at, tenant_id, queue, kind, *counts, waits, runs, depth, oldest_ms = row
    numbers = Numbers(*[*counts, _as_times(waits), _as_times(runs), depth, oldest_ms])
    return plain(at), (str(tenant_id), queue, kind), numbers


def _as_times(value: Any) -> Times:
    # a library that decodes JSON by itself gives keys of text
    return _times(value) if isinstance(value, str) else {int(number): count for number, count in value.items()}
