"""The helpers with jobs that wait for each other: trains, groups, `after`, limits, rates, reservations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from headway import Headway
from headway.testing import all_enqueued, assert_enqueued, drain, held, inline, refute_enqueued


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def work(app: Headway, ran: list[str]) -> Any:
    @app.job(max_attempts=1)
    def work(name: str, fails: bool = False) -> str:
        ran.append(name)
        if fails:
            raise LookupError(name)
        return name

    return work


def test_drain_runs_trains_groups_and_dependants_in_their_order(app: Headway, work: Any, ran: list[str]) -> None:
    last = work.using(after=[work.using(train="t", priority=9).enqueue("a"), work.using(train="t").enqueue("b")])
    last.enqueue("z")
    app.group([work.build("g1"), work.build("g2")], mode="sequential", callback=work.build("g3"))
    assert drain(app).succeeded == 6
    assert [name for name in ran if name in "abz"] == ["a", "b", "z"]
    assert [name for name in ran if name[0] == "g"] == ["g1", "g2", "g3"]


def test_drain_leaves_what_is_held_limited_or_reserved(app: Headway, work: Any, ran: list[str]) -> None:
    app.hold_train("t")
    app.limit(kind="other", max_running=0)
    app.job(name="other")(lambda: None)
    held_car, limited = work.using(train="t").enqueue("held"), app.enqueue("other")
    with app.reserve("mine"):
        reserved = work.using(queue="mine").enqueue("reserved")
        assert drain(app).succeeded == 0
    assert [app.get(job.id).status for job in (held_car, limited, reserved)] == ["held", "queued", "queued"]
    assert drain(app, with_scheduled=True).succeeded == 1
    assert ran == ["reserved"]


def test_drain_brings_delayed_cars_forward(app: Headway, work: Any, ran: list[str]) -> None:
    work.using(train="t", delay="1h").enqueue("a")
    work.using(train="t").enqueue("b")
    work.using(train="t", delay="2h").enqueue("c")
    assert drain(app).succeeded == 0
    assert drain(app, with_scheduled=True).succeeded == 3
    assert ran == ["a", "b", "c"]
    with held(app) as clock:
        began = clock.now()
        work.using(train="t", delay="1h").enqueue("a")
        work.using(train="t").enqueue("b")
        assert drain(app, with_scheduled=True).succeeded == 2
        assert (clock.now() - began).total_seconds() == 3_600


def test_drain_with_a_clock_waits_for_rates(app: Headway, ran: list[str]) -> None:
    @app.job(rate="1/min", rate_key="{user}")
    def mail(user: int) -> None:
        ran.append(str(user))

    app.enqueue_many(mail.build(user) for user in (1, 1, 1, 2))
    with held(app) as clock:
        began = clock.now()
        assert drain(app).succeeded == 2
        assert drain(app, with_scheduled=True).succeeded == 2
        assert 115 <= (clock.now() - began).total_seconds() <= 125
    assert sorted(ran) == ["1", "1", "1", "2"]


def test_inline_runs_a_car_before_its_enqueue_returns(app: Headway, work: Any, ran: list[str]) -> None:
    with inline(app):
        work.using(train="t").enqueue("a")
        assert ran == ["a"]
        app.enqueue_many(work.using(train="t").build(name) for name in "bc")
        assert ran == ["a", "b", "c"]
        app.hold_train("t")
        assert app.get(work.using(train="t").enqueue("d").id).status == "held"
    assert ran == ["a", "b", "c"]


def test_inline_runs_a_group_and_its_callback(app: Headway, work: Any, ran: list[str]) -> None:
    with inline(app):
        group = app.group([work.build("a"), work.build("b")], callback=work.build("end"))
        assert ran == ["a", "b", "end"]
        assert group.get().status == "succeeded"
        app.tenant("acme").group([work.build("c")], mode="sequential", callback=work.build("d"))
        assert ran[3:] == ["c", "d"]
        with pytest.raises(LookupError, match="bad"):
            app.group([work.build("bad", fails=True)], callback=work.build("never"))
        work.using(after=work.enqueue("e")).enqueue("f")
    assert ran[5:] == ["bad", "e", "f"]


async def _group(app: Headway, work: Any) -> Any:
    with inline(app):
        return await app.agroup([work.build("a")], callback=work.build("end"))


def test_inline_runs_an_async_group(app: Headway, work: Any, ran: list[str]) -> None:
    import asyncio

    async def story() -> None:
        group = await _group(app, work)
        assert (await group.aget()).status == "succeeded"
        await app.aclose()

    asyncio.run(story())
    assert ran == ["a", "end"]


def test_options_are_looked_for_as_they_were_given(app: Headway, work: Any) -> None:
    options: dict[str, Any] = {
        "train": "t",
        "partition": 7,
        "on_dead": "hold",
        "concurrency": 2,
        "concurrency_key": UUID(int=1),
        "rate": "5/2h",
        "burst": 9,
        "rate_key": "r",
    }
    group = app.group([work.using(**options).build("a")])
    for option, value in options.items():
        assert_enqueued(app, work, **{option: value}, count=1)
    assert_enqueued(app, work, **options, group=group, status="queued")
    assert_enqueued(app, work, group=group.id, train=lambda train: train.startswith("t"))
    refute_enqueued(app, work, rate="6/2h")
    refute_enqueued(app, work, train="u")
    assert all_enqueued(app, group=UUID(int=1)) == []
    with pytest.raises(AssertionError, match="in train t  \\(train is 't'\\)"):
        assert_enqueued(app, work, train="u")
