"""Record: rows of flows' journals, and with them signals consumed and children enqueued."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model import refusals
from headway.model.job import NewJob
from headway.model.journal import Entry, Recorded, with_child
from headway.model.status import edge_state
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.flows.tell import tell_flows
from headway.store.sqlite.jobs.enqueue import enqueue_for_machines
from headway.store.sqlite.order.joins import read_heir

_SQL = statements("flows/record")
_encode = msgspec.json.Encoder().encode


class RecordVerbs(Verbs):
    def record(self, worker_id: str | None, entries: Sequence[Entry]) -> Op[Recorded]:
        def steps() -> Steps[Recorded]:
            if not entries:
                return Recorded([], {})
            now = self._clock.now()
            asked = {(entry.job_id, entry.fence) for entry in entries}
            ids = json_list(list({job_id for job_id, _ in asked}))
            running = {(job_id, fence) for job_id, fence in (yield Statement(_SQL["running"], (ids, worker_id)))}
            mine = [entry for entry in entries if (entry.job_id, entry.fence) in running]
            calls = [(entry, entry.child) for entry in mine if entry.child is not None]
            children = (yield from _enqueue(calls, now)) if calls else {}
            times: dict[str, int] = {}
            if mine:
                yield Statement(_SQL["record"], (_encode([_row(with_child(entry, children)) for entry in mine]), now))
                for entry in mine:
                    if entry.kind == "forgotten":
                        yield Statement(_SQL["begin_anew"], (entry.job_id, entry.seq))
                read = [(entry.signal, entry.job_id, entry.fence) for entry in mine if entry.signal is not None]
                if read:
                    yield Statement(_SQL["consume"], (json_list(read), now))
                last = json_list([*{entry.job_id: (entry.job_id, entry.seq) for entry in mine}.values()])
                times = dict((yield Statement(_SQL["times"], (last,))))
            return Recorded(sorted(asked - running), children, times)

        return SqliteOp(steps, writes=True)

    def settle_step(self, entry: Entry) -> Op[None]:
        def steps() -> Steps[None]:
            now = self._clock.now()
            job_id, fence = entry.job_id, entry.fence
            said = (job_id, fence, entry.place, entry.value, entry.print, entry.took_ms, now)
            if (yield Statement(_SQL["settle"], said)):
                return
            rows = yield Statement(_SQL["runs"], (job_id, fence))
            if not rows:
                raise refusals.not_in_this_database(job_id)
            raise refusals.step_settled(entry.place, job_id) if rows[0][0] else refusals.claim_lost(job_id, fence)

        return SqliteOp(steps, writes=True, joins=True)

    def set_flow_state(self, worker_id: str, states: Sequence[tuple[str, int, str]]) -> Op[None]:
        def steps() -> Steps[None]:
            if states:
                yield Statement(_SQL["state"], (worker_id, json_list(states)))

        return SqliteOp(steps, writes=True)


def _row(entry: Entry) -> tuple[object, ...]:
    return (
        entry.job_id,
        entry.seq,
        entry.fence,
        entry.kind,
        entry.place,
        entry.value,
        entry.error,
        entry.print,
        entry.took_ms,
        entry.signal,
    )


def _enqueue(calls: Sequence[tuple[Entry, NewJob]], now: int) -> Steps[dict[str, str]]:
    """Enqueue the children, but those that were recorded before; gives for each the job that it is."""
    asked = json_list([(entry.job_id, entry.seq) for entry, _ in calls])
    there = {(job_id, seq): child for job_id, seq, child in (yield Statement(_SQL["there"], (asked,)))}
    found = {child.id: known for entry, child in calls if (known := there.get((entry.job_id, entry.seq))) is not None}
    new = [(entry, child) for entry, child in calls if child.id not in found]
    if not new:
        return found
    parents = {child.id: entry.parent for entry, child in new if entry.parent is not None}
    given = yield from enqueue_for_machines([child for _, child in new], now, parents)
    edges: list[tuple[str, str, str, str]] = []
    over: list[tuple[str, str]] = []
    for (entry, child), answer in zip(new, given, strict=True):
        found[child.id] = answer.id
        if not entry.waits:
            continue
        if answer.id == entry.job_id:
            raise refusals.waits_for_itself(entry.job_id)
        heir = (yield from read_heir(answer.id)) if answer.status == "failed" else None
        job_id, status = heir or (answer.id, answer.status)
        state = edge_state(status)
        edges.append((job_id, entry.job_id, child.tenant_id, state))
        if state != "pending":
            over.append((entry.job_id, job_id))
    if edges:
        yield Statement(_SQL["call"], (json_list(edges),))
    if over:
        yield tell_flows(over, now)  # they run: nobody is to be woken
    return found
