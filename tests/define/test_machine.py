"""Machines without a database: registered, enqueued, versioned, and each outcome of a step concluded."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import msgspec
import pytest

from headway import Await, Context, Done, Headway, Machine, Next, Registry, Replay, Sleep, Spawn, Stop, step
from headway.define import MachineKind, StepContext, Visit
from headway.define.machine import snake
from headway.errors import InvalidJob, InvalidOutcome, InvalidPayload
from headway.model.ids import new_id
from headway.model.job import Claim, NewJob, Settlement
from headway.model.machine import Place
from headway.model.outcome import Outcomes
from headway.model.signal import NewSignal, Received

LIMIT = 10_000


class App:
    """Remembers what it was asked to do."""

    payload_limit = 1_000

    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self.signals: list[tuple[NewSignal, Any]] = []

    def enqueue_new(self, job: NewJob, conn: Any) -> Any:
        self.jobs.append(job)

    async def aenqueue_new(self, job: NewJob, conn: Any) -> Any:
        self.jobs.append(job)

    def signal_new(self, signal: NewSignal, conn: Any) -> Any:
        self.signals.append((signal, conn))

    async def asignal_new(self, signal: NewSignal, conn: Any) -> Any:
        self.signals.append((signal, conn))


class Order(msgspec.Struct):
    order: int
    paid: bool = False


def checkout(registry: Registry) -> type[Machine]:
    @registry.machine
    class Checkout(Machine, version=2, queue="checkout", max_attempts=3, partition="order_{order}"):
        """Sells."""

        State = Order

        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.ship)

        @step(queue="warehouse")
        def ship(self, ctx: Context) -> Outcomes:
            return Next(self.bill)

        @step(partition="bills")
        def bill(self, ctx: Context) -> Outcomes:
            return Done()

        @step
        def end(self, ctx: Context) -> Outcomes:
            return Done()

        def helper(self) -> None: ...

    return Checkout


@pytest.fixture
def registry() -> Registry:
    return Registry()


# registering and enqueueing


def test_a_machine_is_a_kind_by_its_class_name_or_its_own() -> None:
    registry = Registry()
    machine = checkout(registry)

    @registry.machine
    class HTTPProbe2(Machine, name="probe.it"):
        @step
        def start(self, ctx: Context) -> Outcomes:
            return Done()

    assert registry.names == ("checkout", "probe.it")
    kind = machine.kind()
    assert registry["checkout"] is kind
    assert (kind.is_machine, kind.options.queue, kind.options.max_attempts, kind.__doc__) == (
        True,
        "checkout",
        3,
        "Sells.",
    )
    assert "version 2" in repr(kind)
    with pytest.raises(InvalidJob, match="is a machine: enqueue it"):
        kind(order=7)


@pytest.mark.parametrize(
    ("name", "snaked"),
    [
        ("Checkout", "checkout"),
        ("OrderCheckout", "order_checkout"),
        ("HTTPProbe", "http_probe"),
        ("V2Order", "v2_order"),
    ],
)
def test_a_class_name_becomes_a_kinds_name(name: str, snaked: str) -> None:
    assert snake(name) == snaked


def test_what_is_no_machine_cannot_be_registered(registry: Registry) -> None:
    for other in (int, 7, lambda: None, Machine()):
        with pytest.raises(InvalidJob, match="is no machine"):
            registry.machine(other)  # type: ignore[type-var]


def test_a_machine_is_enqueued_at_its_start_with_its_version(registry: Registry) -> None:
    app = App()
    registry.bind(app)
    machine = checkout(registry)
    machine.enqueue(order=42)
    asyncio.run(machine.aenqueue(Order(43, paid=True)))
    machine.using(unique_key="order:44", priority=7).enqueue(order=44)
    first, second, third = app.jobs
    assert (first.kind, first.queue, first.payload, first.max_attempts) == ("checkout", "checkout", '{"order":42}', 3)
    assert first.place == Place(version=2, step="start")
    assert first.partition == "order_42"
    assert second.payload == '{"order":43,"paid":true}'
    assert (third.unique_key, third.priority, third.place) == ("order:44", 7, first.place)
    assert machine.build(order=45).id != machine.build(order=45).id
    assert machine.kind().build_from({"order": 46}).place == first.place


def test_a_machine_whose_start_has_a_queue_of_its_own_begins_away_from_home(registry: Registry) -> None:
    @registry.machine
    class M(Machine, queue="home", partition="p_{a}"):
        @step(queue="away", partition="start_{a}")
        def start(self, ctx: Context) -> Outcomes:
            return Done()

    job = M.build(a=7)
    assert (job.queue, job.partition) == ("away", "start_7")
    assert job.place == Place(version=1, step="start", home_queue="home", home_partition="p_7")
    job = M.using(queue="elsewhere", partition="q").build(a=7)
    assert (job.queue, job.partition) == ("away", "start_7")
    assert job.place is not None
    assert (job.place.home_queue, job.place.home_partition) == ("elsewhere", "q")


def test_a_class_that_is_registered_nowhere_or_twice_says_so(registry: Registry) -> None:
    class Loose(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            return Done()

    with pytest.raises(InvalidJob, match="Loose is registered nowhere"):
        Loose.enqueue()
    registry.machine(Loose)
    Registry().machine(Loose)
    with pytest.raises(InvalidJob, match="Loose is registered 2 times"):
        Loose.build()


def test_the_same_class_may_come_again(registry: Registry) -> None:
    machine = checkout(registry)
    registry.machine(machine)
    assert machine.build(order=7).kind == "checkout"
    assert len(registry) == 1


def test_a_machine_of_a_registry_belongs_to_the_app_that_includes_it(registry: Registry) -> None:
    machine = checkout(registry)
    with pytest.raises(InvalidJob, match="belongs to no app yet"):
        machine.enqueue(order=1)
    app, outer = App(), Registry()
    outer.bind(app)
    outer.include(registry)
    machine.enqueue(order=1)
    assert [job.kind for job in app.jobs] == ["checkout"]


def test_a_signal_by_unique_key_is_checked_and_addressed(registry: Registry) -> None:
    app = App()
    registry.bind(app)
    machine = checkout(registry)
    machine.signal("order:42", "payment", {"amount": 100}, dedup_key="evt-7", conn="conn")
    asyncio.run(machine.asignal("order:42", "payment", tenant="acme"))
    (first, conn), (second, _) = app.signals
    assert (first.kind, first.unique_key, first.name, first.payload) == (
        "checkout",
        "order:42",
        "payment",
        '{"amount":100}',
    )
    assert (first.dedup_key, first.job_id, first.tenant_id, conn) == ("evt-7", None, None, "conn")
    assert (second.payload, second.dedup_key) == ("null", None)
    assert second.tenant_id is not None
    with pytest.raises(InvalidPayload, match="over the limit of 1,000"):
        machine.build_signal("order:42", "payment", "x" * 2_000)
    for name in ("", "a\0b", 7, None):
        with pytest.raises(InvalidJob, match="signal"):
            machine.build_signal("order:42", name)  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload):
        machine.build_signal("order:42", "payment", object())


# versions


def versions(*numbers: int, migrates: bool = False) -> list[type[Machine]]:
    made = []
    for number in numbers:
        body: dict[str, Any] = {
            "start": step(lambda self, ctx: Done()),
            f"only{number}": step(lambda self, ctx: Done()),
        }
        if migrates and number == max(numbers):
            body["migrate_from"] = lambda self, version, state: state
        made.append(type(f"V{number}", (Machine,), body, version=number, name="thing"))
    return made


def claim(place: Place | None = None, **changes: Any) -> Claim:
    given: dict[str, Any] = {
        "id": new_id(),
        "tenant_id": "00000000-0000-0000-0000-000000000000",
        "kind": "thing",
        "queue": "checkout",
        "payload": '{"order":42}',
        "fence": 5,
        "tries": 1,
        "losses": 1,
        "max_attempts": 3,
        "max_losses": 3,
        "backoff_base_ms": 1_000,
        "backoff_cap_ms": 60_000,
        "timeout_ms": None,
        "delivery": "at_least_once",
        "correlation_id": "corr",
        "trace_id": "trace",
        "meta": None,
        "place": None if place is None else msgspec.json.encode(place).decode(),
    }
    return Claim(**given | changes)


def test_versions_of_one_name_are_one_kind_enqueued_as_the_newest(registry: Registry) -> None:
    one, three, two = versions(1, 3, 2)
    for machine in (one, three, two):
        registry.machine(machine)
    assert registry.names == ("thing",)
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    assert {version: edition.machine for version, edition in kind.editions.items()} == {1: one, 2: two, 3: three}
    newest = kind.build_from({}).place
    assert newest is not None
    assert newest.version == 3
    old = one.build().place
    assert old is not None
    assert old.version == 1


def test_versions_come_together_over_include_in_either_order() -> None:
    for first, second in ((0, 1), (1, 0)):
        registries = [Registry(), Registry()]
        outer, together = Registry(), Registry()
        outer.include(registries[first])
        outer.include(registries[second])
        for registry, machine in zip(registries, versions(1, 2), strict=True):
            registry.machine(machine)
        together.include(outer)
        for each in (outer, together):
            kind = each["thing"]
            assert isinstance(kind, MachineKind)
            assert set(kind.editions) == {1, 2}
            assert kind.edition.version == 2
        inner = registries[0]["thing"]
        assert isinstance(inner, MachineKind)
        assert set(inner.editions) == {1}


def test_two_classes_of_one_version_clash(registry: Registry) -> None:
    (first,), (second,) = versions(1), versions(1)
    second.__qualname__ = "Other"
    registry.machine(first)
    with pytest.raises(InvalidJob, match='machine "thing" has two classes of one version'):
        registry.machine(second)
    other = Registry()
    other.machine(second)
    with pytest.raises(InvalidJob, match="two classes of one version"):
        registry.include(other)
    assert second not in [edition.machine for edition in registry["thing"].editions.values()]  # type: ignore[attr-defined]


def test_a_machine_and_a_job_cannot_share_a_name(registry: Registry) -> None:
    (machine,) = versions(1)
    registry.job(name="thing")(lambda: None)
    with pytest.raises(InvalidJob, match='kind "thing" is defined twice'):
        registry.machine(machine)
    other = Registry()
    other.machine(machine)
    with pytest.raises(InvalidJob, match="defined twice"):
        other.job(name="thing")(lambda: None)


def admitted(registry: Registry, place: Place | None, **changes: Any) -> Visit | None:
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    return kind.admit(claim(place, **changes))


def test_a_claim_is_run_by_the_version_that_its_row_has(registry: Registry) -> None:
    for machine in versions(1, 2):
        registry.machine(machine)
    for version in (1, 2):
        visit = admitted(registry, Place(version=version, step=f"only{version}"))
        assert visit is not None
        assert (visit.edition.version, visit.step.name, visit.migrates) == (version, f"only{version}", False)
    by_name_alone = admitted(registry, None)
    assert by_name_alone is not None
    assert (by_name_alone.edition.version, by_name_alone.step.name) == (2, "start")


def test_an_unknown_version_or_step_is_not_admitted_and_named(registry: Registry) -> None:
    for machine in versions(2, 3):
        registry.machine(machine)
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    for place, says in (
        (Place(version=1, step="start"), 'version 1 of machine "thing" (here: 2, 3)'),
        (Place(version=4, step="start"), 'version 4 of machine "thing" (here: 2, 3)'),
        (
            Place(version=3, step="only2"),
            'step "only2" of machine "thing" (keep it, or add a version with migrate_from)',
        ),
    ):
        assert admitted(registry, place) is None
        assert kind.unknown(claim(place)) == says


def test_a_newer_version_is_never_migrated_back(registry: Registry) -> None:
    for machine in versions(1, 2, migrates=True):
        registry.machine(machine)
    assert admitted(registry, Place(version=3, step="start")) is None


# migrate_from


def migrating(registry: Registry, answer: Any) -> None:
    @registry.machine
    class Thing(Machine, version=3, name="thing"):
        class State(msgspec.Struct):
            orders: list[int]

        @step
        def start(self, ctx: Context) -> Outcomes:
            return Done(ctx.state.orders)

        @step
        def pack(self, ctx: Context) -> Outcomes:
            return Next(self.start)

        def migrate_from(self, version: int, state: Any) -> Any:
            return answer(version, state)


def visited(registry: Registry, place: Place | None, **changes: Any) -> tuple[Visit, StepContext]:
    visit = admitted(registry, place, **changes)
    assert visit is not None
    ctx = visit.context(visit.claim, tenant="default", worker_id="w")
    visit.invocation(ctx)
    return visit, ctx


def conclude(visit: Visit, ctx: StepContext, outcome: Any, **options: Any) -> Settlement:
    return visit.conclude(
        ctx, outcome, **{"result_limit": LIMIT, "state_limit": LIMIT, "continues": False, "failure": None} | options
    )


@pytest.mark.parametrize("committed", [True, False])
def test_a_state_of_an_older_version_is_migrated_and_goes_with_the_outcome(registry: Registry, committed: bool) -> None:
    seen = []

    def answer(version: int, state: Any) -> Any:
        seen.append((version, state))
        return {"orders": [state["order"]]}

    migrating(registry, answer)
    place = Place(version=1, step="pack")
    if committed:
        place = Place(version=1, step="pack", state=msgspec.Raw(b'{"order":7}'))
    visit, ctx = visited(registry, place)
    assert seen == [(1, {"order": 7 if committed else 42})]
    assert (visit.migrates, ctx.version, ctx.step) == (True, 3, "pack")
    assert ctx.state.orders == [seen[0][1]["order"]]
    turn = conclude(visit, ctx, Next("start")).turn
    assert turn is not None
    assert (turn.version, turn.ran, turn.step) == (3, "pack", "start")
    assert turn.state == msgspec.json.encode({"orders": ctx.state.orders}).decode()
    # also where the outcome itself leaves the state alone
    last = conclude(visit, ctx, Done(1)).turn
    assert last is not None
    assert (last.version, last.state) == (3, turn.state)


def test_a_migration_may_say_where_it_goes_on(registry: Registry) -> None:
    migrating(registry, lambda version, state: Next("start", {"orders": []}))
    visit, ctx = visited(registry, Place(version=2, step="a step of old"))
    assert (visit.step.name, ctx.state.orders) == ("start", [])
    turn = conclude(visit, ctx, Done(1)).turn
    assert turn is not None
    assert turn.ran == "start"


def test_a_migration_that_leaves_it_at_a_step_that_is_gone_is_an_invalid_outcome(registry: Registry) -> None:
    migrating(registry, lambda version, state: {"orders": []})
    with pytest.raises(InvalidOutcome, match=r"has no step a step of old.*let migrate_from return Next"):
        visited(registry, Place(version=2, step="a step of old"))


@pytest.mark.parametrize("rubbish", [None, 7, {"orders": "x"}, {}, Next("nowhere", {"orders": []}), Next("start", 7)])
def test_a_migration_that_returns_rubbish_is_an_invalid_outcome(registry: Registry, rubbish: Any) -> None:
    migrating(registry, lambda version, state: rubbish)
    with pytest.raises(InvalidOutcome, match="thing"):
        visited(registry, Place(version=1, step="start"))


# what a step sees


def signal(name: str, payload: Any = None) -> Received:
    return Received(new_id(), name, payload, 1_900_000_000_000_000, f"dedup-{name}")


def thing(registry: Registry, place: Place | None = None, **changes: Any) -> tuple[Visit, StepContext]:
    @registry.machine
    class Thing(Machine, version=2, name="thing", queue="checkout"):
        State = Order

        @step
        def start(self, ctx: Context) -> Outcomes:
            return Done()

        @step(max_attempts=9, timeout="5s")
        def ship(self, ctx: Context) -> Outcomes:
            return Done()

        @step(queue="warehouse")
        def store(self, ctx: Context) -> Outcomes:
            return Done()

        @step(partition="bill_{order}")
        def bill(self, ctx: Context) -> Outcomes:
            return Done()

        def helper(self, ctx: Context) -> Outcomes:
            return Done()

    return visited(registry, place or Place(version=2, step="start"), **changes)


def test_a_step_sees_its_state_and_job(registry: Registry) -> None:
    visit, ctx = thing(registry)
    assert ctx.state == Order(42)
    assert (ctx.step, ctx.version, ctx.tries, ctx.losses, ctx.fence) == ("start", 2, 1, 1, 5)
    assert (ctx.signals, ctx.inbox, ctx.children, ctx.timed_out) == ((), (), (), False)
    assert not visit.joins
    _, ctx = thing(Registry(), Place(version=2, step="ship", state=msgspec.Raw(b'{"order":7,"paid":true}'), joining=3))
    assert ctx.state == Order(7, paid=True)
    assert (ctx.claim.max_attempts, ctx.claim.timeout_ms) == (9, 5_000)


def test_a_committed_state_that_the_code_cannot_read_is_given_back_like_an_unknown_step(registry: Registry) -> None:
    thing(registry, Place(version=2, step="start"))
    place = Place(version=2, step="start", state=msgspec.Raw(b'{"order":"x"}'))
    assert admitted(registry, place) is None
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    assert kind.unknown(claim(place)).startswith('the state of this machine "thing", which does not fit its State')


def test_a_machine_that_names_no_next_step_has_failed(registry: Registry) -> None:
    visit, ctx = thing(registry, Place(version=2, step="start"))
    with pytest.raises(InvalidOutcome, match="it names no step"):
        visit.conclude(ctx, Next(None), result_limit=100, state_limit=1_000, continues=True)  # type: ignore[arg-type]


def test_handle_takes_the_error_and_the_context(registry: Registry) -> None:
    class Odd(Machine):
        @step
        def start(self, ctx: Context) -> Done:
            return Done()

        def handle(self, error: Exception) -> Done:
            return Done()

    with pytest.raises(InvalidJob, match=r"def handle\(self, error, ctx\)"):
        registry.machine(Odd)


def test_the_signals_of_a_step_are_those_of_its_await_in_order_of_arrival(registry: Registry) -> None:
    there = (signal("b", 1), signal("other"), signal("a", 2), signal("b", 3))
    _, ctx = thing(registry, Place(version=2, step="ship", awaiting=("a", "b"), woken="signal", signals=there))
    assert [(each.name, each.payload) for each in ctx.signals] == [("b", 1), ("a", 2), ("b", 3)]
    assert [each.name for each in ctx.inbox] == ["b", "other", "a", "b"]
    assert (ctx.inbox[0].dedup_key, ctx.inbox[0].status, ctx.inbox[0].job_id) == ("dedup-b", "pending", ctx.job_id)


@pytest.mark.parametrize(
    ("match", "there", "timed_out"),
    [("any", [], True), ("any", ["a"], False), ("all", ["a"], True), ("all", ["a", "b"], False), ("any", ["c"], True)],
)
def test_timed_out_is_what_the_signals_do_not_contradict(
    registry: Registry, match: Any, there: list[str], timed_out: bool
) -> None:
    signals = tuple(map(signal, there))
    place = Place(version=2, step="ship", awaiting=("a", "b"), match=match, woken="timeout", signals=signals)
    _, ctx = thing(registry, place)
    assert ctx.timed_out is timed_out


# outcomes


def test_next_commits_the_state_and_goes_on(registry: Registry) -> None:
    there = (signal("a"), signal("other"))
    visit, ctx = thing(registry, Place(version=2, step="start", awaiting=("a",), signals=there))
    ctx.state.paid = True
    settlement = conclude(visit, ctx, Next("ship"))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.id, settlement.fence) == (visit.claim.id, 5)
    assert (settlement.status, settlement.to, settlement.charge, settlement.error) == ("succeeded", "queued", 0, None)
    assert (turn.outcome, turn.ran, turn.step, turn.version, turn.progress) == ("next", "start", "ship", 2, True)
    assert turn.state == '{"order":42,"paid":true}'
    assert turn.consumed == (there[0].id,)
    assert (turn.queue, turn.partition, turn.home_queue, turn.home_partition) == (None, None, None, None)
    assert conclude(visit, ctx, Next("ship"), continues=True).to == "running"


def test_a_step_is_named_by_its_method_its_function_or_its_name(registry: Registry) -> None:
    visit, ctx = thing(registry)
    machine = visit.edition.machine
    for ref in ("ship", machine().ship, machine.ship, visit.edition.steps["ship"].fn):  # type: ignore[attr-defined]
        turn = conclude(visit, ctx, Next(ref)).turn
        assert turn is not None
        assert turn.step == "ship"


@pytest.mark.parametrize("outcome", [Next, functools.partial(Await, "payment"), functools.partial(Sleep, "1m")])
@pytest.mark.parametrize("ref", ["nowhere", "helper", 7, functools.partial(print), lambda: None, "", Machine])
def test_a_step_that_is_none_is_an_invalid_outcome(registry: Registry, outcome: Any, ref: Any) -> None:
    visit, ctx = thing(registry)
    with pytest.raises(
        InvalidOutcome, match=r"thing.start names .* as the next step, .*it has start, ship, store, bill"
    ):
        conclude(visit, ctx, outcome(ref))


def test_a_given_state_is_committed_instead_of_the_contexts(registry: Registry) -> None:
    visit, ctx = thing(registry)
    ctx.state = Order(1)
    for state, text in ((Order(7), '{"order":7,"paid":false}'), ({"order": 8}, '{"order":8}')):
        for outcome in (
            Next("ship", state),
            Replay(state),
            Await("a", state=state),
            Sleep(1, state=state),
            Spawn([], state=state),
        ):
            turn = conclude(visit, ctx, outcome).turn
            assert turn is not None
            assert turn.state == text
    turn = conclude(visit, ctx, Next("ship")).turn
    assert turn is not None
    assert turn.state == '{"order":1,"paid":false}'


def test_replay_runs_the_same_step_again_without_progress(registry: Registry) -> None:
    there = (signal("a"),)
    visit, ctx = thing(registry, Place(version=2, step="ship", awaiting=("a",), signals=there))
    settlement = conclude(visit, ctx, Replay(delay="90s"))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.status, settlement.to, settlement.delay_ms, settlement.charge) == (
        "snoozed",
        "scheduled",
        90_000,
        0,
    )
    assert (turn.outcome, turn.ran, turn.step, turn.progress, turn.consumed) == ("replay", "ship", "ship", False, ())
    assert turn.note == "in 1m 30s"
    after_failure = conclude(visit, ctx, Replay(delay=1), failure="ValueError: no")
    assert (after_failure.status, after_failure.charge, after_failure.error) == ("failed", 1, "ValueError: no")


def test_replay_of_an_at_most_once_machine_is_a_new_job_that_is_charged_after_a_failure(registry: Registry) -> None:
    visit, ctx = thing(registry, delivery="at_most_once")
    settlement = conclude(visit, ctx, Replay(delay="1m"))
    assert (settlement.to, settlement.delay_ms, settlement.charge, settlement.status) == (
        "failed",
        60_000,
        0,
        "snoozed",
    )
    settlement = conclude(visit, ctx, Replay(delay="1m"), failure="ValueError: no")
    assert (settlement.to, settlement.delay_ms, settlement.charge, settlement.status) == ("failed", 60_000, 1, "failed")


def test_await_waits_for_names_with_a_deadline(registry: Registry) -> None:
    visit, ctx = thing(registry)
    settlement = conclude(visit, ctx, Await(["b", "a", "b"], then="ship", timeout="3d", match="all"))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.status, settlement.to, turn.outcome, turn.step) == ("succeeded", "waiting", "await", "ship")
    assert (turn.awaiting, turn.match, turn.deadline_ms) == (("b", "a"), "all", 3 * 86_400_000)
    assert turn.note == "b and a, at most 3d 0h"
    turn = conclude(visit, ctx, Await("a")).turn
    assert turn is not None
    assert (turn.step, turn.awaiting, turn.match, turn.deadline_ms, turn.note) == ("start", ("a",), "any", None, "a")
    assert conclude(visit, ctx, Await("a"), continues=True).to == "waiting"


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Await([]), "awaits no signal at all"),
        (Await(""), "signal"),
        (Await([7]), "signal"),  # type: ignore[list-item]
        (Await("a", match="most"), "neither 'any' nor 'all'"),  # type: ignore[arg-type]
        (Await("a", timeout="soon"), "timeout"),
        (Await("a", timeout=-1), "timeout"),
        (Await(7), "thing.start"),  # type: ignore[arg-type]
        (Sleep("soon"), "delay"),
        (Sleep(None), "delay"),  # type: ignore[arg-type]
        (Replay(delay=-1), "delay"),
        (Spawn([7]), "7 is no child"),  # type: ignore[list-item]
        (Spawn([], on_failure="explode"), "neither 'continue' nor 'stop'"),  # type: ignore[arg-type]
        (Spawn(7), "thing.start"),  # type: ignore[arg-type]
        (Next("ship", state="x"), "cannot be kept"),
    ],
)
def test_an_outcome_that_cannot_be_carried_out_is_shown(registry: Registry, outcome: Any, says: str) -> None:
    visit, ctx = thing(registry)
    with pytest.raises(InvalidOutcome, match=says):
        conclude(visit, ctx, outcome)


@pytest.mark.parametrize(
    "rubbish", [None, 7, "ship", {"a": 1}, Next, Done, ValueError("x"), (Next("ship"),), "x" * 10_000]
)
def test_what_is_no_outcome_is_shown(registry: Registry, rubbish: Any) -> None:
    visit, ctx = thing(registry)
    with pytest.raises(
        InvalidOutcome, match=r"thing.start returned .*a step returns one of Next, Replay, Await"
    ) as caught:
        conclude(visit, ctx, rubbish)
    assert len(str(caught.value)) < 500


def test_sleep_goes_on_later(registry: Registry) -> None:
    visit, ctx = thing(registry)
    settlement = conclude(visit, ctx, Sleep("2d", then="ship"), continues=True)
    turn = settlement.turn
    assert turn is not None
    assert (settlement.to, settlement.delay_ms, settlement.status) == ("scheduled", 2 * 86_400_000, "succeeded")
    assert (turn.outcome, turn.step, turn.progress, turn.note) == ("sleep", "ship", True, "for 2d 0h")
    again = conclude(visit, ctx, Sleep(1.5)).turn
    assert again is not None
    assert again.step == "start"


def test_done_keeps_the_state_and_stores_the_result(registry: Registry) -> None:
    there = (signal("a"),)
    visit, ctx = thing(registry, Place(version=2, step="ship", awaiting=("a",), signals=there))
    ctx.state.paid = True
    settlement = conclude(visit, ctx, Done({"shipped": 42}))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.to, settlement.status, settlement.result) == ("succeeded", "succeeded", '{"shipped":42}')
    assert (turn.outcome, turn.ran, turn.step, turn.state, turn.consumed) == (
        "done",
        "ship",
        "ship",
        None,
        (there[0].id,),
    )
    assert conclude(visit, ctx, Done()).result is None
    for too_much in ("x" * (LIMIT + 1), object()):
        with pytest.raises(InvalidPayload, match="result"):
            conclude(visit, ctx, Done(too_much))


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (None, "the machine stopped itself"),
        ("never paid", "never paid"),
        (ValueError("no"), "ValueError: no"),
        (7, "7"),
    ],
)
def test_stop_is_dead_for_its_reason(registry: Registry, reason: Any, error: str) -> None:
    visit, ctx = thing(registry)
    settlement = conclude(visit, ctx, Stop(reason))
    assert (settlement.to, settlement.status, settlement.error, settlement.charge) == ("dead", "failed", error, 0)
    assert settlement.turn is not None
    assert (settlement.turn.outcome, settlement.turn.state) == ("stop", None)


def test_stop_with_the_error_itself_keeps_the_traceback(registry: Registry) -> None:
    visit, ctx = thing(registry)
    assert (
        conclude(visit, ctx, Stop(ValueError("no")), failure="ValueError: no\n\nTraceback").error
        == "ValueError: no\n\nTraceback"
    )
    settlement = conclude(visit, ctx, Stop("enough"), failure="ValueError: no")
    assert (settlement.error, settlement.charge) == ("enough", 1)


def test_what_handle_decides_is_decided_after_a_failure(registry: Registry) -> None:
    visit, ctx = thing(registry)
    for outcome, to in (
        (Next("ship"), "queued"),
        (Done(1), "succeeded"),
        (Await("a"), "waiting"),
        (Sleep(1), "scheduled"),
    ):
        settlement = conclude(visit, ctx, outcome, failure="ValueError: no")
        assert (settlement.status, settlement.to, settlement.error) == ("failed", to, "ValueError: no")


def test_spawn_makes_children_of_its_own_tenant_that_know_their_parent(registry: Registry) -> None:
    visit, ctx = thing(registry)

    @registry.job(queue="kids")
    def kid(number: int) -> None: ...

    other = checkout(registry)
    jobs = [kid.build(1), kid.using(correlation_id="own", trace_id="mine").build(2), other.build(order=7)]
    settlement = conclude(visit, ctx, Spawn(jobs, then="ship", on_failure="stop"), continues=True)
    turn = settlement.turn
    assert turn is not None
    assert (settlement.to, turn.outcome, turn.step, turn.on_failure, turn.note) == (
        "waiting",
        "spawn",
        "ship",
        "stop",
        "3 children",
    )
    assert [child.id for child in turn.children] == [job.id for job in jobs]
    assert [(child.correlation_id, child.trace_id) for child in turn.children] == [
        ("corr", "trace"),
        ("own", "mine"),
        ("corr", "trace"),
    ]
    assert {child.tenant_id for child in turn.children} == {visit.claim.tenant_id}
    assert turn.children[0].place == Place(parent_id=visit.claim.id)
    assert turn.children[2].place == Place(version=2, step="start", parent_id=visit.claim.id)
    one = conclude(visit, ctx, Spawn([kid.build(1)])).turn
    assert one is not None
    assert one.note == "1 child"


def test_an_empty_spawn_goes_on_like_next(registry: Registry) -> None:
    visit, ctx = thing(registry)
    for continues, to in ((True, "running"), (False, "queued")):
        settlement = conclude(visit, ctx, Spawn([], then="ship"), continues=continues)
        assert settlement.turn is not None
        assert (settlement.to, settlement.turn.step, settlement.turn.children) == (to, "ship", ())


def test_children_of_others_or_twice_are_refused(registry: Registry) -> None:
    visit, ctx = thing(registry)

    @registry.job
    def kid() -> None: ...

    child = kid.build()
    with pytest.raises(InvalidOutcome, match="among the children twice"):
        conclude(visit, ctx, Spawn([child, child]))
    with pytest.raises(InvalidOutcome, match="spawns for its own tenant"):
        conclude(visit, ctx, Spawn([kid.using(tenant="acme").build()]))


# queues and partitions of steps


def moved(settlement: Settlement) -> tuple[Any, ...]:
    turn = settlement.turn
    assert turn is not None
    return turn.queue, turn.partition, turn.home_queue, turn.home_partition


AWAY = Place(version=2, step="store", partition="mine", home_queue="checkout", home_partition="mine")


@pytest.mark.parametrize(
    ("place", "queue", "to", "expected"),
    [
        # at home: to a step without a place of its own, to one with a queue, to one with a partition
        (Place(version=2, step="start", partition="mine"), "checkout", "ship", (None, None, None, None)),
        (
            Place(version=2, step="start", partition="mine"),
            "checkout",
            "store",
            ("warehouse", "mine", "checkout", "mine"),
        ),
        (
            Place(version=2, step="start", partition="mine"),
            "checkout",
            "bill",
            ("checkout", "bill_42", "checkout", "mine"),
        ),
        (Place(version=2, step="start"), "checkout", "bill", ("checkout", "bill_42", "checkout", None)),
        # away: home again, to the same place, to another place
        (AWAY, "warehouse", "start", ("checkout", "mine", None, None)),
        (AWAY, "warehouse", "store", (None, None, None, None)),
        (AWAY, "warehouse", "bill", ("checkout", "bill_42", "checkout", "mine")),
        # a home that is where the step wants to be anyway
        (Place(version=2, step="start", partition="mine"), "warehouse", "store", (None, None, None, None)),
    ],
)
def test_a_step_with_a_queue_or_partition_moves_and_the_next_one_goes_home(
    registry: Registry, place: Place, queue: str, to: str, expected: tuple[Any, ...]
) -> None:
    visit, ctx = thing(registry, place, queue=queue)
    settlement = conclude(visit, ctx, Next(to), continues=True)
    assert moved(settlement) == expected
    # what moves is taken by a worker of that queue, never continued in this slot
    assert settlement.to == ("running" if expected[0] is None else "queued")
    assert moved(conclude(visit, ctx, Await("a", then=to))) == expected
    assert moved(conclude(visit, ctx, Sleep(1, then=to))) == expected


def test_the_partition_of_the_next_step_is_made_of_the_state_that_it_gets(registry: Registry) -> None:
    visit, ctx = thing(registry)
    assert moved(conclude(visit, ctx, Next("bill", Order(99))))[1] == "bill_99"


def test_the_next_visit_begins_with_what_the_last_one_committed(registry: Registry) -> None:
    there = (signal("a"),)
    visit, ctx = thing(
        registry, Place(version=2, step="ship", awaiting=("a",), woken="signal", joining=3, signals=there)
    )
    settlement = conclude(visit, ctx, Next("start", Order(7, paid=True)), continues=True)
    left = msgspec.json.encode([signal("late", 1)]).decode()
    following = visit.following(settlement, left)
    assert following is not None
    claim = following.claim
    assert (claim.fence, claim.tries, claim.losses, claim.max_attempts, claim.timeout_ms) == (6, 0, 0, 3, None)
    assert (following.joins, following.migrates) == (False, False)
    ctx = following.context(claim, tenant="default", worker_id="w")
    following.invocation(ctx)
    assert ctx.state == Order(7, paid=True)
    assert (ctx.signals, [each.name for each in ctx.inbox], ctx.timed_out) == ((), ["late"], False)
    assert following.following(conclude(following, ctx, Next("ship"), continues=True), None) is not None


def test_a_plain_job_that_returns_an_outcome_is_told_so() -> None:
    app = Headway("sqlite:///unused.db")

    @app.job
    def work() -> Any:
        return Done(1)

    with pytest.raises(InvalidOutcome, match=r"work returned Done\(…\), and it is a plain job"):
        work.conclude(work.context(claim(), tenant=None, worker_id=None), Done(1), result_limit=LIMIT)
