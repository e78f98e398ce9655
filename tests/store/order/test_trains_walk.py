"""Random walks over trains, with cancels, moves, retries and crashes, whose model is a plain list of cars per train."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.job import NewJob, Settlement
from headway.model.status import FINISHED

TRAINS = ("x", "y")
SEATED = ("queued", "running", "scheduled")
ENDS = {"succeeded": "succeeded", "queued": "released", "canceled": "canceled"}

cars = st.fixed_dictionaries(
    {
        "train": st.sampled_from(TRAINS),
        "priority": st.sampled_from([100, 1]),
        "on_dead": st.sampled_from(["advance", "advance", "hold"]),
        "on_canceled": st.sampled_from(["advance", "advance", "hold"]),
        "delay_ms": st.sampled_from([None, None, None, 5_000]),
        "delivery": st.sampled_from(["at_least_once", "at_least_once", "at_most_once"]),
        "max_losses": st.sampled_from([1, 2]),
    }
)


@dataclass
class Car:
    """What the model knows of one job."""

    id: str
    options: dict[str, Any]
    due: datetime | None = None
    status: str = "held"
    fence: int = 0
    losses: int = 0
    worker: str | None = None
    asked: bool = False
    retried: bool = False  # by another job

    @property
    def over(self) -> bool:
        return self.status in FINISHED

    @property
    def once(self) -> bool:
        return self.options["delivery"] == "at_most_once"


@dataclass
class Model:
    """A train: every car that was ever in it and is not pruned, in order, and why it stands still."""

    cars: list[Car] = field(default_factory=list)
    held_by: str | None = None  # a car's id, or "operator"

    @property
    def locomotive(self) -> Car | None:
        seated = [car for car in self.cars if car.status in SEATED]
        assert len(seated) <= 1
        return seated[0] if seated else None

    @property
    def held(self) -> list[Car]:
        return [car for car in self.cars if car.status == "held"]

    def let_go(self, now: datetime) -> None:
        """The one rule of trains."""
        if self.held_by is None and self.locomotive is None and self.held:
            head = self.held[0]
            head.status = "scheduled" if head.due is not None and head.due > now else "queued"

    def end(self, car: Car, to: str, now: datetime, *, holds: bool = True) -> None:
        policy = {"dead": "on_dead", "canceled": "on_canceled"}.get(to, "")
        if holds and self.held_by is None and car.status in SEATED and car.options.get(policy) == "hold":
            self.held_by = car.id
        car.status, car.worker, car.asked = to, None, False
        self.let_go(now)


class Yard(RuleBasedStateMachine):
    def __init__(self, db: Any) -> None:
        super().__init__()
        self.db = db
        self.workers: list[str] = []
        self.trains: dict[str, Model] = {}

    @property
    def all(self) -> dict[str, Car]:
        return {car.id: car for train in self.trains.values() for car in train.cars}

    def of(self, car: Car) -> Model:
        return self.trains[car.options["train"]]

    @initialize()
    def begin(self) -> None:
        self.db.find()  # a file is made by its first op
        for table in ("jobs", "attempts", "workers", "audit", "holds"):
            self.db.sql(f"delete from {self.db.table(table)}")
        if self.db.dialect == "postgres":
            self.db.sql("delete from {arrivals}")
        self.trains = {name: Model() for name in TRAINS}
        self.workers = []
        for _ in range(2):
            self.register()

    def register(self) -> None:
        worker = NewWorker(
            id=new_id(),
            hostname="h",
            pid=1,
            machine=None,
            process_started=None,
            version="1",
            queues={"default": 9},
            kinds=("k",),
            concurrency=9,
            lease_ms=10**12,
        )
        self.db.run(self.db.ops.register(worker))
        self.workers.append(worker.id)

    def compare(self) -> None:
        """Everything that arrived was let go: now the rows must be what the lists say."""
        self.db.process_arrivals()
        rows = {job.id: job for job in self.db.find()}
        assert {job_id: job.status for job_id, job in rows.items()} == {c.id: c.status for c in self.all.values()}
        listed = {train.train: train for train in self.db.trains()}
        for name, train in self.trains.items():
            locomotive = [train.locomotive.id] if train.locomotive else []
            order = locomotive + [car.id for car in train.held]
            assert self.db.cars(name) == order, f"train {name}"
            assert (name in listed) == bool(order or train.held_by)
            if name in listed:
                assert (listed[name].length, listed[name].head_id) == (len(order), order[0] if order else None)
                hold = listed[name].hold
                assert (None if hold is None else hold.job_id or "operator") == train.held_by
        for car in self.all.values():
            job = rows[car.id]
            assert (job.fence, job.losses, job.worker_id) == (car.fence, car.losses, car.worker), job
            assert (job.queued_at is not None) or job.status not in ("queued", "running"), job
        assert not self.db.sweep(), "a sweep found something that no outside hand broke"

    def reorder(self, train: Model) -> None:
        """Where a moved car stands among those that are over is the store's own matter."""
        # not by id, too: a car and its retry have one position, and PostgreSQL makes another id each time
        places = {job.id: job.position for job in self.db.find()}
        before = [car.id for car in train.held]
        train.cars.sort(key=lambda car: places[car.id])
        assert [car.id for car in train.held] == before, "a move put a car in a wrong place"

    def some(self, data: st.DataObject, found: list[Car], most: int = 1) -> list[Car]:
        # in the trains' order, not by id: PostgreSQL makes the ids of retries, in another order each time
        names = [car.id for car in found]
        picked = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True), label="cars")
        return [self.all[job_id] for job_id in picked]

    # the application

    @rule(batch=st.lists(cars, min_size=1, max_size=4), how=st.sampled_from(["own", "own", "commit", "rollback"]))
    def enqueue(self, batch: list[dict[str, Any]], how: str) -> None:
        new = [NewJob(id=new_id(), kind="k", **options) for options in batch]
        op = self.db.ops.enqueue(new)
        if how == "own":
            self.db.run(op)
        else:
            with closing(self.db.connect()) as conn:
                conn.execute("begin")
                self.db.store.run_in(conn, op)
                conn.execute(how)
        if how != "rollback":
            for job, options in zip(new, batch, strict=True):
                due = None if job.delay_ms is None else self.db.after(job.delay_ms)
                self.trains[job.train].cars.append(Car(job.id, options, due))
            for train in self.trains.values():
                train.let_go(self.db.now())
        self.compare()

    @precondition(lambda self: any(not car.over for car in self.all.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        picked = self.some(data, [car for car in self.all.values() if not car.over], 4)
        self.db.cancel(*(car.id for car in picked))
        # what was held when it was canceled holds nothing, also if the locomotive went with it
        for car in sorted(picked, key=lambda car: car.status != "held"):
            if car.status == "running":
                car.asked = True
            else:
                self.of(car).end(car, "canceled", self.db.now())
        self.compare()

    # the worker

    @precondition(lambda self: any(car.status == "queued" for car in self.all.values()))
    @rule(data=st.data(), limit=st.integers(1, 3))
    def claim(self, data: st.DataObject, limit: int) -> None:
        worker = data.draw(st.sampled_from(self.workers), label="worker")
        rows = {job.id: (job.priority, job.position, job.id) for job in self.db.find()}
        ready = sorted((c for c in self.all.values() if c.status == "queued"), key=lambda car: rows[car.id])[:limit]
        claims = self.db.claim(worker, limit=limit)
        assert [claim.id for claim in claims] == [car.id for car in ready]
        for car in ready:
            car.status, car.worker, car.fence = "running", worker, car.fence + 1
        self.compare()

    @precondition(lambda self: any(car.status == "running" for car in self.all.values()))
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 3_000]))
    def settle(self, data: st.DataObject, delay_ms: int) -> None:
        picked = self.some(data, [car for car in self.all.values() if car.status == "running"], 2)
        settlements, ends = [], []
        for car in picked:
            again = ["failed"] if car.once else ["scheduled", "queued"]
            to = data.draw(st.sampled_from(["succeeded", "succeeded", "dead", "canceled", *again]), label="to")
            ends.append(to)
            settlements.append(
                Settlement(id=car.id, fence=car.fence, status=ENDS.get(to, "failed"), to=to, delay_ms=delay_ms)
            )
        assert self.db.settle_all(settlements, picked[0].worker) == []
        for car, to in zip(picked, ends, strict=True):
            self.ended(car, to, delay_ms)
        self.compare()

    @precondition(lambda self: any(car.status == "queued" for car in self.all.values()))
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 3_000]))
    def work(self, data: st.DataObject, delay_ms: int) -> None:
        """More of what moves trains."""
        self.claim(data, 3)
        self.settle(data, delay_ms)

    def ended(self, car: Car, to: str, delay_ms: int) -> None:
        train, now = self.of(car), self.db.now()
        if car.asked and to in ("scheduled", "queued", "failed"):
            train.end(car, "canceled", now)
        elif to == "failed":
            self.succeed(car)
            car.status, car.worker = "failed", None
        elif to in FINISHED:
            train.end(car, to, now)
        else:
            car.worker = None
            car.status = "scheduled" if to == "scheduled" and delay_ms else "queued"
            car.due = self.db.job(car.id).scheduled_for

    def succeed(self, car: Car, *, held: bool = False) -> Car:
        """Another job takes this one's place."""
        (job,) = self.db.find(retry_of=car.id)
        assert job.train == car.options["train"]
        again = Car(job.id, car.options, job.scheduled_for, "held" if held else job.status, losses=job.losses)
        assert held or again.status in ("queued", "scheduled")
        train = self.of(car)
        train.cars.insert(train.cars.index(car) + 1, again)
        car.retried = True
        return again

    @precondition(lambda self: any(car.status == "running" for car in self.all.values()))
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A worker vanishes."""
        busy = sorted({car.worker for car in self.all.values() if car.worker is not None})
        worker = data.draw(st.sampled_from(busy), label="gone")
        lost = {car.id: car for car in self.all.values() if car.worker == worker}
        reaped = {each.job_id: each.to for each in self.db.reap(worker)}
        assert set(reaped) == set(lost)
        for car in lost.values():
            car.losses += 1
            out = car.losses >= car.options["max_losses"]
            expected = "canceled" if car.asked else "dead" if out else "failed" if car.once else "scheduled"
            assert reaped[car.id] == expected
            self.ended(car, expected, delay_ms=1)
        self.workers.remove(worker)
        self.register()
        self.compare()

    @rule(by=st.sampled_from([1, 4, 20_000]))
    def tick(self, by: int) -> None:
        self.db.advance(by)
        self.db.promote()
        for car in self.all.values():
            if car.status == "scheduled" and car.due <= self.db.now():
                car.status = "queued"
        self.compare()

    @rule(status=st.sampled_from(FINISHED))
    def prune(self, status: str) -> None:
        self.db.prune(status, older_than_ms=0)
        left = {job.id for job in self.db.find()}
        for train in self.trains.values():
            gone = [car for car in train.cars if car.id not in left]
            assert all(car.status == status for car in gone)
            train.cars = [car for car in train.cars if car.id in left]
        self.compare()

    # the operator

    @precondition(lambda self: any(len(train.held) > 1 for train in self.trains.values()))
    @rule(
        data=st.data(), where=st.sampled_from(["before", "after", "first", "last"]), times=st.sampled_from([1, 1, 12])
    )
    def move(self, data: st.DataObject, where: str, times: int) -> None:
        name = data.draw(st.sampled_from([n for n, train in self.trains.items() if len(train.held) > 1]), label="train")
        train = self.trains[name]
        for _ in range(times):  # often enough to close a gap
            (car,) = self.some(data, train.held)
            others = [each for each in train.held if each is not car]
            (beside,) = self.some(data, others)
            self.db.move(car.id, **{where: beside.id if where in ("before", "after") else True})
            place = {"first": 0, "last": len(others), "before": others.index(beside), "after": others.index(beside) + 1}
            others.insert(place[where], car)
            train.cars = [each for each in train.cars if each.status != "held"] + others
            self.reorder(train)
        train.let_go(self.db.now())
        self.compare()

    @precondition(lambda self: any(car.over and not car.retried for car in self.all.values()))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        self.retried(self.some(data, [car for car in self.all.values() if car.over and not car.retried], 3))
        self.compare()

    def retried(self, picked: list[Car]) -> None:
        answer = self.db.retry(*(car.id for car in picked))
        for car in picked:
            train = self.of(car)
            if train.held_by == car.id:
                train.held_by = None
            if car.once and car.fence:
                again = self.succeed(car, held=True)
                again.losses = 0
                assert answer[car.id] == again.id
            else:
                car.status, car.losses, car.due = "held", 0, None
                assert answer[car.id] == car.id
        for train in self.trains.values():
            train.let_go(self.db.now())

    @rule(
        data=st.data(),
        name=st.sampled_from(TRAINS),
        verb=st.sampled_from(["hold", "resume", "skip", "clear"]),
    )
    def operate(self, data: st.DataObject, name: str, verb: str) -> None:
        train = self.trains[name]
        waiting = [car for car in train.cars if not car.over and car.status != "running"]
        match verb:
            case "hold" if train.held_by is None:
                self.db.hold_train(name)
                train.held_by = "operator"
            case "resume":
                assert self.db.resume_train(name) is (train.held_by is not None)
                train.held_by = None
                train.let_go(self.db.now())
            case "skip" if waiting:
                (car,) = self.some(data, waiting)
                assert self.db.skip(car.id) == "canceled"
                train.end(car, "canceled", self.db.now(), holds=False)
            case "clear":
                assert sorted(self.db.clear_train(name)) == sorted(car.id for car in waiting)
                for car in waiting:
                    car.status = "canceled"
                train.held_by = None
        self.compare()

    @precondition(lambda self: any(train.held_by in self.all for train in self.trains.values()))
    @rule(data=st.data(), verb=st.sampled_from(["retry", "skip", "resume"]))
    def get_over(self, data: st.DataObject, verb: str) -> None:
        """What an operator does about a car that put its train on hold."""
        held = [name for name, train in self.trains.items() if train.held_by in self.all]
        train = self.trains[name := data.draw(st.sampled_from(held), label="train")]
        car = self.all[train.held_by]
        if verb == "retry" and car.over and not car.retried:
            self.retried([car])
        elif verb == "skip" and car.over:
            assert self.db.skip(car.id) == car.status
            train.held_by = None
        else:
            self.db.resume_train(name)
            train.held_by = None
        train.let_go(self.db.now())
        self.compare()


def test_trains_are_what_plain_lists_say(db, random_walk):
    random_walk(lambda: Yard(db), examples=6, full=200)


def test_the_model_itself_lets_the_next_car_go_and_holds(clock):
    """The one rule, by hand: what the walk believes is right."""
    first, second = (Car(name, {"on_dead": "hold"}) for name in "ab")
    train = Model([first, second])
    train.let_go(clock.now())
    assert (first.status, second.status) == ("queued", "held")
    train.end(first, "dead", clock.now())
    assert (train.held_by, second.status) == ("a", "held")
    train.held_by = None
    train.let_go(clock.now())
    assert second.status == "queued"
