"""Random machines, signals, spawns, crashes, cancels and time on both stores, against a model in plain Python."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headway.errors import NotAllowed
from headway.model.ids import new_id
from headway.model.job import Claim, Settlement
from headway.model.machine import Settled
from headway.model.status import FINISHED
from tests.store.compared_stores import Side
from tests.store.machines.machine_calls import checkpoint, new_machine, new_signal, received, turned
from tests.store.machines.machine_model import Mail, Model, World

NAMES = ("a", "b", "c")
MAX_LOSSES = 2
OUTCOMES = ("next", "on", "replay", "await", "await", "await", "spawn", "spawn", "sleep", "done", "stop", "fail")
choices = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(OUTCOMES),
        "names": st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
        "match": st.sampled_from(["any", "all"]),
        "deadline_ms": st.sampled_from([None, None, 5_000]),
        "children": st.integers(1, 3),
        "on_failure": st.sampled_from(["continue", "stop"]),
        "twice": st.booleans(),
    }
)


class Machines(RuleBasedStateMachine):
    def __init__(self, sides: tuple[Side, Side], clock: Any) -> None:
        super().__init__()
        self.sides = sides
        self.clock = clock
        self.all = World()
        self.workers: list[str] = []
        self.past: list[tuple[str, int]] = []  # executions that ended

    @initialize()
    def begin(self) -> None:
        for side in self.sides:
            side.reset()
        for _ in range(2):
            self.register()

    def register(self) -> None:
        worker = self.sides[0].db.worker(lease_ms=10**12)
        for side in self.sides[1:]:
            side.db.worker(id=worker, lease_ms=10**12)
        self.workers.append(worker)

    # how both are driven and compared with the model

    def both(self, verb: Any) -> Any:
        answers = []
        for side in self.sides:
            try:
                answers.append(verb(side.db))
            except NotAllowed as error:
                answers.append(type(error))
            side.db.process_arrivals()
        assert answers[0] == answers[1], f"PostgreSQL answered {answers[0]}, SQLite {answers[1]}"
        return answers[0]

    def compare(self) -> None:
        self.all.wake()
        expected = {one.id: self._expected(one) for one in self.all.values()}
        for side in self.sides:
            signaled = {str(job_id) for (job_id,) in side.db.sql("select distinct job_id from {signals}")}
            spawners = {str(job_id) for (job_id,) in side.db.sql("select distinct child_id from {edges}")}
            rows = {job.id: self._found(side.db, job, job.id in signaled, job.id in spawners) for job in side.db.find()}
            assert rows == expected, side.db.dialect + "\n" + _difference(rows, expected)

    def _expected(self, one: Model) -> dict[str, Any]:
        rest = "undelivered" if one.over else "pending"
        return {
            "status": one.status,
            "step": one.step,
            "state": one.state,
            "awaiting": one.awaiting,
            "match": one.match,
            "deadline_at": one.deadline if one.status == "waiting" else None,
            "joining": one.joining,
            "woken": one.woken,
            "fence": one.fence,
            "tries": one.tries,
            "losses": one.losses,
            "worker_id": one.worker,
            "asked": one.asked,
            "parent_id": one.parent,
            "pending": one.status == "waiting" and one.joining is not None,
            "inbox": [(mail.id, "consumed" if mail.fence else rest, mail.fence) for mail in one.inbox],
            "children": [(child, self.all[child].status) for child in one.waits],
            "spawned": [(fence, child) for fence, ids in sorted(one.spawned.items()) for child in ids],
        }

    def _found(self, db: Any, job: Any, signaled: bool, spawner: bool) -> dict[str, Any]:
        names = ("status", "step", "state", "awaiting", "match", "joining", "woken", "fence", "tries", "losses")
        return {
            **{name: getattr(job, name) for name in (*names, "worker_id", "parent_id", "pending")},
            "deadline_at": job.deadline_at if job.status == "waiting" else None,
            "asked": job.cancel_requested_at is not None,
            "inbox": [(each.id, each.status, each.fence) for each in db.signals(job.id)] if signaled else [],
            "children": [(child.id, child.status) for child in db.children(job.id)] if spawner else [],
            "spawned": db.spawned(job.id) if spawner else [],
        }

    def pick(self, data: st.DataObject, *statuses: str) -> Model:
        ids = sorted(one.id for one in self.all.values() if not statuses or one.status in statuses)
        return self.all[data.draw(st.sampled_from(ids), label="machine")]

    def any(self, *statuses: str) -> bool:
        return any(one.status in statuses for one in self.all.values())

    # the application

    @precondition(lambda self: sum(not one.over for one in self.all.values()) < 6)
    @rule(count=st.integers(1, 2))
    def enqueue(self, count: int) -> None:
        new = [new_machine(id=new_id(), max_losses=MAX_LOSSES) for _ in range(count)]
        self.both(lambda db: [answer.created for answer in db.enqueue_all(new)])
        self.all.update({job.id: Model(job.id) for job in new})
        self.compare()

    @precondition(lambda self: self.all)
    @rule(
        data=st.data(),
        sent=st.lists(
            st.tuples(st.sampled_from(NAMES), st.sampled_from([None, None, "k1", "k2"])), min_size=1, max_size=3
        ),
    )
    def signal(self, data: st.DataObject, sent: list[tuple[str, str | None]]) -> None:
        """To any machine, also one that is over; all or none."""
        live = [*self.all.values()]
        live += [one for one in live if one.status == "waiting"] * 4
        one = self.all[data.draw(st.sampled_from(sorted(each.id for each in live)), label="machine")]
        self.send(one, sent)

    def send(self, one: Model, sent: list[tuple[str, str | None]]) -> None:
        new = [new_signal(one.id, name, {"of": name}, dedup_key=key) for name, key in sent]
        expected: Any = []
        inbox = list(one.inbox)
        for signal in new:
            first = next((mail for mail in inbox if mail.dedup_key == signal.dedup_key is not None), None)
            if first is None:
                inbox.append(Mail(signal.id, signal.name, signal.dedup_key))
            expected.append((first.id if first else signal.id, first is None))
        if one.over and any(created for _, created in expected):
            expected = NotAllowed
        else:
            one.inbox = inbox
        assert self.both(lambda db: [(each.id, each.created) for each in db.signal_all(new)]) == expected
        self.compare()

    @precondition(lambda self: self.all)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        one = self.pick(data)
        self.all.cancel(one)
        self.both(lambda db: db.cancel(one.id))
        self.compare()

    @precondition(lambda self: any(one.sleeps_until for one in self.all.values() if one.status == "scheduled"))
    @rule(data=st.data())
    def cancel_and_retry_a_sleeper(self, data: st.DataObject) -> None:
        one = self.pick(data, "scheduled")
        self.all.cancel(one)
        self.both(lambda db: db.cancel(one.id))
        self.compare()  # its parent may have been woken
        self.revive(one)

    @precondition(lambda self: self.any(*FINISHED))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        self.revive(self.pick(data, *FINISHED))

    def revive(self, one: Model) -> None:
        parked = one.status == "canceled" and one.woken is None and (one.awaiting or one.joining is not None)
        if one.status in ("succeeded", "dead"):
            for mail in one.inbox:
                mail.fence = None if mail.fence == one.fence else mail.fence
        sleeps = one.status == "canceled" and one.sleeps_until is not None and one.sleeps_until > self.clock.now()
        one.due = one.sleeps_until if sleeps else None
        one.status, one.tries, one.losses = "waiting" if parked else "scheduled" if sleeps else "queued", 0, 0
        assert self.both(lambda db: db.retry(one.id)) == {one.id: one.id}
        self.compare()

    # the worker

    @precondition(lambda self: self.any("queued"))
    @rule(data=st.data(), limit=st.sampled_from([1, 2, 100]))
    def claim(self, data: st.DataObject, limit: int) -> None:
        worker = data.draw(st.sampled_from(self.workers), label="worker")
        ready = {one.id for one in self.all.values() if one.status == "queued"}
        claims = self.both(lambda db: [(c.id, c.fence, c.tries, _checkpoint(c)) for c in db.claim(worker, limit=limit)])
        assert len(claims) == min(limit, len(ready))
        for job_id, fence, tries, at in claims:
            assert job_id in ready
            one = self.all[job_id]
            one.starts(worker)
            assert (fence, tries) == (one.fence, one.tries)
            assert at == {
                "step": one.step,
                "state": one.state,
                "awaiting": one.awaiting,
                "match": one.match,
                "joining": one.joining,
                "woken": one.woken,
                "parent_id": one.parent,
                "signals": tuple(mail.id for mail in one.unconsumed),
            }
        self.compare()

    @precondition(lambda self: self.any("running"))
    @rule(data=st.data(), ending=choices)
    def settle(self, data: st.DataObject, ending: dict[str, Any]) -> None:
        self.settle_some([(self.pick(data, "running"), ending)])

    def settle_some(self, pairs: list[tuple[Model, dict[str, Any]]]) -> None:
        """End executions of one worker in one batch; where one says so, send the batch twice."""
        worker, twice = pairs[0][0].worker, any(ending["twice"] for _, ending in pairs)
        batch, continued = [], {}
        for one, ending in pairs:
            outcome = ending["outcome"]
            if one.asked and outcome == "spawn":
                outcome = "next"  # the contract tests have that case
            self.past.append((one.id, one.fence))
            settlement = self._settlement(one, outcome, ending)
            goes_on = self._settled(one, outcome, settlement)
            batch.append(settlement)
            if goes_on is not None:
                continued[one.id] = goes_on
        for _ in range(1 + twice):
            assert self.both(lambda db: _answer(db.turn_all(batch, worker))) == ([], continued)
        self.compare()

    def _settlement(self, one: Model, outcome: str, ending: dict[str, Any]) -> Settlement:
        claim = _claim(one)
        values: dict[str, Any] = {"step": f"s{one.fence}", "state": {"n": one.fence}, "consumed": one.matched}
        match outcome:
            case "fail":
                end = {"status": "failed", "to": "scheduled", "charge": 1, "delay_ms": 3_000, "error": "boom"}
                return Settlement(id=one.id, fence=one.fence, **end)
            case "replay":
                values = {"state": {"r": one.fence}, "progress": False, "charge": 1, "delay_ms": 3_000}
            case "await":
                values |= {
                    "awaiting": tuple(ending["names"]),
                    "match": ending["match"],
                    "deadline_ms": ending["deadline_ms"],
                }
            case "spawn":
                new = [new_machine(id=new_id(), max_losses=MAX_LOSSES) for _ in range(ending["children"])]
                values |= {"children": tuple(new), "on_failure": ending["on_failure"]}
            case "sleep":
                values |= {"delay_ms": 4_000}
            case "done" | "stop":
                values = {"consumed": one.matched, "progress": False}
        return turned(claim, "next" if outcome == "on" else outcome, "running" if outcome == "on" else None, **values)

    def _settled(self, one: Model, outcome: str, ending: Any) -> Any:
        """Move the model; gives what `continued` says of it."""
        turn = ending.turn
        if outcome == "fail":
            one.tries += 1
        elif outcome == "replay":
            one.tries += 1
            one.state = {"r": one.fence}
        else:
            for mail in one.inbox:
                mail.fence = one.fence if mail.id in turn.consumed else mail.fence
            one.step = turn.step
            one.state = one.state if turn.state is None else msgspec.json.decode(turn.state)
        if turn is not None and turn.progress:
            one.tries = one.losses = 0
            one.sleeps_until = self.sides[0].db.after(ending.delay_ms) if outcome == "sleep" else None
            one.awaiting, one.match, one.woken, one.joining = turn.awaiting, turn.match, None, None
            one.deadline = None if turn.deadline_ms is None else self.sides[0].db.after(turn.deadline_ms)
        worker, fence = one.worker, one.fence
        one.worker = None
        if one.asked and outcome not in ("done", "stop"):
            self.all.end(one, "canceled")
            return None
        match outcome:
            case "done":
                self.all.end(one, "succeeded")
            case "stop":
                self.all.end(one, "dead")
            case "next":
                one.status = "queued"
            case "on":
                one.starts(worker)
                return tuple(mail.name for mail in one.unconsumed)
            case "fail" | "replay" | "sleep":
                one.status, one.due = "scheduled", self.sides[0].db.after(ending.delay_ms)
            case "await":
                one.status = "waiting"
            case "spawn":
                one.status, one.joining = "waiting", fence
                one.spawned[fence] = [child.id for child in turn.children]
                one.policy[fence] = turn.on_failure
                self.all.update({child.id: Model(child.id, parent=one.id) for child in turn.children})
        return None

    @precondition(lambda self: self.past)
    @rule(data=st.data(), outcome=st.sampled_from(["next", "on", "await", "spawn", "done"]))
    def settle_what_is_over(self, data: st.DataObject, outcome: str) -> None:
        """A worker that slept: another has the machine now, or nobody; nothing is written."""
        job_id, fence = data.draw(st.sampled_from(self.past[-6:]), label="past")
        if job_id not in self.all:
            return
        one = self.all[job_id]
        claim = msgspec.structs.replace(_claim(one), fence=fence)
        child = new_machine(id=new_id())
        values = {"step": "late", "state": {"late": 1}, "consumed": tuple(mail.id for mail in one.unconsumed)}
        values |= {"awaiting": ("a",)} if outcome == "await" else {"children": (child,)} if outcome == "spawn" else {}
        late = turned(claim, "next" if outcome == "on" else outcome, "running" if outcome == "on" else None, **values)
        stranger = self.sides[0].db.worker()
        self.sides[1].db.worker(id=stranger)
        answer = self.both(lambda db: _answer(db.turn_all([late], stranger)))
        assert answer == ([(job_id, fence)], {})
        self.both(lambda db: db.unregister(stranger))
        self.compare()

    @precondition(lambda self: self.any("running"))
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        worker = self.pick(data, "running").worker
        lost = {one.id: one for one in self.all.values() if one.worker == worker}
        answer = self.both(lambda db: sorted((each.job_id, each.to) for each in db.reap(worker)))
        due = self.sides[0].db.after(4_000)
        expected = []
        for one in lost.values():
            self.past.append((one.id, one.fence))
            one.losses, one.worker = one.losses + 1, None
            to = "canceled" if one.asked else "dead" if one.losses >= MAX_LOSSES else "scheduled"
            expected.append((one.id, to))
            if to == "scheduled":
                one.status, one.due = "scheduled", due
                self.both(lambda db, job_id=one.id: db.change(job_id, scheduled_for=due))  # without its jitter
            else:
                self.all.end(one, to)
        assert answer == sorted(expected)
        self.workers.remove(worker)
        self.register()
        self.compare()

    # more of what makes the rules above interesting

    @precondition(lambda self: self.any("queued"))
    @rule(data=st.data(), rounds=st.lists(choices, min_size=1, max_size=4))
    def work(self, data: st.DataObject, rounds: list[dict[str, Any]]) -> None:
        """Claim, and end several executions in one batch."""
        self.claim(data, 100)
        worker = next(one.worker for one in self.all.values() if one.worker is not None)
        mine = [one for one in self.all.values() if one.worker == worker]
        # those that something woke first
        mine.sort(key=lambda one: (one.woken is None, one.id))
        self.settle_some(list(zip(mine, rounds, strict=False)))

    @precondition(lambda self: any(one.status == "waiting" and one.awaiting for one in self.all.values()))
    @rule(data=st.data(), ending=choices)
    def answer(self, data: st.DataObject, ending: dict[str, Any]) -> None:
        """Send a machine what it waits for, and run it."""
        ids = sorted(one.id for one in self.all.values() if one.status == "waiting" and one.awaiting)
        one = self.all[data.draw(st.sampled_from(ids), label="machine")]
        self.send(one, [(name, None) for name in one.awaiting])
        assert one.status == "queued"
        self.claim(data, 100)
        self.settle_some([(one, ending)])

    @precondition(lambda self: any(one.status == "waiting" and one.joining for one in self.all.values()))
    @rule(data=st.data(), bad=st.booleans(), ending=choices)
    def raise_children(self, data: st.DataObject, bad: bool, ending: dict[str, Any]) -> None:
        """Run the children of a machine to their end, and then the machine."""
        ids = sorted(one.id for one in self.all.values() if one.status == "waiting" and one.joining)
        parent = self.all[data.draw(st.sampled_from(ids), label="parent")]
        for outcome in ["stop" if bad else "done", "done", "done"]:
            if self.any("queued"):
                self.claim(data, 100)
            kids = [self.all[child] for child in parent.waits if self.all[child].status == "running"]
            for kid in kids[:1]:
                self.settle_some([(kid, {**ending, "outcome": outcome})])
        if parent.status == "queued":
            self.claim(data, 100)
            self.settle_some([(parent, ending)])

    @precondition(lambda self: any(one.status == "waiting" and one.joining for one in self.all.values()))
    @rule(data=st.data(), order=st.sampled_from(["child", "machine"]))
    def cancel_and_retry(self, data: st.DataObject, order: str) -> None:
        """Of a machine that waits, with one of its children."""
        ids = sorted(one.id for one in self.all.values() if one.status == "waiting" and one.joining)
        parent = self.all[data.draw(st.sampled_from(ids), label="parent")]
        self.all.cancel(parent)
        self.both(lambda db: db.cancel(parent.id))
        self.compare()
        kids = [self.all[child] for child in parent.waits if self.all[child].over]
        for one in [*kids[:1], parent] if order == "child" else [parent, *kids[:1]]:
            self.revive(one)

    # the tick

    @rule(by=st.sampled_from([1, 3, 6]))
    def tick(self, by: int) -> None:
        self.clock.advance(by)
        now = self.clock.now()
        due = 0
        for one in self.all.values():
            if one.status == "scheduled" and one.due <= now:
                one.status, due = "queued", due + 1
            elif one.status == "waiting" and one.deadline is not None and one.deadline <= now:
                one.status, one.woken, one.deadline, due = "queued", "timeout", None, due + 1
        assert self.both(lambda db: db.promote().queued) == due
        self.compare()

    @rule(status=st.sampled_from(FINISHED))
    def prune(self, status: str) -> None:
        self.clock.advance(1)
        kept = {child for one in self.all.values() if not one.over for child in one.waits}
        gone = [one.id for one in self.all.values() if one.status == status and one.id not in kept]
        assert self.both(lambda db: db.prune(status, older_than_ms=0)) == len(gone)
        for job_id in gone:
            del self.all[job_id]
        for one in self.all.values():
            left = {fence: [child for child in ids if child in self.all] for fence, ids in one.spawned.items()}
            one.spawned = {fence: ids for fence, ids in left.items() if ids}
        self.compare()


def _claim(one: Model) -> Claim:
    at = new_machine(step=one.step).checkpoint
    text = msgspec.json.encode(at).decode()
    budget = {"max_attempts": 5, "max_losses": MAX_LOSSES, "backoff_base_ms": 1, "backoff_cap_ms": 1}
    rest = {"timeout_ms": None, "delivery": "at_least_once", "correlation_id": None, "trace_id": None, "meta": None}
    base = {"tenant_id": "", "kind": "checkout", "queue": "default", "payload": "{}", "tries": 0, "losses": 0}
    return Claim(id=one.id, fence=one.fence, checkpoint=text, **base, **budget, **rest)


def _checkpoint(claim: Claim) -> dict[str, Any]:
    at = checkpoint(claim)
    return {
        "step": at.step,
        "state": msgspec.json.decode(at.state) if bytes(at.state) else None,
        "awaiting": at.awaiting,
        "match": at.match,
        "joining": at.joining,
        "woken": at.woken,
        "parent_id": at.parent_id,
        "signals": tuple(signal.id for signal in at.signals),
    }


def _answer(settled: Settled) -> Any:
    return sorted(settled.lost), {job_id: tuple(received(text)) for job_id, text in settled.continued.items()}


def _difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    lines = []
    for job_id in sorted({*found, *expected}):
        one, two = found.get(job_id, {}), expected.get(job_id, {})
        lines += [
            f"  {job_id} ({two.get('status')}) {name}: found {one.get(name)!r}, expected {two.get(name)!r}"
            for name in {**one, **two}
            if one.get(name) != two.get(name)
        ]
    return "\n".join(lines)


@pytest.fixture
def machine(both_stores, clock, make_db):
    postgres, sqlite = (Side(make_db(store, clock)) for store in both_stores)
    return lambda: Machines((postgres, sqlite), clock)


def test_machines_are_what_plain_objects_say(machine, random_walk):
    random_walk(machine, examples=6, full=200)


def test_the_model_itself_wakes_and_stops():
    """The rules, by hand: what the walk believes is right."""
    world = World()
    parent = world["p"] = Model("p", status="waiting", joining=1, spawned={1: ["x", "y"]}, policy={1: "stop"})
    one, two = (world.setdefault(name, Model(name, parent="p")) for name in "xy")
    world.wake()
    assert parent.status == "waiting"
    world.end(one, "dead")
    assert two.status == "canceled"
    world.wake()
    assert (parent.status, parent.woken) == ("queued", "children")
    two.status, two.awaiting, two.inbox = "waiting", ("a",), [Mail("1", "b", None), Mail("2", "a", None)]
    world.wake()
    assert (two.status, two.woken) == ("queued", "signal")
