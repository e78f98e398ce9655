"""Order and exclusion as options: keys made of arguments, limits, rates, and the refusal of what cannot work."""

from __future__ import annotations

import asyncio
from datetime import date
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import pytest

from headway import Registry
from headway.define import Kind, new_job
from headway.define.keys import KEYS
from headway.errors import InvalidJob
from headway.model.ids import new_id
from headway.model.job import Enqueued, NewJob


class Region(StrEnum):
    EU = "eu"


class Old(str, Enum):  # noqa: UP042 - its str() is not its value
    X = "x"


def define(**options: Any) -> Kind[..., None]:
    @Registry().job(**options)
    def sync(
        dest_id: int, region: Region = Region.EU, owner: UUID | None = None, /, *, day: date | None = None
    ) -> None:
        pass

    return sync


def train(option: Any, *args: Any, **kwargs: Any) -> str | None:
    return define(train=option).build(*args, **kwargs).train


# templates


@pytest.mark.parametrize("option", KEYS)
def test_every_key_of_a_kind_may_be_a_template_of_arguments(option: str) -> None:
    job = define(concurrency=2, rate="1/s", **{option: "dest_{dest_id}"}).build(42)
    assert [getattr(job, key) for key in KEYS] == ["dest_42" if key == option else None for key in KEYS]


def test_a_template_takes_arguments_as_the_function_gets_them() -> None:
    kind = define(train="{dest_id}/{region}")
    assert kind.build(42).train == "42/eu"  # its own default
    assert kind.build(42, "eu").train == "42/eu"
    assert kind.build_from({"dest_id": 42, "region": "eu"}).train == "42/eu"
    owner = UUID(int=7)
    assert train("{owner}", 1, Region.EU, owner) == train("{owner}", 1, Region.EU, str(owner)) == str(owner)


def test_a_string_without_braces_is_itself_and_doubled_braces_are_braces() -> None:
    assert train("imports", 1) == "imports"
    assert train("a{{b}}", 1) == "a{b}"
    assert train("{{{dest_id}}}", 1) == "{1}"
    assert train(7, 1) == "7"
    assert train(UUID(int=7), 1) == str(UUID(int=7))
    assert train(Old.X, 1) == "x"
    assert train(None, 1) is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{dest}", "sync: train='{dest}' names dest, which is not a parameter: did you mean dest_id?"),
        ("{zzz}", "names zzz, which is not a parameter: it takes dest_id, region, owner, day"),
        ("{ctx}", "names ctx, which is not a parameter"),
        ("{}", "{} is not the name of a parameter"),
        ("{0}", "{0} is not the name of a parameter"),
        (
            "{dest_id.real}",
            "{dest_id.real} is not the name of a parameter, and a template takes nothing else: give a function",
        ),
        ("{owner[0]}", "{owner[0]} is not the name of a parameter"),
        ("{dest_id:>5}", "is not the name of a parameter"),
        ("{dest_id!r}", "is not the name of a parameter"),
        ("{dest_id", "is not a template (expected '}' before end of string): write {{ and }} for plain braces"),
        ("dest_id}", "is not a template"),
    ],
)
def test_a_template_that_cannot_work_fails_at_definition(template: str, message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        define(train=template)
    assert message in str(caught.value)


def test_an_argument_that_makes_no_key_is_refused() -> None:
    with pytest.raises(InvalidJob, match=r"sync: train='\{owner\}': the argument owner is None, which makes no key"):
        train("{owner}", 1)
    with pytest.raises(InvalidJob, match="the argument day is date, which makes no key"):
        train("{day}", 1, day=date(2031, 5, 6))


def test_a_template_of_a_function_that_takes_more_by_name() -> None:
    @Registry().job(train="{user}")
    def sync(**rest: str) -> None: ...

    assert sync.build(user="ada").train == "ada"
    with pytest.raises(InvalidJob, match="the argument user is None"):
        sync.build()


# functions


def test_a_function_gets_the_arguments_that_it_names() -> None:
    assert train(lambda dest_id: f"d{dest_id}", 42) == "d42"
    assert train(lambda region, dest_id: f"{region.value}{dest_id}", 42) == "eu42"
    assert train(lambda dest_id, prefix="p": f"{prefix}{dest_id}", 42) == "p42"
    assert train(lambda **all_: ",".join(all_), 42) == "dest_id,region,owner,day"
    assert train(lambda: "one", 42) == "one"
    assert train(lambda dest_id: dest_id, 42) == "42"
    assert train(lambda day: None if day is None else day.isoformat(), 42, day=date(2031, 5, 6)) == "2031-05-06"
    assert train(lambda day: day and "x", 42) is None
    assert train(lambda owner: owner, 42, Region.EU, UUID(int=1)) == str(UUID(int=1))


def test_a_function_that_cannot_work_fails_at_definition() -> None:
    async def later(dest_id: int) -> str:
        return str(dest_id)

    async def coroutine() -> str:
        return ""

    for fn, message in (
        (lambda dest: dest, "asks for dest, which is not a parameter: did you mean dest_id?"),
        (lambda *args: args, "it gets arguments by name, so args cannot go by position"),
        (lambda dest_id, /: dest_id, "it gets arguments by name, so dest_id cannot go by position"),
        (later, "is async, and a key is made before anything is awaited: make it a plain def"),
        (coroutine, "is async"),
    ):
        with pytest.raises(InvalidJob) as caught:
            define(train=fn)
        assert str(caught.value).startswith("sync: train=")
        assert message in str(caught.value)


def test_a_function_that_fails_names_kind_and_option() -> None:
    def by_zero(dest_id: int) -> int:
        return dest_id // 0

    with pytest.raises(InvalidJob, match=r"sync: train=.*by_zero raised ZeroDivisionError: .*: nothing was enqueued"):
        train(by_zero, 1)
    for wrong in (True, 1.5, b"x", [1], object()):
        with pytest.raises(
            InvalidJob, match=r"sync: train=.* which is no key: give str, int or UUID, or None for none"
        ):
            train(lambda dest_id, wrong=wrong: wrong, 1)
    with pytest.raises(InvalidJob, match="sync: train is empty"):
        train(lambda: "", 1)
    with pytest.raises(InvalidJob, match=r"sync: train=.* has 256 characters, over the limit of 255"):
        train(lambda: "x" * 256, 1)
    with pytest.raises(InvalidJob, match="sync: train="):
        train(lambda: "a\0b", 1)


# using()


def test_using_takes_a_key_as_it_stands() -> None:
    kind = define(train="d{dest_id}", partition=lambda dest_id: dest_id)
    job = kind.using(train="{dest_id}").build(1)
    assert (job.train, job.partition) == ("{dest_id}", "1")
    assert kind.using(train=7).build(1).train == "7"
    assert kind.using(train=None).build(1).train is None
    assert kind.using(train=None).using(priority=5).build(1).train is None
    assert kind.using(priority=5).build(1).train == "d1"
    assert kind.build(1).train == "d1"
    for wrong in (True, 1.5, lambda: "x", ["x"]):
        with pytest.raises(InvalidJob, match=r"train=.* which is no key"):
            kind.using(train=wrong)  # type: ignore[arg-type]
    for option in KEYS:
        with pytest.raises(InvalidJob, match=f"{option} is empty"):
            kind.using(**{option: ""})  # type: ignore[arg-type]


def test_a_job_of_a_kind_that_is_unknown_here_takes_keys_as_they_stand() -> None:
    job = new_job("elsewhere", "{}", {"train": "{x}", "concurrency": 2, "concurrency_key": 7}, now=0)
    assert (job.train, job.concurrency, job.concurrency_key) == ("{x}", 2, "7")


# limits and rates


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency=0 is out of range: give a whole number from 1 to 1000000"),
        ({"concurrency": "3"}, "concurrency='3' is not a whole number"),
        ({"concurrency_key": "x"}, "concurrency_key means nothing without concurrency"),
        ({"concurrency_key": "{dest_id}"}, "concurrency_key means nothing without concurrency"),
        ({"rate_key": "x"}, "rate_key means nothing without rate"),
        ({"rate_key": lambda: 1}, "rate_key means nothing without rate"),
        ({"burst": 5}, "burst=5 means nothing without rate: say how many may start, rate='100/min'"),
        ({"rate": "1/s", "burst": 0}, "burst=0 is out of range"),
        ({"rate": "fast"}, "rate='fast' is not a rate: use a string like '100/min', '10/s', '5/2h' or '1000/day'"),
        ({"rate": "100"}, "is not a rate"),
        ({"rate": 100}, "rate=100 is not a rate"),
        ({"rate": "1/fortnight"}, "is not a rate"),
        ({"rate": "1.5/s"}, "is not a rate"),
        ({"rate": "0/s"}, "rate='0/s' is out of range: give a count from 1"),
        ({"rate": "1/0s"}, "is out of range"),
        ({"rate": "1/400d"}, "is out of range"),
        ({"on_dead": "stop"}, "on_dead='stop' is unknown: use 'advance' or 'hold'"),
        ({"on_canceled": None}, "on_canceled=None is unknown"),
    ],
)
def test_a_limit_that_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        define(**options)
    assert message in str(caught.value)
    if not any(callable(value) for value in options.values()):  # which is a kind's alone
        with pytest.raises(InvalidJob) as caught:
            define().using(**options)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rate", "row"),
    [
        ("10/s", (10, 1_000)),
        ("100/min", (100, 60_000)),
        ("100 / Minute", (100, 60_000)),
        ("5/2h", (5, 7_200_000)),
        ("1000/day", (1_000, 86_400_000)),
        ("3/90 seconds", (3, 90_000)),
    ],
)
def test_rates(rate: str, row: tuple[int, int]) -> None:
    job = define(rate=rate).build(1)
    assert (job.rate_count, job.rate_period_ms, job.rate_burst) == (*row, None)


def test_what_using_takes_back_takes_its_key_along() -> None:
    kind = define(concurrency=3, concurrency_key="{dest_id}", rate="1/s", burst=5, rate_key="{dest_id}")
    job = kind.using(concurrency=None, rate=None).build(1)
    assert job == NewJob(id=job.id, kind="sync", payload=job.payload)
    job = kind.using(concurrency=9, rate="2/s").build(1)
    assert (job.concurrency, job.concurrency_key, job.rate_count, job.rate_burst, job.rate_key) == (9, "1", 2, 5, "1")
    job = kind.using(concurrency_key=None, rate_key="all", burst=None).build(1)
    assert (job.concurrency, job.concurrency_key, job.rate_burst, job.rate_key) == (3, None, None, "all")


# joins


def test_after_takes_jobs_however_they_are_given() -> None:
    ids = [new_id() for _ in range(3)]
    enqueued, built = Enqueued(ids[0], "queued", True), define().build(1)
    job = define().using(after=[enqueued, built, ids[1], UUID(ids[2]), ids[1]]).build(1)
    assert job.after == (ids[0], built.id, ids[1], ids[2])
    assert job.on_failure == "stop"
    assert define().using(after=enqueued).build(1).after == (ids[0],)
    assert define().using(after=ids[0]).build(1).after == (ids[0],)
    again = define().using(after=ids[0], on_failure="continue")
    assert again.build(1).on_failure == "continue"
    job = again.using(after=None).build(1)
    assert (job.after, job.on_failure) == ((), "stop")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"after": "welcome"},
            "after has 'welcome', which is not a job: give what enqueue() or build() gave, or an id",
        ),
        ({"after": [7]}, "after has 7, which is not a job"),
        ({"after": 7}, "after=7 is not a list of jobs"),
        ({"after": {"a": 1}}, "is not a list of jobs"),
        ({"on_failure": "continue"}, "on_failure='continue' means nothing without after"),
        ({"on_failure": "skip"}, "on_failure='skip' is unknown: use 'stop' or 'continue'"),
        ({"group": "x"}, "group='x' is not a group: give what app.group(…) gave, or its id, a UUID"),
        ({"group": Enqueued(str(UUID(int=1)), "queued", True)}, "is not a group"),
    ],
)
def test_a_join_that_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        define().using(**options)
    assert message in str(caught.value)


def test_keys_are_made_of_a_call_in_either_colour() -> None:
    class App:
        payload_limit = 1_000
        jobs: list[NewJob] = []  # noqa: RUF012 - one app

        def learn(self, conn: Any) -> None: ...

        async def alearn(self, conn: Any) -> None: ...

        def enqueue_new(self, job: NewJob, conn: Any) -> Any:
            self.jobs.append(job)

        async def aenqueue_new(self, job: NewJob, conn: Any) -> Any:
            self.jobs.append(job)

    shop = Registry()
    shop.bind(App())

    @shop.job(train="{user}")
    def greet(user: str) -> None: ...

    greet.enqueue("ada")
    asyncio.run(greet.aenqueue(user="bob"))
    assert [job.train for job in App.jobs] == ["ada", "bob"]
