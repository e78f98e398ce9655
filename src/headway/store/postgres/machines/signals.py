"""Signals: put into inboxes, and read."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from headway.model import codec
from headway.model.signal import NewSignal, Sent, Signal
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import read

_SIGNAL = (
    "select id, job_id, queue, created from headway.signal_many($1::uuid[], $2::text[], $3::json[], $4::uuid[],"
    " $5::text[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::text[], p_checked => true) order by ordinal"
)
_SENT = ("id", "name", "payload", "job_id", "kind", "unique_key", "tenant_id", "dedup_key", "trace_id", "created_by")
_SIGNALS = """
select s.id, s.job_id, s.name, s.payload::text, s.dedup_key, s.sent_at,
       case when s.fence is not null then 'consumed'
            when j.finished_at is not null then 'undelivered'
            else 'pending' end,
       s.consumed_at, s.fence, s.created_by
  from headway.signals s
  join headway.jobs j on j.id = s.job_id
 where s.job_id = $1::uuid
   and ($2::uuid is null or s.tenant_id = $2)
 order by s.seq
"""


class SignalVerbs:
    def signal(self, signals: Sequence[NewSignal]) -> Op[list[Sent]]:
        def steps() -> Steps[list[Sent]]:
            return _sent((yield send(signals))) if signals else []

        return Op(steps, writes=True, refusable=True)

    def signals(self, job_id: str, *, tenant_id: str | None, raw: bool = False) -> Op[list[Signal]]:
        return read(_SIGNALS, [job_id, tenant_id], lambda rows: [_signal(row, raw) for row in rows])


def send(signals: Sequence[NewSignal]) -> Statement:
    columns: list[list[Any]] = [list(map(attrgetter(name), signals)) for name in _SENT]
    return Statement(_SIGNAL, [None if values.count(None) == len(values) else values for values in columns])


def _sent(rows: Rows) -> list[Sent]:
    return [Sent(str(signal_id), str(job_id), queue, created) for signal_id, job_id, queue, created in rows]


def _signal(row: Row, raw: bool) -> Signal:
    fields = dict(zip(Signal.__struct_fields__, map(utc, row), strict=True))
    fields["payload"] = (codec.as_stored if raw else codec.shown)(fields["payload"], what="payload")
    return Signal(**fields)
