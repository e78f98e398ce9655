"""Reads of flows: journals in order, and what arrived for flows while they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from headway.clock import from_micros
from headway.model.journal import FlowNews, Journals, news
from headway.model.journal import Row as Entered
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.machines.inbox import inboxes, to_text

_SQL = statements("flows/read")
_START = -(2**63)
_AT_FIRST = 64  # rows of the first read; the next ones are as many as fit, by what these hold
_AT_MOST = 2_000


class JournalVerbs(Verbs):
    def journal(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None = None,
        after: Mapping[str, int] | None = None,
        max_bytes: int = 8 * 2**20,
    ) -> Op[Journals]:
        def steps() -> Steps[Journals]:
            found: list[Entered] = []
            size = 0
            for job_id in sorted(set(ids)):
                last = (after or {}).get(job_id, _START)
                count = _AT_FIRST
                while True:
                    rows = yield Statement(_SQL["journal"], (job_id, last, count, tenant_id))
                    for row in rows:
                        if size > max_bytes:
                            return Journals(found, True, self._now())
                        entered, bytes_ = _row(row)
                        found.append(entered)
                        size += bytes_
                    if len(rows) < count:
                        break
                    last = found[-1].seq
                    average = max(1, size // len(found))
                    count = max(_AT_FIRST, min(_AT_MOST, (max_bytes - size) // average))
            return Journals(found, False, self._now())

        return SqliteOp(steps, writes=False)

    def _now(self) -> datetime:
        return from_micros(self._clock.now())

    def flow_news(self, worker_id: str, ids: Sequence[str]) -> Op[dict[str, FlowNews]]:
        def steps() -> Steps[dict[str, FlowNews]]:
            some = [job_id for (job_id,) in (yield Statement(_SQL["news"], (json_list(ids), worker_id)))]
            if not some:
                return {}
            found = yield from inboxes(some, dict.fromkeys(some, ("$cancel",)))
            return {job_id: news(text) for job_id, signals in found.items() if (text := to_text(signals)) is not None}

        return SqliteOp(steps, writes=False)


def _row(row: Row) -> tuple[Entered, int]:
    """The row, and about how many bytes it has."""
    values = dict(zip(Entered.__struct_fields__, row, strict=True))
    raw = None if values["value"] is None else msgspec.Raw(values["value"].encode())
    values["value"] = raw
    values["at"] = from_micros(values["at"])
    size = len(raw or b"") + len((values["error"] or "").encode()) + len(values["place"].encode()) + 100
    return Entered(**values), size
