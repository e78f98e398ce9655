"""Words for flows: enqueue one, record rows, park, and read its journal."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.model.job import Claim, NewJob
from headway.model.journal import FLOW, Entry, Recorded, Row, effective
from headway.model.machine import Settled
from tests.store.machines.machine_calls import QUIET, checkpoint, new_machine, turned

AWAITED = ("$cancel", "$child")


def new_flow(**options: Any) -> NewJob:
    return new_machine(**{"step": FLOW, "kind": "checkout", **options})


def begin(db: Any, worker: str | None = None, **options: Any) -> Claim:
    """Enqueue a flow and claim it; its queue must be empty."""
    claim: Claim = db.begin(worker, step=FLOW, **options)
    return claim


def entry(claim: Claim, seq: int, kind: str = "done", **values: Any) -> Entry:
    """A row of this execution: another value in every column, unless it is given."""
    base = {"place": f"step{seq}", "value": f'{{"n":{seq}}}', "print": seq + 100, "took_ms": seq + 200}
    return Entry(**{"job_id": claim.id, "fence": claim.fence, "seq": seq, "kind": kind, **base, **values})


def called(claim: Claim, seq: int, child: NewJob, *, waits: bool = True, **values: Any) -> Entry:
    said = msgspec.json.encode({"id": child.id}).decode()
    return entry(claim, seq, "called", **{"value": said, "child": child, "waits": waits, **values})


def record(db: Any, *entries: Entry, worker: str | None = None) -> Recorded:
    return untimed(db.run(db.ops.record(worker or db.home(), entries)))


def untimed(recorded: Recorded) -> Recorded:
    """Without the times of the rows."""
    return msgspec.structs.replace(recorded, at={})


def rows(db: Any, job_id: str, **options: Any) -> list[Row]:
    found: list[Row] = db.run(db.ops.journal([job_id], **options)).rows
    return found


def lines(db: Any, job_id: str) -> list[tuple[int, str, str]]:
    """The rows that count: number, kind, place."""
    return [(row.seq, row.kind, row.place) for row in effective(rows(db, job_id))]


def park(db: Any, claim: Claim, *names: str, **values: Any) -> str:
    """A park that awaits these names and those of the engine; gives the flow's status after it."""
    answer: Settled = db.turn(claim, "park", "waiting", awaiting=(*names, *AWAITED), **values)
    assert answer == QUIET
    status: str = db.job(claim.id).status
    return status


def parked(db: Any, *names: str, **options: Any) -> Claim:
    """A flow that waits; gives the claim of the execution that parked it."""
    claim = begin(db, **options)
    assert park(db, claim, *names) == "waiting"
    return claim


def end(db: Any, claim: Claim, to: str = "succeeded", **values: Any) -> None:
    """The function returned, or the run ended badly."""
    outcome = {"succeeded": "done", "dead": "stop", "canceled": "stop", "failed": "stop"}[to]
    values = {"progress": False} | values
    assert db.turn_all([turned(claim, outcome, to, **values)]) == QUIET


def unread(claim: Claim) -> dict[str, str]:
    """The unconsumed signals that a claim brought: name to id."""
    return {signal.name: signal.id for signal in checkpoint(claim).signals}
