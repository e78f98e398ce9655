"""Record: rows of flows' journals, and with them signals consumed and children enqueued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.model.job import NewJob
from headway.model.journal import Entry, Recorded, with_child
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.arrays import column
from headway.store.postgres.engine.verbs import call, nothing
from headway.store.postgres.jobs.enqueue import enqueue_all

_RECORD = (
    "select id, fence, (extract(epoch from at) * 1000000)::bigint"
    " from headway.record($1::uuid, $2::uuid[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::json[],"
    " $8::text[], $9::bigint[], $10::integer[], $11::uuid[])"
)
_BEGIN = "select mine, child from headway.begin_record($1::uuid, $2::uuid[], $3::integer[], $4::integer[])"
_ADD_CALLED = "select headway.add_called($1::uuid[], $2::uuid[], $3::uuid[])"
_SETTLE_STEP = "select headway.settle_step($1::uuid, $2::integer, $3, $4::json, $5::bigint, $6::integer)"
_SET_STATE = "select headway.set_flow_state($1::uuid, $2::uuid[], $3::integer[], $4::json[])"


class RecordVerbs:
    def record(self, worker_id: str | None, entries: Sequence[Entry]) -> Op[Recorded]:
        def steps() -> Steps[Recorded]:
            if not entries:
                return Recorded([], {})
            children: dict[str, str] = {}
            rows = list(entries)
            if spawns:
                children = yield from _enqueue(worker_id, entries)
                rows = [with_child(entry, children) for entry in entries]
            written = yield Statement(_RECORD, _arrays(worker_id, rows))
            lost = [(job_id, fence) for job_id, fence, at in written if at is None]
            return Recorded(lost, children, {job_id: at for job_id, _, at in written if at is not None})

        spawns = any(entry.child is not None for entry in entries)
        return Op(steps, writes=True, atomic=spawns)

    def settle_step(self, entry: Entry) -> Op[None]:
        def steps() -> Steps[None]:
            said = [entry.job_id, entry.fence, entry.place, entry.value, entry.print, entry.took_ms]
            yield Statement(_SETTLE_STEP, said)

        # not refusable: without a savepoint a refusal aborts the caller's transaction, as it should
        return Op(steps, writes=True, joins=True)

    def set_flow_state(self, worker_id: str, states: Sequence[tuple[str, int, str]]) -> Op[None]:
        columns = [list(each) for each in zip(*states, strict=True)] if states else [[], [], []]
        return call(_SET_STATE, [worker_id, *columns], nothing)


def _enqueue(worker_id: str | None, entries: Sequence[Entry]) -> Steps[dict[str, str]]:
    """Enqueue the children of executions that this worker runs, but those that were recorded before; gives for each
    the job that it is."""
    calls = [(entry, entry.child) for entry in entries if entry.child is not None]
    begun = yield Statement(
        _BEGIN,
        [
            worker_id,
            [entry.job_id for entry in entries],
            [entry.fence for entry in entries],
            [entry.seq for entry in entries],
        ],
    )
    states = {id(entry): row for entry, row in zip(entries, begun, strict=True)}
    known = {child.id: there for entry, child in calls if (there := states[id(entry)][1]) is not None}
    new: list[tuple[Entry, NewJob]] = [
        (entry, child) for entry, child in calls if states[id(entry)][0] and child.id not in known
    ]
    mine = {child.id: known[child.id] for entry, child in calls if states[id(entry)][0] and child.id in known}
    if not new:
        return mine
    given = [child.id for _, child in new]
    met: list[str] = []
    rows = yield enqueue_all([child for _, child in new], alone=False, parents=[entry.parent for entry, _ in new])
    for ordinal, job_id, _, created, _ in rows:
        if not created:
            given[ordinal - 1] = str(job_id)
            met.append(str(job_id))
    waiting = [(entry.job_id, job_id) for (entry, _), job_id in zip(new, given, strict=True) if entry.waits]
    if waiting:
        flows, called = [flow for flow, _ in waiting], [job_id for _, job_id in waiting]
        yield Statement(_ADD_CALLED, [flows, called, met or None])
    return mine | {child.id: job_id for (_, child), job_id in zip(new, given, strict=True)}


def _arrays(worker_id: str | None, entries: Sequence[Entry]) -> list[Any]:
    return [
        worker_id,
        [entry.job_id for entry in entries],
        [entry.fence for entry in entries],
        [entry.seq for entry in entries],
        [entry.kind for entry in entries],
        [entry.place for entry in entries],
        column(entries, "value", None),
        column(entries, "error", None),
        column(entries, "print", None),
        column(entries, "took_ms", None),
        column(entries, "signal", None),
    ]
