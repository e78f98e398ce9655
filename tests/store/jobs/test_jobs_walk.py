"""Both stores do the same random things and must look the same after each; the invariants hold at every step."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headway.errors import HeadwayError
from headway.model.ids import new_id
from headway.model.job import Report, Settlement
from headway.model.status import FINISHED
from tests.store.compared_stores import UUID, Side, difference
from tests.store.jobs.drawn_jobs import jobs
from tests.store.jobs.job_invariants import check_invariants, limit_key_of, partition_of
from tests.tenant_ids import tenant_id

ENDS = {
    "at_least_once": ["succeeded", "scheduled", "queued", "dead", "canceled"],
    "at_most_once": ["succeeded", "failed", "dead", "canceled"],
}


class Stores(RuleBasedStateMachine):
    """Drives both; `self.seen` is what both looked like after the last step."""

    def __init__(self, postgres: Side, sqlite: Side, clock: Any) -> None:
        super().__init__()
        self.sides = (postgres, sqlite)
        self.clock = clock
        self.workers: list[str] = []
        self.claims: list[tuple[str, int, str, str]] = []  # name, fence, delivery, worker
        self.batches: list[list[dict[str, Any]]] = []
        self.seen: dict[str, Any] = {}

    @initialize()
    def begin(self) -> None:
        for side in self.sides:
            side.reset()
            for queue in ("a", "b"):
                # where tenants take turns, when the default one's jobs get into their index is a matter of the store
                side.db.set_fair(queue, False)
        self.compare()
        self.register(600_000)

    # how both are driven and compared

    def both(self, verb: Any) -> Any:
        """Run on both sides; the answers, or the errors, must be equal."""
        answers = [self._answer(side, verb) for side in self.sides]
        assert answers[0] == answers[1], f"PostgreSQL answered {answers[0]}, SQLite {answers[1]}"
        self.compare()
        return answers[0]

    def _answer(self, side: Side, verb: Any) -> Any:
        try:
            return verb(side, side.db.ops)
        except HeadwayError as error:
            job_id = getattr(error, "job_id", None)
            return (type(error).__name__, side.name(job_id))

    def compare(self) -> None:
        postgres, sqlite = (side.look() for side in self.sides)
        for table in postgres:
            if postgres[table] != sqlite[table]:
                raise AssertionError(f"{table} differ:\n{difference(postgres[table], sqlite[table])}")
        self.check(self.seen, postgres)
        self.seen = postgres

    def check(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        check_invariants(before, now)

    # the application

    @rule(batch=st.lists(jobs, min_size=1, max_size=4))
    def enqueue(self, batch: list[dict[str, Any]]) -> None:
        batch = [{"id": new_id(), **options, "after": self._parents(options)} for options in batch]
        self.batches.append(batch)
        self._enqueue(batch)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def enqueue_again(self, data: st.DataObject) -> None:
        self._enqueue(data.draw(st.sampled_from(self.batches), label="batch"))

    def _enqueue(self, batch: list[dict[str, Any]]) -> None:
        from headway.model.job import NewJob

        new = []
        for options in batch:
            expires_ms = options["expires_ms"]
            values = {key: value for key, value in options.items() if key != "expires_ms"}
            if values["after"]:
                values["unique_key"] = None  # which of several that are let go at once has the key is not promised
            if values["unique_key"] is None or values["on_conflict"].startswith("replace"):
                values["unique_for_ms"] = None
            values["concurrency"] = None if values["concurrency_key"] is None else 1
            expires_at = None if expires_ms is None else self.clock.now() + timedelta(milliseconds=expires_ms)
            new.append(NewJob(**values, expires_at=expires_at, tenant_id=tenant_id(options["tenant"])))

        def verb(side: Side, ops: Any) -> Any:
            return [(side.name(e.id), e.status, e.created, e.replaced) for e in side.db.run(ops.enqueue(new))]

        self.both(verb)

    def _parents(self, options: dict[str, Any]) -> tuple[str, ...]:
        """The first or second unfinished job of the tenant that both stores know by the same id."""
        if options["after"] is None:
            return ()
        rows = self.seen["jobs"].values()
        mine = sorted(
            job["id"]
            for job in rows
            if job["tenant"] == options["tenant"] and job["status"] not in FINISHED and UUID.fullmatch(job["id"])
        )
        return tuple(mine[options["after"] : options["after"] + 1])

    def _some(self, data: st.DataObject, most: int = 3) -> list[str]:
        names = sorted(self.seen["jobs"])
        return data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True), label="jobs")

    @precondition(lambda self: self.seen["jobs"])
    @rule(data=st.data(), reason=st.sampled_from([None, "why"]))
    def cancel(self, data: st.DataObject, reason: str | None) -> None:
        names = self._some(data)

        def verb(side: Side, ops: Any) -> Any:
            ids = [side.id(name) for name in names]
            answer = side.db.run(ops.cancel(ids, tenant_id=None, reason=reason, actor="ann"))
            return {side.name(job_id): status for job_id, status in answer.items()}

        self.both(verb)

    @precondition(lambda self: any(job["status"] in FINISHED for job in self.seen["jobs"].values()))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        names = self._some(data)

        def verb(side: Side, ops: Any) -> Any:
            answer = side.db.run(ops.retry([side.id(name) for name in names], tenant_id=None, actor="bob"))
            side.look()
            return {side.name(job_id): side.name(runs) for job_id, runs in answer.items()}

        self.both(verb)

    @precondition(lambda self: self.seen["jobs"])
    @rule(
        data=st.data(),
        change=st.fixed_dictionaries(
            {},
            optional={
                "priority": st.sampled_from([1, 50]),
                "queue": st.sampled_from(["a", "b"]),
                "max_attempts": st.integers(1, 3),
                "timeout_ms": st.sampled_from([None, 5_000]),
                "due_ms": st.sampled_from([None, -1_000, 7_000]),
                "expires_ms": st.sampled_from([None, 9_000]),
                "payload": st.sampled_from(['{"a":1}', "{}"]),
            },
        ),
    )
    def change(self, data: st.DataObject, change: dict[str, Any]) -> None:
        from headway.model.job import Change

        (name,) = self._some(data, 1)
        values = dict(change)
        for short, field in (("due_ms", "scheduled_for"), ("expires_ms", "expires_at")):
            if short in values:
                ms = values.pop(short)
                values[field] = None if ms is None else self.clock.now() + timedelta(milliseconds=ms)

        def verb(side: Side, ops: Any) -> Any:
            return side.db.run(ops.change(side.id(name), Change(**values), tenant_id=None, actor="cat"))

        self.both(verb)

    @rule(train=st.sampled_from(["t1", "t2"]), verb=st.sampled_from(["hold", "resume", "clear"]))
    def operate_train(self, train: str, verb: str) -> None:
        def verbs(side: Side, ops: Any) -> Any:
            match verb:
                case "hold":
                    return side.db.run(ops.hold_train(train, tenant_id=None, reason=None, actor="fay"))
                case "resume":
                    return side.db.run(ops.resume_train(train, tenant_id=None, actor="gil"))
                case _:
                    cleared = side.db.run(ops.clear_train(train, tenant_id=None, actor="hal"))
                    return sorted(side.name(job_id) for job_id in cleared)

        self.both(verbs)

    @precondition(lambda self: any(job["train"] for job in self.seen["jobs"].values()))
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        cars = sorted(name for name, job in self.seen["jobs"].items() if job["train"])
        name = data.draw(st.sampled_from(cars), label="car")
        self.both(lambda side, ops: side.db.run(ops.skip(side.id(name), tenant_id=None, actor="ida")))

    @rule(queue=st.sampled_from(["a", "b"]))
    def pause_or_resume(self, queue: str) -> None:
        paused = queue in self.seen["queues"] and self.seen["queues"][queue]["paused"]

        def verb(side: Side, ops: Any) -> Any:
            return side.db.run(ops.resume(queue, actor="eve") if paused else ops.pause(queue, actor="dan"))

        self.both(verb)

    # the worker

    @rule(lease_ms=st.sampled_from([30_000, 600_000]))
    def register(self, lease_ms: int) -> None:
        from headway.model.fleet import NewWorker

        worker = NewWorker(
            id=new_id(),
            hostname="h",
            pid=1,
            machine=None,
            process_started=None,
            version="1",
            queues={"a": 1, "b": 2},
            kinds=("x",),
            concurrency=3,
            lease_ms=lease_ms,
        )
        self.workers.append(worker.id)
        self.both(lambda side, ops: _beat(side, side.db.run(ops.register(worker))))

    @rule(data=st.data(), busy=st.sampled_from([[], ["a"], ["a", "b"]]))
    def heartbeat(self, data: st.DataObject, busy: list[str]) -> None:
        worker = data.draw(st.sampled_from(self.workers), label="worker")
        self.both(lambda side, ops: _beat(side, side.db.run(ops.heartbeat(worker, running=1, busy=busy))))

    @precondition(lambda self: len(self.workers) > 1)
    @rule(data=st.data())
    def unregister(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.workers), label="worker")
        self.both(lambda side, ops: side.db.run(ops.unregister(worker)))

    @rule(data=st.data(), queue=st.sampled_from(["a", "b"]), limit=st.integers(1, 4))
    def claim(self, data: st.DataObject, queue: str, limit: int) -> None:
        worker = data.draw(st.sampled_from(self.workers[-2:] + self.workers[:1]), label="worker")
        if worker in self.seen["workers"]:
            self._claim(worker, queue, limit)
        else:
            self._claim_of_nobody(worker, queue, limit)

    def _claim(self, worker: str, queue: str, limit: int) -> None:
        before = self.seen

        def verb(side: Side, ops: Any) -> Any:
            claims = side.db.run(ops.claim(worker, queue, limit))
            return [(side.name(claim.id), claim.fence, claim.delivery, claim.tries) for claim in claims]

        claims = self.both(verb)
        self.claims += [(name, fence, delivery, worker) for name, fence, delivery, _ in claims]
        # 5: order is a function of the stored rows
        paused = queue in before["queues"] and before["queues"][queue]["paused"]
        now = self.clock.now()
        busy = {
            key(job)
            for job in self.seen["jobs"].values()
            if job["status"] == "running"
            for key in (partition_of, limit_key_of)
        }
        ready = [
            job
            for job in before["jobs"].values()
            if job["status"] == "queued"
            and job["queue"] == queue
            and (job["expires_at"] is None or job["expires_at"] > now)
        ]
        ready.sort(key=lambda job: (job["priority"], job["position"], job["id"]))
        names = [job["id"] for job in ready]
        taken = [name for name, *_ in claims]
        assert not paused or not taken
        assert taken == sorted(taken, key=names.index), "claimed out of order"
        skipped = names[: names.index(taken[-1])] if taken else [] if paused else names[:limit]
        if not paused and len(taken) < limit:
            skipped = names
        for name in set(skipped) - set(taken):
            # only what would enter a taken scope is passed over, and what its partition or limit keeps back
            job = self.seen["jobs"][name]
            kept_back = not busy.isdisjoint({partition_of(job), limit_key_of(job)} - {None})
            assert job["status"] == "canceled" or kept_back, f"{name} was passed over"

    @precondition(lambda self: self.workers[-1] in self.seen["workers"])
    @rule(batch=st.lists(jobs, min_size=1, max_size=3))
    def enqueue_and_claim(self, batch: list[dict[str, Any]]) -> None:
        """More of what makes the other rules interesting."""
        self.enqueue([{**options, "queue": "a", "delay_ms": None} for options in batch])
        self._claim(self.workers[-1], "a", 4)

    def _claim_of_nobody(self, worker: str, queue: str, limit: int) -> None:
        """LeaseLost; a store that found nothing to take need not have asked who wants it."""
        before = self.seen
        for side in self.sides:
            answer = self._answer(side, lambda side, ops: side.db.run(ops.claim(worker, queue, limit)))
            assert answer in (("LeaseLost", None), []), answer
        self.compare()
        assert self.seen == before

    def _claims(self, data: st.DataObject, most: int) -> list[tuple[str, int, str, str]]:
        rows = self.seen["jobs"]
        live = [
            c for c in self.claims if c[0] in rows and rows[c[0]]["status"] == "running" and rows[c[0]]["fence"] == c[1]
        ]
        known = (live * 4 + self.claims[-6:]) if live else self.claims[-6:]
        picked = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=most, unique=True), label="claims")
        return list({name: claim for claim in picked for name in claim[:1]}.values())

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(),
        delay_ms=st.sampled_from([0, 3_000]),
        charge=st.integers(0, 1),
        stale=st.sampled_from([0, 0, 0, 0, -1, 1]),
    )
    def settle(self, data: st.DataObject, delay_ms: int, charge: int, stale: int) -> None:
        claims = self._claims(data, 3)
        ends = [data.draw(st.sampled_from(ENDS[delivery]), label="to") for _, _, delivery, _ in claims]
        worker = claims[0][3]

        def verb(side: Side, ops: Any) -> Any:
            settlements = [
                _settlement(side.id(name), fence + stale, to, charge, delay_ms)
                for (name, fence, _, _), to in zip(claims, ends, strict=True)
            ]
            lost = side.db.run(ops.settle(worker, settlements)).lost
            return sorted((side.name(job_id), fence) for job_id, fence in lost)

        live = {(name, job["fence"]) for name, job in self.seen["jobs"].items() if job["status"] == "running"}
        before = self.seen
        self.both(verb)
        if not any((name, fence + stale) in live for name, fence, _, _ in claims):
            assert self.seen == before  # 2: an old fence changes nothing

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 3_000]), charge=st.integers(0, 1))
    def commit_outcome(self, data: st.DataObject, delay_ms: int, charge: int) -> None:
        ((name, fence, delivery, _),) = self._claims(data, 1)
        to = data.draw(st.sampled_from(ENDS[delivery]), label="to")

        def verb(side: Side, ops: Any) -> Any:
            return side.db.run(ops.commit_outcome(_settlement(side.id(name), fence, to, charge, delay_ms)))

        before = self.seen
        self.both(verb)
        assert self.seen == before  # nothing follows before it is settled

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), refused=st.sampled_from([None, None, None, "refused"]))
    def settle_committed(self, data: st.DataObject, refused: str | None) -> None:
        claims = self._claims(data, 3)

        def verb(side: Side, ops: Any) -> Any:
            given = [(side.id(name), fence) for name, fence, _, _ in claims]
            settled = side.db.run(ops.settle_committed(given, refused=refused))
            side.look()
            return sorted((side.name(each.id), each.fence, each.to) for each in settled)

        self.both(verb)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 3_000]))
    def release(self, data: st.DataObject, delay_ms: int) -> None:
        claims = self._claims(data, 2)

        def verb(side: Side, ops: Any) -> Any:
            given = [(side.id(name), fence) for name, fence, _, _ in claims]
            return side.db.run(ops.release(given, delay_ms=delay_ms))

        self.both(verb)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), progress=st.sampled_from([None, 0.5]), tail=st.sampled_from([None, "tail"]))
    def report(self, data: st.DataObject, progress: float | None, tail: str | None) -> None:
        ((name, fence, _, worker),) = self._claims(data, 1)

        def verb(side: Side, ops: Any) -> Any:
            asked = side.db.run(ops.report(worker, [Report(side.id(name), fence, progress, "note", tail)]))
            return sorted((side.name(job_id), fence) for job_id, fence in asked)

        self.both(verb)

    # the tick

    @rule(by=st.sampled_from([1, 5, 10, 31, 61]))
    def advance(self, by: int) -> None:
        self.clock.advance(by)
        self.compare()  # a lease may be over now

    @rule()
    def promote(self) -> None:
        # what arrived is looked at at once on SQLite
        self.both(lambda side, ops: msgspec.structs.replace(side.db.run(ops.promote(limit=1_000)), arrived=0))

    @rule(data=st.data(), named=st.booleans())
    def reap(self, data: st.DataObject, named: bool) -> None:
        gone = [data.draw(st.sampled_from(self.workers), label="gone")] if named and len(self.workers) > 1 else []
        before = self.seen
        answers = []
        for side in self.sides:
            reaped = side.db.run(side.db.ops.reap(gone, limit=1_000))
            side.look()
            answers.append(
                sorted((side.name(r.job_id), r.fence, r.kind, r.worker_id, r.to or "committed") for r in reaped)
            )
        assert answers[0] == answers[1], f"PostgreSQL reaped {answers[0]}, SQLite {answers[1]}"
        due = self.clock.now() + timedelta(seconds=4)
        for name, _, _, _, to in answers[0]:
            if to not in ("scheduled", "failed"):
                continue
            again = name if to == "scheduled" else f"{name}'"
            for side in self.sides:
                self._hold_jitter(side, again, before["jobs"][name], due)
        self.compare()

    def _hold_jitter(self, side: Side, name: str, old: dict[str, Any], due: datetime) -> None:
        """Check that the backoff is in its bounds, and put the same time in its place on both sides."""
        from headway.model.job import Change

        job = side.db.job(side.id(name))
        if job.status != "scheduled":
            return  # superseded
        wait = (job.scheduled_for - self.clock.now()) / timedelta(milliseconds=1)
        assert 0 <= wait <= 2 * min(old["backoff_base_ms"] * 2 ** old["losses"], old["backoff_cap_ms"])
        side.db.run(side.db.ops.change(job.id, Change(scheduled_for=due), tenant_id=None, actor="test"))

    @precondition(lambda self: any(job["status"] in FINISHED for job in self.seen["jobs"].values()))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        names = self._some(data)

        def verb(side: Side, ops: Any) -> Any:
            ids = [side.id(name) for name in names]
            answer = side.db.run(ops.delete(ids, tenant_id=None, reason=None, actor="ann"))
            return {side.name(job_id): found for job_id, found in answer.items()}

        self.both(verb)

    @rule(status=st.sampled_from(FINISHED), older_than_ms=st.sampled_from([0, 30_000]))
    def prune(self, status: str, older_than_ms: int) -> None:
        self.both(lambda side, ops: side.db.run(ops.prune(status, older_than_ms=older_than_ms, limit=1_000)))


def _settlement(job_id: str, fence: int, to: str, charge: int, delay_ms: int) -> Settlement:
    status = {"succeeded": "succeeded", "queued": "released", "canceled": "canceled"}
    return Settlement(
        id=job_id,
        fence=fence,
        status=status.get(to, "failed"),
        to=to,
        charge=charge if to in ("scheduled", "dead", "failed") else 0,
        delay_ms=delay_ms,
        result='{"r":1}' if to == "succeeded" else None,
        error=None if to == "succeeded" else f"error {to}",
        exit_code=fence,
    )


def _beat(side: Side, beat: Any) -> Any:
    return (beat.alive, beat.fleet, sorted((side.name(job_id), fence) for job_id, fence in beat.canceling))


@pytest.fixture
def machine(both_stores, clock, make_db):
    postgres, sqlite = (Side(make_db(store, clock)) for store in both_stores)
    return lambda: Stores(postgres, sqlite, clock)


def test_both_stores_look_the_same_after_the_same_operations(machine, random_walk):
    random_walk(machine, examples=6, full=200)  # those over groups are made of the same steps, and more
