"""What happened: the numbers of minutes, hours and days."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.model.stats import COUNTS, Key, Numbers, Span, StatRow, Times, merged
from headway.store.ops import Op, Row, Rows
from headway.store.postgres.engine.decode import plain
from headway.store.postgres.engine.verbs import read

_COUNTS = ", ".join(f"s.{name}" for name in COUNTS)
_WHERE = "($4::text is null or s.queue = $4) and ($5::text is null or s.kind = $5)"


def _sql(of_tenant: bool) -> str:
    """Both parts in one statement, so in one snapshot: what is folded meanwhile is in one of them."""
    tenant = "= $6::uuid" if of_tenant else "is not null"
    return f"""
select s.at, s.tenant_id, s.queue, s.kind, {_COUNTS}, s.waits, s.runs, s.depth, s.oldest_ms
  from headway.stats s
 where s.span = $1 and s.at >= $2::timestamptz and s.at < $3::timestamptz and s.tenant_id {tenant} and {_WHERE}
union all
select s.at, s.tenant_id, s.queue, s.kind, {_COUNTS}, s.waits, s.runs, null, null
  from headway.stat_facts(array(
         select d.ctid
           from headway.stat_deltas d
          where d.tenant_id {tenant} and ($4::text is null or d.queue = $4) and ($5::text is null or d.kind = $5))) s
 where s.at >= $2::timestamptz and s.at < $3::timestamptz and {_WHERE}
"""  # noqa: S608 - texts of this file


_OF_ALL, _OF_TENANT = _sql(False), _sql(True)
_times = msgspec.json.Decoder(Times).decode


class StatVerbs:
    def stats(
        self,
        span: Span,
        *,
        since: datetime,
        until: datetime,
        tenant_id: str | None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> Op[list[StatRow]]:
        def shape(rows: Rows) -> list[StatRow]:
            return merged(span, since, map(_counted, rows))

        params = [span, since, until, queue, kind]
        return read(_OF_ALL, params, shape) if tenant_id is None else read(_OF_TENANT, [*params, tenant_id], shape)


def _counted(row: Row) -> tuple[datetime, Key, Numbers]:
    at, tenant_id, queue, kind, *counts, waits, runs, depth, oldest_ms = row
    numbers = Numbers(*[*counts, _as_times(waits), _as_times(runs), depth, oldest_ms])
    return plain(at), (str(tenant_id), queue, kind), numbers


def _as_times(value: Any) -> Times:
    # a library that decodes JSON by itself gives keys of text
    return _times(value) if isinstance(value, str) else {int(number): count for number, count in value.items()}
