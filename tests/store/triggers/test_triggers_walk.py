"""Random walks over triggers, events and fires: both stores give the same answers, and those of a plain model."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headway.errors import Duplicate, NotAllowed
from headway.model.definition import NewDefinition
from headway.model.ids import new_id
from headway.model.trigger import Due, Fire, Firing, Handling, NewFire, Trigger
from tests.store.triggers.trigger_calls import firing, handling, new_event, new_fire, new_listener, new_schedule

TABLES = ("jobs", "attempts", "audit", "definitions", "templates", "triggers", "fires", "events")
NAMES, KINDS = ("paid", "shipped"), ("x", "x", "y")
SECOND = timedelta(seconds=1)


class Model:
    """What must come out: rows as plain values, and rules as one would say them."""

    def __init__(self) -> None:
        self.triggers: dict[str, dict[str, Any]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.fires: dict[str, dict[str, Any]] = {}
        self.jobs: set[str] = set()  # those that are not over
        self.inactive: set[str] = set()

    def fire(self, firings: list[Firing]) -> None:
        for each in firings:
            row = self.triggers.get(each.trigger_id)
            if row is None or not row["enabled"]:
                continue
            if (row["revision"], row["next_fire_at"]) != (each.revision, each.due_at):
                continue
            fired = {fire["nominal_at"] for fire in self.fires.values() if fire["trigger_id"] == each.trigger_id}
            for fire in each.fires:
                if fire.nominal_at not in fired:
                    busy = row["overlap"] == "skip" and self.busy(each.trigger_id)
                    self.write(fire, None, "skipped" if busy else "enqueued")
                    fired.add(fire.nominal_at)
            row["next_fire_at"] = each.next_fire_at

    def busy(self, trigger_id: str) -> bool:
        return any(fire["job_id"] in self.jobs for fire in self.fires.values() if fire["trigger_id"] == trigger_id)

    def handle(self, handlings: list[Handling], now: datetime) -> None:
        seen = set()
        for each in handlings:
            event = self.events.get(each.event_id)
            if event is None or event["status"] != "pending" or each.event_id in seen:  # pruned, or handled before
                continue
            seen.add(each.event_id)
            for fire in each.fires:
                row = self.triggers.get(fire.trigger_id)
                if row is None or not row["enabled"] or row["tenant"] != event["tenant"]:
                    continue
                if any(
                    (old["trigger_id"], old["event_id"]) == (fire.trigger_id, each.event_id)
                    for old in self.fires.values()
                ):
                    continue
                same = self.same(fire, row["window"], now)
                self.write(fire, each.event_id, "deduped" if same else "enqueued", now)
            failed = any(
                fire["event_id"] == each.event_id and fire["status"] == "failed" for fire in self.fires.values()
            )
            if not each.left:
                event["status"] = "failed" if failed else "handled"

    def same(self, fire: NewFire, window: timedelta, now: datetime) -> bool:
        return fire.job is not None and any(
            old["trigger_id"] == fire.trigger_id
            and old["status"] == "enqueued"
            and old["key"] == fire.dedupe_key is not None
            and now - old["fired_at"] < window
            for old in self.fires.values()
        )

    def write(self, fire: NewFire, event_id: str | None, status: str, now: datetime | None = None) -> None:
        if fire.job is None:
            status = "failed" if fire.error is not None else "skipped"
        made = status == "enqueued" and fire.job is not None
        self.fires[fire.id] = {
            "trigger_id": fire.trigger_id,
            "event_id": event_id,
            "nominal_at": fire.nominal_at,
            "status": status,
            "job_id": fire.job.id if made else None,
            "key": fire.dedupe_key,
            "fired_at": now,
        }
        if made:
            self.jobs.add(fire.job.id)


class Triggers(RuleBasedStateMachine):
    """Drives both stores; every id is the caller's, so their answers must be the same to the letter."""

    def __init__(self, sides: tuple[Any, Any], clock: Any) -> None:
        super().__init__()
        self.sides = sides
        self.clock = clock
        self.model = Model()
        self.old: list[Firing] = []
        self.stale: list[Handling] = []

    @initialize()
    def begin(self) -> None:
        for db in self.sides:
            db.home()
            for table in TABLES:
                db.sql(f"delete from {db.table(table)}")
        self.model = Model()
        self.old, self.stale = [], []
        for overlap in ("allow", "skip"):
            self.schedule("default", "x", overlap, 0, False)
        for window in (0, 60_000):
            self.listener("default", "paid", "x", window)

    def both(self, word: str, *args: Any, **options: Any) -> Any:
        """The same word to both; the same answer, or the same refusal, from both."""
        answers = []
        for db in self.sides:
            try:
                answers.append(getattr(db, word)(*args, **options))
            except (NotAllowed, Duplicate) as error:
                answers.append(type(error))
        assert answers[0] == answers[1], f"{word}: PostgreSQL {answers[0]}, SQLite {answers[1]}"
        return answers[0]

    def check(self) -> None:
        """What is stored, on both, and in the model."""
        triggers = {each.id: each for each in self.both("triggers")}
        assert {key: (each.enabled, each.next_fire_at, each.revision) for key, each in triggers.items()} == {
            key: (row["enabled"], row["next_fire_at"], row["revision"]) for key, row in self.model.triggers.items()
        }
        fires = {each.id: each for each in self.both("fires")}
        assert {key: (each.status, each.nominal_at, each.event_id) for key, each in fires.items()} == {
            key: (row["status"], row["nominal_at"], row["event_id"]) for key, row in self.model.fires.items()
        }
        events = {each.id: each.status for each in self.both("events")}
        assert events == {key: row["status"] for key, row in self.model.events.items()}
        sides = [{job.id: (job.status, job.trigger_id) for job in db.find()} for db in self.sides]
        assert sides[0] == sides[1]
        assert {key for key, (status, _) in sides[0].items() if status in ("queued", "running")} == self.model.jobs

    # rows

    @rule(
        tenant=st.sampled_from(["default", "default", "acme"]),
        kind=st.sampled_from(KINDS),
        overlap=st.sampled_from(["allow", "skip"]),
        late=st.integers(0, 5),
        declared=st.booleans(),
    )
    def schedule(self, tenant: str, kind: str, overlap: str, late: int, declared: bool) -> None:
        at = self.clock.now() + late * SECOND
        new = new_schedule(tenant=tenant, kind=kind, overlap=overlap, every_ms=1_000, next_fire_at=at)
        if declared:
            assert self.both("declare", new) == (new.id,)
        else:
            self.both("create_trigger", new)
        self.know(new, overlap=overlap)

    @rule(
        tenant=st.sampled_from(["default", "default", "acme"]),
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(KINDS),
        window=st.sampled_from([0, 3_000, 60_000]),
    )
    def listener(self, tenant: str, name: str, kind: str, window: int) -> None:
        new = new_listener(name, tenant=tenant, kind=kind, dedupe_window_ms=window)
        self.both("create_trigger", new)
        self.know(new, window=timedelta(milliseconds=window))

    def know(self, new: Any, **values: Any) -> None:
        self.model.triggers[new.id] = {
            "enabled": True,
            "next_fire_at": new.next_fire_at,
            "revision": 1,
            "tenant": new.tenant_id,
            "event": new.event,
            "kind": new.kind,
            "created_at": self.clock.now(),
            "overlap": "allow",
            "window": timedelta(0),
            **values,
        }

    @precondition(lambda self: self.model.triggers)
    @rule(data=st.data(), what=st.sampled_from(["change", "change", "toggle", "delete", "due"]))
    def operate(self, data: st.DataObject, what: str) -> None:
        trigger_id = data.draw(st.sampled_from(sorted(self.model.triggers)), label="trigger")
        row = self.model.triggers[trigger_id]
        if what == "delete":
            assert self.both("delete_trigger", trigger_id)
            del self.model.triggers[trigger_id]
        else:
            values: dict[str, Any] = {
                "toggle": {"enabled": not row["enabled"]},
                "change": {"description": "changed"},
                "due": {} if row["event"] else {"next_fire_at": self.clock.now()},
            }[what]
            self.both("change_trigger", trigger_id, **values)
            row.update({name: value for name, value in values.items() if name in row}, revision=row["revision"] + 1)
        self.check()

    @rule(kind=st.sampled_from(["x", "y", "y"]), active=st.sampled_from([True, True, True, False]))
    def activate(self, kind: str, active: bool) -> None:
        self.model.inactive.discard(kind)
        self.model.inactive |= set() if active else {kind}
        self.both("change_definition", kind, active=active)

    @rule(computed=st.booleans())
    def define(self, computed: bool) -> None:
        self.both("declare", NewDefinition(kind="y", computed=computed))

    # events

    @rule(
        tenant=st.sampled_from(["default", "default", "acme"]),
        names=st.lists(st.sampled_from(["paid", "paid", "shipped"]), min_size=1, max_size=3),
    )
    def emit(self, tenant: str, names: list[str]) -> None:
        new = [new_event(name, n, tenant=tenant) for n, name in enumerate(names)]
        assert self.both("emit_all", [*new, *new]) == [each.id for each in [*new, *new]]
        for each in new:
            self.model.events[each.id] = {
                "status": "pending",
                "tenant": each.tenant_id,
                "name": each.name,
                "at": self.clock.now(),
            }

    @rule()
    def retry_events(self) -> None:
        failed = sorted(key for key, row in self.model.events.items() if row["status"] == "failed")
        assert sorted(self.both("retry_events", *self.model.events)) == failed
        for key in failed:
            self.model.events[key]["status"] = "pending"
        self.model.fires = {
            key: row
            for key, row in self.model.fires.items()
            if row["status"] != "failed" or row["event_id"] not in failed
        }
        self.check()

    # the tick

    def due(self, kinds: tuple[str, ...] = ("x", "y")) -> Due:
        declared = sorted(self.model.triggers)
        found: Due = self.both("due", kinds=kinds, declared=declared, limit=100)
        return found

    @rule()
    def look(self) -> None:
        """What is due, by the model."""
        now, found = self.clock.now(), self.due()
        assert {met.trigger.id for met in found.schedules} == {
            key
            for key, row in self.model.triggers.items()
            if row["enabled"] and row["next_fire_at"] is not None and row["next_fire_at"] <= now
        }
        heard = {each.event.id: {met.trigger.id for met in each.triggers} for each in found.events}
        assert heard == {
            key: {
                trigger_id
                for trigger_id, row in self.model.triggers.items()
                if row["enabled"]
                and (row["event"], row["tenant"]) == (event["name"], event["tenant"])
                and row["created_at"] <= event["at"]
                and not any((old["trigger_id"], old["event_id"]) == (trigger_id, key) for old in self.fires())
            }
            for key, event in self.model.events.items()
            if event["status"] == "pending"
        }
        self.due(kinds=("x",))

    def fires(self) -> list[dict[str, Any]]:
        return list(self.model.fires.values())

    def plan(self, trigger: Trigger, now: datetime, fails: bool) -> Firing:
        """Every second since it was due, the last of them with an error if that is wanted."""
        assert trigger.next_fire_at is not None
        times = [trigger.next_fire_at + n * SECOND for n in range(4) if trigger.next_fire_at + n * SECOND <= now]
        last = new_fire(trigger, times[-1], error="boom") if fails else times[-1]
        return firing(trigger, *times[:-1], last, next_fire_at=times[-1] + SECOND)

    @rule(data=st.data(), fails=st.sampled_from([False, False, True]))
    def fire(self, data: st.DataObject, fails: bool) -> None:
        found = self.due()
        plans = [self.plan(met.trigger, found.now, fails) for met in found.schedules]
        if data.draw(st.sampled_from([False, False, True]), label="late"):
            self.old += plans
            return
        self.fire_all(plans)

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def fire_late(self, data: st.DataObject) -> None:
        plan = data.draw(st.sampled_from(self.old), label="plan")
        # the second time it would be another fire of the same id
        fires = tuple(msgspec.structs.replace(each, id=new_id()) for each in plan.fires)
        fires = tuple(each if each.job is None else _renewed(each) for each in fires)
        self.fire_all([msgspec.structs.replace(plan, fires=fires)])

    def fire_all(self, plans: list[Firing]) -> None:
        answer = self.both("fire", *plans)
        if answer is NotAllowed:
            assert self.model.inactive
        else:
            before = set(self.model.fires)
            self.model.fire(plans)
            self.agree(answer, before)
        self.check()

    def agree(self, answer: list[Fire], before: set[str]) -> None:
        """What was written is what the model wrote."""
        assert {each.id for each in answer} == set(self.model.fires) - before
        for each in answer:
            self.model.fires[each.id]["fired_at"] = each.fired_at
            if each.status == "enqueued":
                assert each.job_id == self.model.fires[each.id]["job_id"]

    @rule(
        data=st.data(),
        key=st.sampled_from(["k", "k", "l", None]),
        first=st.sampled_from(["fires", "fires", "fails", "unwanted"]),
        left=st.sampled_from([False, False, False, True]),
    )
    def handle(self, data: st.DataObject, key: str | None, first: str, left: bool) -> None:
        """The first trigger of each may fail or not want it; the last may be left to others."""
        odd: dict[str, dict[str, Any]] = {"fires": {}, "fails": {"error": "boom"}, "unwanted": {"job": None}}
        if not any(row["status"] == "pending" for row in self.model.events.values()):
            self.emit("default", ["paid", "paid"])
        plans = [
            handling(
                heard.event.id,
                *(
                    new_fire(met.trigger, dedupe_key=key, **(odd[first] if not n else {}))
                    for n, met in enumerate(heard.triggers[:-1] if left else heard.triggers)
                ),
                left=left and bool(heard.triggers),
            )
            for heard in self.due().events
        ]
        if data.draw(st.sampled_from([False, False, True]), label="late"):
            self.stale += plans
            return
        if self.stale:
            plans.insert(0, self.stale.pop())
        self.handle_all(plans)

    def handle_all(self, plans: list[Handling]) -> None:
        answer = self.both("handle", *plans)
        if answer is NotAllowed:
            assert self.model.inactive
        else:
            before = set(self.model.fires)
            self.model.handle(plans, self.clock.now())
            self.agree(answer, before)
        self.check()

    @precondition(lambda self: self.model.triggers)
    @rule(data=st.data())
    def run_by_hand(self, data: st.DataObject) -> None:
        trigger_id = data.draw(st.sampled_from(sorted(self.model.triggers)), label="trigger")
        trigger = self.sides[0].trigger(trigger_id)
        new = new_fire(trigger)
        answer = self.both("run_trigger", new)
        if answer is NotAllowed:
            assert trigger.kind in self.model.inactive
        else:
            assert (answer.status, answer.job_id) == ("enqueued", new.job and new.job.id)
            self.model.write(new, None, "enqueued", self.clock.now())
        self.check()

    # the rest

    @precondition(lambda self: self.model.jobs)
    @rule()
    def work(self) -> None:
        ids = [db.drain() for db in self.sides]
        assert sorted(ids[0]) == sorted(ids[1]) == sorted(self.model.jobs)
        self.model.jobs.clear()

    @rule(seconds=st.sampled_from([1, 0.5, 2, 3, 61]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(ms=st.sampled_from([0, 2_000]))
    def prune(self, ms: int) -> None:
        """What is forgotten dedupes and overlaps nothing more, there as here."""
        waits = {key for key, row in self.model.events.items() if row["status"] == "pending"}
        pruned = self.both("prune_fires", events_ms=ms, failed_ms=ms, fires_ms=ms)
        events, fires = (len(rows) for rows in (self.model.events, self.model.fires))
        self.model.events = {each.id: self.model.events[each.id] for each in self.both("events")}
        kept = {each.id: self.model.fires[each.id] for each in self.both("fires")}
        by_event = {key for key in self.model.fires if self.model.fires[key]["event_id"] and key not in kept}
        assert waits <= set(self.model.events)
        assert pruned == events - len(self.model.events) + fires - len(kept) - len(by_event)
        self.model.fires = kept


def _renewed(fire: NewFire) -> NewFire:
    """The same fire with a job of its own."""
    assert fire.job is not None
    return msgspec.structs.replace(fire, job=msgspec.structs.replace(fire.job, id=new_id()))


@pytest.fixture
def machine(both_stores: Any, clock: Any, make_db: Any) -> Any:
    sides = tuple(make_db(store, clock) for store in both_stores)
    return lambda: Triggers(sides, clock)


def test_both_stores_fire_what_a_plain_model_says(machine: Any, random_walk: Any) -> None:
    random_walk(machine, examples=10, full=400)


def test_the_model_knows_a_duplicate(make: Any) -> None:
    """The model itself is held to one case by hand."""
    model = Model()
    model.triggers["t"] = {"enabled": True, "tenant": "a", "window": timedelta(seconds=5)}
    model.events = {key: {"status": "pending", "tenant": "a"} for key in ("one", "two", "three")}
    now = datetime.fromisoformat("2031-01-01T00:00:00+00:00")
    for key, at in (("one", 0), ("two", 4), ("three", 5)):
        fire = NewFire(id=key, trigger_id="t", job=make.job(), dedupe_key="k")
        model.handle([Handling(event_id=key, fires=(fire,))], now + at * SECOND)
    assert [row["status"] for row in model.fires.values()] == ["enqueued", "deduped", "enqueued"]
