"""Machines without a database: registered, and enqueued."""

from __future__ import annotations

import asyncio

import pytest

from headway import Context, Done, Machine, Registry, step
from headway.define.machine import snake
from headway.errors import InvalidJob, InvalidPayload
from headway.model.machine import Checkpoint
from headway.model.outcome import Outcomes
from tests.define.sample_machines import App, Order, checkout


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
        with pytest.raises(InvalidJob, match="is not a machine"):
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
    assert first.checkpoint == Checkpoint(version=2, step="start")
    assert first.partition == "order_42"
    assert second.payload == '{"order":43,"paid":true}'
    assert (third.unique_key, third.priority, third.checkpoint) == ("order:44", 7, first.checkpoint)
    assert machine.build(order=45).id != machine.build(order=45).id
    assert machine.kind().build_from({"order": 46}).checkpoint == first.checkpoint


def test_a_machine_whose_start_has_a_queue_of_its_own_begins_away_from_home(registry: Registry) -> None:
    @registry.machine
    class M(Machine, queue="home", partition="p_{a}"):
        @step(queue="away", partition="start_{a}")
        def start(self, ctx: Context) -> Outcomes:
            return Done()

    job = M.build(a=7)
    assert (job.queue, job.partition) == ("away", "start_7")
    assert job.checkpoint == Checkpoint(version=1, step="start", home_queue="home", home_partition="p_7")
    job = M.using(queue="elsewhere", partition="q").build(a=7)
    assert (job.queue, job.partition) == ("away", "start_7")
    assert job.checkpoint is not None
    assert (job.checkpoint.home_queue, job.checkpoint.home_partition) == ("elsewhere", "q")


def test_a_class_that_is_registered_nowhere_or_twice_says_so(registry: Registry) -> None:
    class Loose(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            return Done()

    with pytest.raises(InvalidJob, match="Loose is not registered"):
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
