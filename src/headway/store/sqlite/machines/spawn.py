"""Spawn: enqueues a machine's children in the transaction that parks the machine."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model import refusals
from headway.model.departure import Departure
from headway.model.job import Enqueued
from headway.model.status import Status, edge_state
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.ending import Ending
from headway.store.sqlite.jobs.enqueue import enqueue_for_machines
from headway.store.sqlite.machines.children import stop_more, stop_siblings
from headway.store.sqlite.machines.turns import spawns
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.joins import add_edge_rows, read_heir

_SQL = statements("machines/spawn")

Edge = tuple[str, str, int, str, str, str, int, int | None]


def spawn_children(turned: Sequence[Ending], now: int) -> Steps[None]:
    """Enqueue the children of the machines among these that wait now. Raises what an enqueue raises."""
    parked = [
        (end.job, end.turn) for end in turned if end.to == "waiting" and end.turn is not None and spawns(end.turn)
    ]
    if not parked:
        return
    children = [child for _, turn in parked for child in turn.children]
    parents = {child.id: job.id for job, turn in parked for child in turn.children}
    given: list[Enqueued] = []
    if children:
        given = yield from enqueue_for_machines(children, now, parents)
    answers = iter(given)
    edges: list[Edge] = []
    failed: dict[str, str] = {}
    ready: list[str] = []
    for job, turn in parked:
        waits = counts = False
        for n, child in enumerate(turn.children):
            child_id, status = yield from _runs_as(next(answers), job.id)
            state = edge_state(status)
            edges.append((child_id, job.id, job.fence, child.tenant_id, turn.on_failure, state, n, turn.needed))
            waits = waits or state == "pending"
            counts = counts or (turn.needed is not None and state != "pending")
            if state == "failed" and turn.on_failure == "stop":
                failed.setdefault(job.id, child_id)
        if counts or not waits:
            ready.append(job.id)
    yield Batch(_SQL["forget"], [(job.id, job.fence) for job, _ in parked])
    if edges:
        yield add_edge_rows(edges)
    ended: list[Departure] = []
    # another ending of this batch, of a sibling or of a member of its group, may have canceled it since it was parked
    for (machine,) in (yield Statement(_SQL["over"], (json_list([job.id for job, _ in parked]),))):
        ended += yield from stop_more(machine, now)
    ended += yield from stop_siblings(failed, now)
    if ended or ready:
        yield from follow(ended, now=now, machines=ready)


def _runs_as(answer: Enqueued, machine: str) -> Steps[tuple[str, Status]]:
    """The job that stands for a child: a new one, the existing one that it met, or the one that retries that."""
    if answer.id == machine:
        raise refusals.waits_for_itself(machine)
    if answer.status == "failed":
        heir = yield from read_heir(answer.id)
        if heir is not None:
            return heir
    return answer.id, answer.status
