"""Reads of flows: journals in order, and what arrived for flows while they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headway.model.journal import FlowNews, Journals, news
from headway.model.journal import Row as Entered
from headway.store.ops import Op, Row, Rows
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import read

_JOURNAL = """
select c.now, f.*
  from (select headway.now() as now offset 0) c
  left join headway.journal($1::uuid[], $2::integer[], $3::uuid, $4::bigint) f on true
"""
_NEWS = "select id, signals from headway.flow_news($1::uuid, $2::uuid[])"
_START = -(2**31)


class JournalVerbs:
    def journal(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None = None,
        after: Mapping[str, int] | None = None,
        max_bytes: int = 8 * 2**20,
    ) -> Op[Journals]:
        starts = [(after or {}).get(job_id, _START) for job_id in ids]
        return read(_JOURNAL, [list(ids), starts, tenant_id, max_bytes], _journals)

    def flow_news(self, worker_id: str, ids: Sequence[str]) -> Op[dict[str, FlowNews]]:
        return read(_NEWS, [worker_id, list(ids)], _news)


def _news(rows: Rows) -> dict[str, FlowNews]:
    return {job_id: news(text) for job_id, text in rows if text is not None}


def _journals(rows: Rows) -> Journals:
    now, last, seq, *_ = rows[-1]
    found = rows if last is not None else rows[:-1]  # without a job: there are more, or there is none
    return Journals([_row(row[1:]) for row in found], last is None and seq is not None, utc(now))


def _row(row: Row) -> Entered:
    values = dict(zip(Entered.__struct_fields__, row, strict=True))
    text = values["value"]
    values["value"] = None if text is None else msgspec.Raw(text.encode())
    values["at"] = utc(values["at"])
    return Entered(**values)
