"""Registries: kinds by name, and how they find their app."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.define import Context, Flow, Machine, MachineKind, Registry, step
from headway.errors import InvalidJob, UnknownKind
from headway.model.job import NewJob
from headway.model.outcome import Done


class App:
    """Remembers what it was asked to enqueue."""

    payload_limit = 1_000

    def __init__(self) -> None:
        self.jobs: list[tuple[NewJob, Any]] = []

    def learn(self, conn: Any) -> None: ...

    async def alearn(self, conn: Any) -> None: ...

    def enqueue_new(self, job: NewJob, conn: Any) -> Any:
        self.jobs.append((job, conn))
        return "sync"

    async def aenqueue_new(self, job: NewJob, conn: Any) -> Any:
        self.jobs.append((job, conn))
        return "async"

    def run(self, a: int) -> int:
        return a


def work(a: int) -> int:
    return a


def other(a: int) -> int:
    return a


def test_job_decorates_bare_and_with_options() -> None:
    registry = Registry()

    @registry.job
    def bare(a: int) -> int:
        return a

    @registry.job(queue="mail", name="with.options")
    async def dressed(ctx: Context, a: int) -> int:
        return a

    assert registry["bare"] is bare
    assert registry["with.options"] is dressed
    assert (dressed.options.queue, dressed.is_async, dressed.context_param) == ("mail", True, "ctx")
    assert registry.names == ("bare", "with.options")
    assert len(registry) == 2
    assert "bare" in registry
    assert registry.get("nothing") is None
    view = registry.kinds
    registry.job(work)
    assert view["work"].fn is work
    assert {kind.name for kind in registry} - {"work"} == {"bare", "with.options"}


def test_a_name_is_taken_once_and_both_functions_are_named() -> None:
    registry = Registry()
    registry.job(work)
    with pytest.raises(InvalidJob) as caught:
        registry.job(name="work")(other)
    message = str(caught.value)
    assert 'kind "work" is defined twice, by ' in message
    assert "test_registry.work" in message
    assert "test_registry.other" in message
    assert registry["work"].fn is work


def test_the_same_function_may_come_again() -> None:
    registry = Registry()
    registry.job(work)
    again = registry.job(queue="mail")(work)
    assert registry["work"] is again
    registry.job(name="second")(work)
    app = App()
    for _ in range(2):
        registry.job(name="bound")(app.run)
    assert registry.names == ("bound", "second", "work")


def test_a_module_that_is_loaded_again_may_define_its_kinds_again() -> None:
    registry = Registry()
    source = compile("def reloaded(a: int): return a", "shop.py", "exec")
    for _ in range(2):
        names: dict[str, Any] = {"__name__": "shop"}
        exec(source, names)
        registry.job(names["reloaded"])
    assert registry["reloaded"].fn is names["reloaded"]


def test_closures_of_one_line_are_different_functions() -> None:
    registry = Registry()

    def make(number: int) -> Any:
        def inner() -> int:
            return number

        return inner

    registry.job(make(1))
    with pytest.raises(InvalidJob, match="is defined twice"):
        registry.job(make(2))


def test_an_unknown_kind_is_answered_with_the_close_ones() -> None:
    registry = Registry()
    with pytest.raises(UnknownKind, match=r'kind "wrk" is not defined here, and no other is'):
        registry["wrk"]
    registry.job(work)
    registry.job(other)
    with pytest.raises(UnknownKind, match=r"did you mean work\? The kinds known here are other, work"):
        registry["wrk"]
    for number in range(30):
        registry.job(name=f"kind_{number:02}")(work)
    with pytest.raises(UnknownKind, match="and 12 more"):
        registry["zzz"]


def test_an_unbound_kind_says_how_to_bind_it() -> None:
    kind = Registry().job(work)
    with pytest.raises(InvalidJob, match=r'kind "work" belongs to no app yet.*app.include\(registry\)'):
        kind.enqueue(1)
    with pytest.raises(InvalidJob, match="belongs to no app yet"):
        asyncio.run(kind.aenqueue(1))
    assert kind.build(1).payload == '{"a":1}'


def test_a_bound_registry_binds_earlier_and_later_kinds() -> None:
    app, registry = App(), Registry()
    early = registry.job(work)
    registry.bind(app)
    registry.bind(app)
    late = registry.job(other)
    assert early.enqueue(1) == "sync"
    assert asyncio.run(late.using(conn="mine").aenqueue(2)) == "async"
    assert [(job.kind, job.payload, conn) for job, conn in app.jobs] == [
        ("work", '{"a":1}', None),
        ("other", '{"a":2}', "mine"),
    ]


def test_an_included_registry_belongs_to_the_app_with_all_it_gets() -> None:
    app, main, shop, deep = App(), Registry(), Registry(), Registry()
    early = deep.job(work)
    main.include(shop)
    main.bind(app)
    shop.include(deep)
    late = deep.job(other)
    assert main["work"] is early
    assert main["other"] is late
    early.enqueue(1)
    late.enqueue(2)
    assert len(app.jobs) == 2
    main.include(shop)
    main.include(main)
    assert main.names == ("other", "work")


def test_including_refuses_taken_names_and_circles() -> None:
    main, shop = Registry(), Registry()
    main.job(work)
    shop.job(name="work")(other)
    with pytest.raises(InvalidJob, match="is defined twice"):
        main.include(shop)
    third = Registry()
    main.include(third)
    with pytest.raises(InvalidJob, match="include each other"):
        third.include(main)
    with pytest.raises(InvalidJob, match="is defined twice"):
        third.job(name="work")(other)
    assert "work" not in third


def test_a_kind_of_two_apps_does_not_guess() -> None:
    registry, small, large = Registry(), App(), App()
    small.payload_limit, large.payload_limit = 10, 1_000
    kind = registry.job(work)
    registry.bind(large)
    registry.bind(small)
    with pytest.raises(InvalidJob, match=r"belongs to 2 apps.*use app.enqueue\(kind.build\(…\)\)"):
        kind.enqueue(1)
    assert kind.build(1).payload == '{"a":1}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cathc_up": "all"}, "@schedule has no option cathc_up: did you mean catch_up?"),
        ({"template_id": "nightly"}, "@schedule has no option template_id: it takes catch_up, "),
        ({"kind": "other"}, "@schedule has no option kind: "),
        ({"enabled": False}, "a schedule in the code is enabled; pause it with headway schedules pause"),
    ],
)
def test_a_schedule_in_the_code_takes_its_own_options_only(options: dict[str, Any], message: str) -> None:
    registry = Registry()
    with pytest.raises(InvalidJob) as refused:
        registry.schedule("@daily", **options)(registry.job(work))
    assert str(refused.value).startswith(message)


CELL = """
@registry.job
def greet(name: str, {more}) -> None: ...

@registry.flow
async def book(flow: Flow, {more}) -> None: ...

@registry.machine
class Order(Machine):
    @step
    def start(self, ctx: Context) -> Done:
        return Done({more!r})
"""


@pytest.mark.parametrize(
    "files",
    [
        ("<stdin>", "<stdin>"),
        ("<python-input-3>", "<python-input-4>"),
        ("<ipython-input-3-0a1b>", "<ipython-input-4-0a1b>"),
        ("/tmp/ipykernel_123/1.py", "/tmp/ipykernel_123/2.py"),
    ],
)
def test_a_cell_of_a_notebook_may_be_run_again_changed_too(files: tuple[str, str]) -> None:
    registry = Registry()
    names: dict[str, Any] = {
        "registry": registry,
        "Machine": Machine,
        "step": step,
        "Context": Context,
        "Done": Done,
        "Flow": Flow,
    }
    names["__name__"] = "__main__"
    for file, more in zip(files, ("one: int = 1", "two: int = 2"), strict=True):
        exec(compile(CELL.format(more=more), file, "exec", dont_inherit=True), names)
    assert registry.names == ("book", "greet", "order")
    assert registry.kinds["greet"].build("Ada", two=3).payload == '{"name":"Ada","two":3}'
    order = registry.kinds["order"]
    assert isinstance(order, MachineKind)
    assert order.edition.machine is names["Order"]
    assert registry.kinds["book"].build(two=3).payload == '{"two":3}'
    with pytest.raises(InvalidJob, match="is defined twice"):
        exec(compile(CELL.format(more="three: int = 3"), "/srv/app.py", "exec"), names)
