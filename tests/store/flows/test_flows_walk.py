"""Random flows, children, signals, crashes, cancels, retries and time on both stores, which must do the same; and what
must hold on each of them after every step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headway.errors import HeadwayError
from headway.model.ids import new_id
from headway.model.journal import Entry, effective
from headway.model.machine import Settled
from headway.model.status import FINISHED
from tests.store.compared_stores import Side, difference
from tests.store.db import new_job, settlement
from tests.store.flows.flow_calls import AWAITED, new_flow
from tests.store.machines.machine_calls import checkpoint, new_signal, turned

NAMES = ("a", "b")
MAX_LOSSES = 2
rows_of = st.lists(
    st.sampled_from(["done", "failed", "timer", "signal", "signal", "called", "called", "enqueued", "kept", "told"]),
    min_size=1,
    max_size=4,
)


class Flows(RuleBasedStateMachine):
    def __init__(self, sides: tuple[Side, Side], clock: Any) -> None:
        super().__init__()
        self.sides = sides
        self.clock = clock
        self.workers: list[str] = []
        self.claims: dict[str, Any] = {}  # of what runs: as it was claimed last
        self.retried: set[str] = set()  # they run for whoever retried them, also when their flow is over
        self.past: list[Any] = []  # claims of executions that ended
        self.next_seq: Counter[str] = Counter()
        self.known: dict[str, dict[tuple[str, int], Any]] = {}  # by store: rows as they were first seen

    @initialize()
    def begin(self) -> None:
        for side in self.sides:
            side.reset()
            self.known[side.db.dialect] = {}
        for _ in range(2):
            self.register()
        self.enqueue(2)

    def register(self) -> None:
        worker = self.sides[0].db.worker(lease_ms=10**12)
        self.sides[1].db.worker(id=worker, lease_ms=10**12)
        self.workers.append(worker)

    def both(self, verb: Any) -> Any:
        answers = []
        for side in self.sides:
            try:
                answers.append(verb(side.db))
            except HeadwayError as error:
                answers.append(type(error))
            side.db.process_arrivals()
        assert answers[0] == answers[1], f"PostgreSQL answered {answers[0]}, SQLite {answers[1]}"
        return answers[0]

    def compare(self) -> None:
        one, two = (self.look(side.db) for side in self.sides)
        assert one == two, "\n" + difference(one, two)

    def look(self, db: Any) -> dict[str, Any]:
        jobs = {job.id: job for job in db.find()}
        journals: dict[str, list[Any]] = {job_id: [] for job_id in jobs}
        for row in db.run(db.ops.journal(list(jobs))).rows:
            journals[row.job_id].append(row)
        found = {}
        for job_id, job in jobs.items():
            signals = db.signals(job_id)
            self.check(db, job, jobs, journals[job_id], signals)
            found[job_id] = {
                **{
                    name: getattr(job, name)
                    for name in ("status", "step", "state", "fence", "tries", "losses", "error")
                },
                **{name: getattr(job, name) for name in ("worker_id", "parent_id", "version")},
                # of one that was lost and then canceled with its parent it has a jitter
                "scheduled_for": None if job.status == "canceled" else job.scheduled_for,
                "awaits": (job.awaiting, job.deadline_at) if job.status == "waiting" else None,
                "asked": job.cancel_requested_at is not None,
                "inbox": [(each.name, each.payload, each.status, each.fence) for each in signals],
                "journal": [_told(row) for row in journals[job_id]],
            }
        return found

    def check(self, db: Any, job: Any, jobs: dict[str, Any], rows: list[Any], signals: list[Any]) -> None:
        """What must hold whatever happened."""
        counted = effective(rows)
        if job.status == "waiting":
            waiting = [each.name for each in signals if each.status == "pending" and each.name in job.awaiting]
            assert not waiting, f"{db.dialect}: {job.id} waits for what has come: {waiting}"
        if job.status in FINISHED:
            children = [each for each in jobs.values() if each.parent_id == job.id and each.id not in self.retried]
            left = [each.id for each in children if _is_left(each, rows)]
            assert not left, f"{db.dialect}: {job.id} is over, and its children {left} are not"
        taken = Counter(row.signal for row in counted if row.signal is not None)
        assert not taken or max(taken.values()) == 1, f"{db.dialect}: a signal of {job.id} is two answers"
        unread = {each.id for each in signals if each.status == "pending"}
        assert not unread & set(taken), f"{db.dialect}: an answer of {job.id} consumed a signal that is unread"
        before = self.known[db.dialect]
        for row in rows:
            assert before.setdefault((row.job_id, row.seq), row) == row, f"{db.dialect}: a row of {job.id} has changed"

    # choosing

    def jobs(self, *statuses: str) -> list[Any]:
        found = self.sides[0].db.find()
        return sorted((job for job in found if not statuses or job.status in statuses), key=lambda job: job.id)

    def flows(self, *statuses: str) -> list[str]:
        return [job.id for job in self.jobs(*statuses) if job.step == "$flow"]

    def running(self) -> list[str]:
        return sorted(job_id for job_id, claim in self.claims.items() if claim.is_flow)

    # the application

    @precondition(lambda self: len(self.jobs("queued", "scheduled", "waiting", "running")) < 6)
    @rule(count=st.integers(1, 2))
    def enqueue(self, count: int) -> None:
        new = [new_flow(id=new_id(), max_losses=MAX_LOSSES) for _ in range(count)]
        self.both(lambda db: [answer.created for answer in db.enqueue_all(new)])
        self.compare()

    @precondition(lambda self: self.flows())
    @rule(
        data=st.data(), names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=2), key=st.sampled_from([None, "k"])
    )
    def signal(self, data: st.DataObject, names: list[str], key: str | None) -> None:
        to = data.draw(st.sampled_from(self.flows()), label="flow")
        new = [new_signal(to, name, {"of": name}, dedup_key=key and f"{key}{name}") for name in names]
        self.both(lambda db: [answer.created for answer in db.signal_all(new)])
        self.compare()

    @precondition(lambda self: self.jobs())
    @rule(data=st.data(), at_once=st.booleans())
    def cancel(self, data: st.DataObject, at_once: bool) -> None:
        job_id = data.draw(st.sampled_from([job.id for job in self.jobs()]), label="job")
        options = {"tenant_id": None, "reason": "no more", "actor": None, "at_once": at_once}
        self.both(lambda db: db.run(db.ops.cancel([job_id], **options)))
        self.compare()

    @precondition(lambda self: self.jobs(*FINISHED))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from([job.id for job in self.jobs(*FINISHED)]), label="job")
        self.retried.add(job_id)
        self.both(lambda db: db.retry(job_id))
        self.compare()

    @precondition(lambda self: self.flows())
    @rule(data=st.data(), start=st.integers(0, 4))
    def accept(self, data: st.DataObject, start: int) -> None:
        job_id = data.draw(st.sampled_from(self.flows()), label="flow")
        self.both(lambda db: db.run(db.ops.forget(job_id, start, tenant_id=None, actor="ann")))
        self.compare()

    @precondition(lambda self: self.flows() and len(self.jobs()) < 10)
    @rule(data=st.data(), before=st.integers(1, 5))
    def fork(self, data: st.DataObject, before: int) -> None:
        source = data.draw(st.sampled_from(self.flows()), label="flow")
        new = new_flow(id=new_id(), max_losses=MAX_LOSSES, forked_from=source)
        self.both(lambda db: db.run(db.ops.fork_flow(new, source, before, {}, actor="ann")).created)
        self.compare()

    # the worker

    @precondition(lambda self: self.jobs("queued"))
    @rule(data=st.data(), limit=st.sampled_from([1, 100]))
    def claim(self, data: st.DataObject, limit: int) -> None:
        worker = data.draw(st.sampled_from(self.workers), label="worker")
        answers: list[list[Claimed]] = []

        def claims(db: Any) -> Any:
            answers.append([Claimed(db.dialect, worker, claim) for claim in db.claim(worker, limit=limit)])
            return [each.told for each in answers[-1]]

        self.both(claims)
        for one, other in zip(*answers, strict=True):
            one.signals |= other.signals
            self.claims[one.id] = one
        self.compare()

    @precondition(lambda self: self.running())
    @rule(data=st.data(), kinds=rows_of, twice=st.booleans())
    def record(self, data: st.DataObject, kinds: list[str], twice: bool) -> None:
        claim = self.claims[data.draw(st.sampled_from(self.running()), label="flow")]
        plan = [(kind, self._number(claim), self._child(data) if kind in _BIRTHS else None) for kind in kinds]
        for _ in range(1 + twice):
            self.both(lambda db: self._recorded(db, claim, plan))
        self.compare()

    def _number(self, claim: Claimed) -> int:
        highest = max((row.seq for row in _rows(self.sides[0].db, claim.id)), default=0)
        self.next_seq[claim.id] = max(self.next_seq[claim.id], highest) + 1
        return self.next_seq[claim.id]

    def _child(self, data: st.DataObject) -> Any:
        key = data.draw(st.sampled_from([None, None, "shared"]), label="key")
        make = data.draw(st.sampled_from([new_flow, new_job]), label="child")
        return make(id=new_id(), max_losses=MAX_LOSSES, unique_key=key)

    def _recorded(self, db: Any, claim: Claimed, plan: list[tuple[str, int, Any]]) -> Any:
        unread = [each for each in claim.signals[db.dialect] if not each.name.startswith("$")]
        told = [each for each in claim.signals[db.dialect] if each.name.startswith("$")]
        there = {row.signal for row in _rows(db, claim.id)}
        unread, told = ([each for each in some if each.id not in there] for some in (unread, told))
        entries = []
        for kind, seq, child in plan:
            base = {"job_id": claim.id, "fence": claim.fence, "seq": seq, "place": f"{kind}{seq}", "print": seq}
            match kind:
                case "signal" | "told":
                    some = unread if kind == "signal" else told
                    if not some:
                        continue
                    entries.append(Entry(**base, kind="signal", value="{}", signal=some.pop(0).id))
                case "called" | "kept" | "enqueued":
                    value = msgspec.json.encode({"id": child.id}).decode()
                    born = {"value": value, "child": child, "waits": kind != "enqueued", "keeps": kind == "kept"}
                    entries.append(Entry(**base, kind="done" if kind == "enqueued" else "called", **born))
                case _:
                    entries.append(Entry(**base, kind=kind, value=f'{{"n": {seq}}}'))
        answer = db.run(db.ops.record(claim.worker, entries))
        return sorted(answer.lost), dict(sorted(answer.children.items())), len(entries)

    @precondition(lambda self: self.running())
    @rule(
        data=st.data(),
        to=st.sampled_from(["waiting"] * 4 + ["succeeded", "dead", "failed", "canceled", "scheduled", "queued"]),
        names=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        deadline_ms=st.sampled_from([None, None, 5_000]),
        cut=st.integers(0, 4),
    )
    def settle(self, data: st.DataObject, to: str, names: list[str], deadline_ms: int | None, cut: int) -> None:
        claim = self.claims[data.draw(st.sampled_from(self.running()), label="flow")]
        if to in ("dead", "failed", "canceled"):
            entry = Entry(
                job_id=claim.id,
                fence=claim.fence,
                seq=self._number(claim),
                kind="cut",
                place="",
                value=f'{{"from": {cut}}}',
            )
            self.both(lambda db: db.run(db.ops.record(claim.worker, [entry])).lost)
        consumed = data.draw(st.booleans(), label="consumes what told of children")

        def end(db: Any) -> Settled:
            told = tuple(each.id for each in claim.signals[db.dialect] if each.name == "$child") if consumed else ()
            if to == "waiting":
                values = {"awaiting": (*names, *AWAITED), "deadline_ms": deadline_ms, "consumed": told}
                settled = turned(claim.claim, "park", "waiting", **values)
            elif to in ("scheduled", "queued"):
                settled = settlement(claim.claim, to, delay_ms=3_000 if to == "scheduled" else None)
            else:
                settled = turned(claim.claim, "done" if to == "succeeded" else "stop", to, progress=False)
            answer: Settled = db.turn_all([settled], claim.worker)
            return answer

        assert self.both(end) == Settled([], {})
        self._ended(claim)
        self.compare()

    @precondition(lambda self: [job_id for job_id, claim in self.claims.items() if not claim.is_flow])
    @rule(data=st.data(), to=st.sampled_from(["succeeded", "dead"]))
    def end_a_plain_job(self, data: st.DataObject, to: str) -> None:
        plain = sorted(job_id for job_id, claim in self.claims.items() if not claim.is_flow)
        claim = self.claims[data.draw(st.sampled_from(plain), label="job")]
        self.both(lambda db: db.turn_all([settlement(claim.claim, to)], claim.worker))
        self._ended(claim)
        self.compare()

    def _ended(self, claim: Claimed) -> None:
        self.past.append(claim)
        self.claims.pop(claim.id, None)

    @precondition(lambda self: [claim for claim in self.past if claim.is_flow])
    @rule(data=st.data())
    def write_what_comes_too_late(self, data: st.DataObject) -> None:
        """A worker that slept: nothing is written, no child is born."""
        past = [claim for claim in self.past if claim.is_flow][-6:]
        claim = past[data.draw(st.integers(0, len(past) - 1), label="past")]
        running = self.claims.get(claim.id)
        if running is not None and (running.fence, running.worker) == (claim.fence, claim.worker):
            return
        child = new_job(id=new_id())
        base = {"job_id": claim.id, "fence": claim.fence}
        late = [
            Entry(**base, seq=900, kind="done", place="late", value="1"),
            Entry(
                **base, seq=901, kind="called", place="late", value=f'{{"id":"{child.id}"}}', child=child, waits=True
            ),
        ]
        assert self.both(lambda db: db.run(db.ops.record(claim.worker, late)).lost) == [(claim.id, claim.fence)]
        assert self.both(lambda db: [job.id for job in db.find() if job.id == child.id]) == []
        self.compare()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """The function does not wait for its children any more."""
        claim = self.claims[data.draw(st.sampled_from(self.running()), label="flow")]
        mine = [job.id for job in self.jobs() if job.parent_id == claim.id]
        self.both(lambda db: db.run(db.ops.leave(claim.id, mine, fence=claim.fence)))
        self.compare()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def hear_news(self, data: st.DataObject) -> None:
        """What came meanwhile, as the worker asks for it."""
        claim = self.claims[data.draw(st.sampled_from(self.running()), label="flow")]

        def news(db: Any) -> Any:
            found = db.run(db.ops.flow_news(claim.worker, [claim.id]))
            claim.signals[db.dialect] = list(found[claim.id].signals) if claim.id in found else []
            return [(each.name, each.payload) for each in claim.signals[db.dialect]]

        self.both(news)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        worker = self.claims[data.draw(st.sampled_from(sorted(self.claims)), label="job")].worker
        reaped = self.both(lambda db: sorted((each.job_id, each.to) for each in db.reap(worker)))
        due = self.sides[0].db.after(4_000)
        for job_id, to in reaped:
            if to == "scheduled":
                self.both(lambda db, job_id=job_id: db.change(job_id, scheduled_for=due))  # without its jitter
        for claim in [claim for claim in self.claims.values() if claim.worker == worker]:
            self._ended(claim)
        self.workers.remove(worker)
        self.register()
        self.compare()

    # more of what makes the rules above interesting

    @precondition(lambda self: self.flows("waiting", "queued"))
    @rule(
        data=st.data(),
        kinds=rows_of,
        to=st.sampled_from(["waiting", "waiting", "dead", "failed"]),
        cut=st.integers(0, 4),
    )
    def live(self, data: st.DataObject, kinds: list[str], to: str, cut: int) -> None:
        """A signal comes, the flow runs, records it, and parks or ends; then somebody accepts or retries it."""
        flow = data.draw(st.sampled_from(self.flows("waiting", "queued")), label="flow")
        self.both(lambda db: len(db.signal_all([new_signal(flow, name) for name in NAMES])))
        if self.jobs("queued"):
            self.claim(data, 100)
        for _ in self.running():
            self.hear_news(data)
            self.record(data, ["signal", *kinds], False)
        if self.running():
            self.settle(data, to, ["a"], 5_000, cut)
        if to == "waiting" and self.flows("waiting"):
            self.accept(data, cut)
        elif self.jobs(*FINISHED):
            self.retry(data)

    # time

    @precondition(lambda self: self.jobs("scheduled") or any(job.deadline_at for job in self.jobs("waiting")))
    @rule(by=st.sampled_from([1, 3, 6]))
    def tick(self, by: int) -> None:
        self.clock.advance(by)
        self.both(lambda db: db.promote().queued)
        self.compare()

    @precondition(lambda self: len(self.jobs(*FINISHED)) > 3)
    @rule(status=st.sampled_from(FINISHED))
    def prune(self, status: str) -> None:
        self.clock.advance(1)
        self.both(lambda db: db.prune(status, older_than_ms=0))
        self.compare()


class Claimed:
    """An execution: its claim, and the signals that it has not read, by store, since their ids differ."""

    def __init__(self, dialect: str, worker: str, claim: Any) -> None:
        at = checkpoint(claim)
        self.id, self.fence, self.worker, self.claim = claim.id, claim.fence, worker, claim
        self.is_flow = at.step == "$flow"
        self.signals: dict[str, list[Any]] = {dialect: list(at.signals)}
        self.told = (claim.id, claim.fence, claim.tries, claim.losses, [each.name for each in at.signals])


_BIRTHS = frozenset({"called", "kept", "enqueued"})


def _rows(db: Any, job_id: str) -> list[Any]:
    rows: list[Any] = db.run(db.ops.journal([job_id])).rows
    return rows


def _told(row: Any) -> tuple[Any, ...]:
    """A row, without the id of a signal, which each store gives itself."""
    value = None if row.value is None else msgspec.json.decode(row.value)
    return (row.seq, row.fence, row.kind, row.place, value, row.error, row.print, row.at, row.signal is not None)


def _is_left(job: Any, rows: list[Any]) -> bool:
    """Whether a child still goes on that was called by its flow, and should end with it."""
    called = {msgspec.json.decode(row.value)["id"] for row in rows if row.kind == "called"}
    return (
        job.id in called
        and job.status not in FINISHED
        and job.cancel_requested_at is None
        and not (job.step == "$flow" and job.fence)
    )


@pytest.fixture
def machine(both_stores, clock, make_db):
    postgres, sqlite = (Side(make_db(store, clock)) for store in both_stores)
    return lambda: Flows((postgres, sqlite), clock)


def test_both_stores_do_the_same_with_flows(machine, random_walk):
    random_walk(machine, examples=4, full=50)
