"""Steps: which methods are some, what they may be, and how their options go over their machine's."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from headway import Done, Headway, Machine, Next, Registry, step
from headway.define.machine import MachineKind
from headway.errors import InvalidJob
from headway.testing import step_context


def kind_of(machine: type[Machine]) -> MachineKind:
    Registry().machine(machine)
    return machine.kind()


def test_steps_are_the_marked_methods_in_the_order_in_which_they_are_written() -> None:
    class M(Machine):
        @step
        def start(self, ctx: Any) -> Any: ...

        @step(max_attempts=2)
        async def zebra(self, ctx: Any, /) -> Any: ...

        def helper(self, ctx: Any) -> Any: ...

        @step()
        def apple(self, ctx: Any) -> Any: ...

    steps = kind_of(M).edition.steps
    assert list(steps) == ["start", "zebra", "apple"]
    assert [each.is_async for each in steps.values()] == [False, True, False]


def test_a_subclass_inherits_steps_and_may_replace_them() -> None:
    class Base(Machine, queue="base", version=3, max_attempts=7):
        @step
        def start(self, ctx: Any) -> Any:
            return Next(self.end)

        @step(timeout="1m")
        def end(self, ctx: Any) -> Any:
            return Done("base")

    class Sub(Base, queue="sub"):
        @step
        def end(self, ctx: Any) -> Any:
            return Done("sub")

        def start_again(self) -> None: ...

    kind = kind_of(Sub)
    assert list(kind.edition.steps) == ["start", "end"]
    assert kind.edition.steps["end"].options.timeout_ms is None
    assert (kind.name, kind.options.queue, kind.options.max_attempts, kind.edition.version) == ("sub", "sub", 7, 3)


def test_a_step_that_a_subclass_replaces_without_the_mark_is_no_step() -> None:
    class Base(Machine):
        @step
        def start(self, ctx: Any) -> Any: ...

    class Sub(Base):
        def start(self, ctx: Any) -> Any: ...

    with pytest.raises(InvalidJob, match="starts with the step start"):
        Registry().machine(Sub)


def test_a_machine_without_start_is_refused() -> None:
    class M(Machine):
        @step
        def begin(self, ctx: Any) -> Any: ...

    with pytest.raises(
        InvalidJob, match=r"m: a machine starts with the step start: write @step def start\(self, ctx\)"
    ):
        Registry().machine(M)


@pytest.mark.parametrize(
    "fn",
    [
        lambda self: None,
        lambda self, ctx, more: None,
        lambda self, ctx, *more: None,
        lambda self, *, ctx: None,
        lambda *args: None,
        lambda self, ctx, **more: None,
    ],
)
def test_a_step_takes_self_and_the_context(fn: Any) -> None:
    fn.__name__ = "start"
    machine = type("Odd", (Machine,), {"start": step(fn)})
    with pytest.raises(InvalidJob, match=r"odd.start: a step takes self and the context: def start\(self, ctx\)"):
        Registry().machine(machine)


def test_what_cannot_be_a_step_is_refused_where_it_is_marked() -> None:
    def generator(self: Any, ctx: Any) -> Any:
        yield 1

    async def async_generator(self: Any, ctx: Any) -> Any:
        yield 1

    for fn in (generator, async_generator):
        with pytest.raises(InvalidJob, match="a generator cannot be a step"):
            step(fn)
    for other in (7, functools.partial(generator), staticmethod(generator), Machine):
        with pytest.raises(InvalidJob, match="is not a method"):
            step(other)  # type: ignore[type-var]


@pytest.mark.parametrize("option", ["priority", "train", "delivery", "name", "max_losses", "tiemout"])
def test_an_option_that_steps_do_not_have_is_named(option: str) -> None:
    with pytest.raises(InvalidJob, match=f"@step takes no {option}: it takes queue, partition, timeout"):
        step(**{option: 1})  # type: ignore[call-overload]


@pytest.mark.parametrize("options", [{"max_attempts": 0}, {"timeout": "soon"}, {"queue": ""}, {"retry_on": "x"}])
def test_an_option_of_a_step_is_checked_when_the_machine_is_registered(options: Any) -> None:
    machine = type("M", (Machine,), {"start": step(**options)(lambda self, ctx: None)})
    with pytest.raises(InvalidJob, match=next(iter(options))):
        Registry().machine(machine)


def test_options_of_the_machine_are_checked_by_name() -> None:
    with pytest.raises(InvalidJob, match="prioritty"):

        @Registry().machine
        class M(Machine, prioritty=1):  # type: ignore[call-arg]
            @step
            def start(self, ctx: Any) -> Any: ...


@pytest.mark.parametrize(
    "name",
    ["handle", "migrate_from", "build", "enqueue", "aenqueue", "using", "signal", "asignal", "build_signal", "kind"],
)
def test_a_step_cannot_have_the_name_of_something_that_a_machine_has(name: str) -> None:
    fn = step(lambda self, ctx: None)
    machine = type("M", (Machine,), {"start": step(lambda self, ctx: None), name: fn})
    with pytest.raises(InvalidJob, match=name):
        Registry().machine(machine)


@pytest.mark.parametrize("version", [0, -1, True, "2", 2.0, 40_000])
def test_a_version_is_a_whole_number_from_1(version: Any) -> None:
    machine = type("M", (Machine,), {"start": step(lambda self, ctx: None)}, version=version)
    with pytest.raises(InvalidJob, match="version"):
        Registry().machine(machine)


def test_a_steps_options_go_over_its_machines() -> None:
    class M(Machine, max_attempts=3, timeout="10s", backoff=("1s", "1m"), queue="home", retry_on=(OSError,)):
        @step
        def start(self, ctx: Any) -> Any: ...

        @step(max_attempts=10, timeout=None, backoff=("2s", "2m"), discard_on=KeyError)
        def own(self, ctx: Any) -> Any: ...

    steps = kind_of(M).edition.steps
    claim = step_context(M)._claimed.claim
    assert (claim.max_attempts, claim.timeout_ms, claim.backoff_base_ms, claim.backoff_cap_ms) == (
        3,
        10_000,
        1_000,
        60_000,
    )
    claim = step_context(M, "own")._claimed.claim
    assert (claim.max_attempts, claim.timeout_ms, claim.backoff_base_ms, claim.backoff_cap_ms) == (
        10,
        None,
        2_000,
        120_000,
    )
    assert steps["own"].options.retries(OSError())
    assert not steps["own"].options.retries(ValueError())
    assert steps["start"].moves is steps["own"].moves is False


def test_a_partition_of_a_step_is_a_text_or_made_of_the_state() -> None:
    class M(Machine):
        @step
        def start(self, ctx: Any) -> Any: ...

        @step(partition="printer")
        def fixed(self, ctx: Any) -> Any: ...

        @step(partition="customer_{customer}")
        def template(self, ctx: Any) -> Any: ...

        @step(partition=lambda customer: f"c{customer}")
        def function(self, ctx: Any) -> Any: ...

    edition = kind_of(M).edition
    made = {
        name: edition.steps[name].partition_of(edition.shape, '{"customer":7}')
        for name in ("fixed", "template", "function")
    }
    assert made == {"fixed": "printer", "template": "customer_7", "function": "c7"}
    assert all(edition.steps[name].moves for name in made)
    assert not edition.steps["start"].moves


def test_a_template_of_a_field_that_is_not_there_is_refused() -> None:
    import msgspec

    with pytest.raises(InvalidJob, match="custmer"):

        @Registry().machine
        class M(Machine):
            class State(msgspec.Struct):
                customer: int

            @step(partition="customer_{custmer}")
            def start(self, ctx: Any) -> Any: ...


def test_a_marked_method_can_still_be_called() -> None:
    @Headway("sqlite:///unused.db").machine
    class M(Machine):
        @step
        def start(self, ctx: Any) -> Any:
            return Done(ctx)

    assert M().start(7) == Done(7)
