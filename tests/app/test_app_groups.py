"""Groups and `after` through the app: enqueue together, watch, wait, cancel and retry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from headway import Headway
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.model.ids import new_id
from headway.testing import drain

Call = Callable[..., Any]


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def broken() -> set[str]:
    return set()


@pytest.fixture
def work(app: Headway, seen: list[str], broken: set[str]) -> Any:
    @app.job(max_attempts=1)
    def work(name: str) -> str:
        seen.append(name)
        if name in broken:
            raise LookupError(name)
        return name

    return work


def test_a_group_runs_its_jobs_and_then_its_callback(app: Headway, work: Any, seen: list[str], call: Call) -> None:
    group = call(app, "group", [work.build(name) for name in "abc"], callback=work.build("end"))
    assert [job.status for job in group.jobs] == ["queued"] * 3
    assert group.callback.status == "held"
    assert repr(group) == f"<GroupHandle {group.id} of 3 jobs>"
    found = call(app, "get_group", group.id)
    assert (found.mode, found.on_failure, found.callback_id) == ("parallel", "stop", group.callback.id)
    assert (found.total, found.done, found.status, group.progress) == (3, 0, "running", 0.0)
    drain(app)
    assert seen == ["a", "b", "c", "end"]
    assert (group.progress, group.get().status) == (1.0, "succeeded")
    assert [job.id for job in app.jobs(group_id=group.id)] == [job.id for job in reversed(group.jobs)]


def test_a_sequential_group_runs_in_order_on_many_slots(app: Headway, work: Any, seen: list[str]) -> None:
    names = [str(number) for number in range(10)]
    group = app.group([work.build(name) for name in names], mode="sequential", callback=work.build("end"))
    assert [job.status for job in group.jobs] == ["queued"] + ["held"] * 9
    drain(app, concurrency=10)
    assert seen == [*names, "end"]


@pytest.mark.parametrize(
    ("mode", "on_failure", "ran", "callback"),
    [
        ("sequential", "stop", ["a", "b"], "canceled"),
        ("sequential", "continue", ["a", "b", "c", "end"], "succeeded"),
        ("sequential", "skip", ["a", "b", "c"], "canceled"),
        ("parallel", "continue", ["a", "b", "c", "end"], "succeeded"),
        ("parallel", "skip", ["a", "b", "c"], "canceled"),
    ],
)
def test_what_a_failure_means_to_the_others(
    app: Headway, work: Any, seen: list[str], broken: set[str], mode: Any, on_failure: Any, ran: Any, callback: str
) -> None:
    broken.add("b")
    group = app.group(
        [work.build(name) for name in "abc"], mode=mode, on_failure=on_failure, callback=work.build("end")
    )
    drain(app)
    assert seen == ran
    assert app.get(group.callback.id).status == callback
    assert group.get().status == "failed"
    assert group.get().failed == (2 if on_failure == "stop" else 1)


def test_a_failure_stops_what_has_not_begun(app: Headway, work: Any, seen: list[str], broken: set[str]) -> None:
    broken.add("a")
    jobs = [work.build("a"), work.using(delay="1h").build("b")]
    group = app.group(jobs, callback=work.build("end"))
    drain(app)
    assert (seen, group.get().status) == (["a"], "failed")
    assert [app.get(job.id).status for job in (*group.jobs, group.callback)] == ["dead", "canceled", "canceled"]
    assert group.get().stopped_at is not None


def test_a_group_is_retried_from_where_it_failed(
    app: Headway, work: Any, seen: list[str], broken: set[str], call: Call
) -> None:
    broken.add("b")
    group = app.group([work.build(name) for name in "abc"], mode="sequential", callback=work.build("end"))
    drain(app)
    broken.clear()
    assert set(call(app, "retry_group", group.id, actor="ada")) >= {group.jobs[1].id, group.jobs[2].id}
    drain(app)
    assert seen == ["a", "b", "b", "c", "end"]
    assert group.get().status == "succeeded"


def test_a_group_is_canceled(app: Headway, work: Any, seen: list[str], call: Call) -> None:
    group = app.group([work.build(name) for name in "ab"], callback=work.build("end"))
    statuses = call(app, "cancel_group", group, reason="not needed", actor="ada")
    assert statuses == {job.id: "canceled" for job in (*group.jobs, group.callback)}
    assert (drain(app).succeeded, group.get().status) == (0, "canceled")
    with pytest.raises(InvalidJob):
        work.using(group=group).enqueue("late")


def test_the_handle_has_the_verbs_too(app: Headway, work: Any, seen: list[str], broken: set[str]) -> None:
    broken.add("a")
    group = app.group([work.build("a")])
    drain(app)
    broken.clear()
    assert group.retry() == [group.jobs[0].id]
    assert group.cancel(reason="x") == {group.jobs[0].id: "canceled"}

    async def story() -> None:
        group = await app.agroup([work.build("b")], callback=work.build("end"))
        assert (await group.aprogress(), (await group.aget()).total) == (0.0, 1)
        await group.acancel()
        await group.aretry()
        assert (await group.await_(timeout="10ms")).status == "running"
        await app.arun(until_idle=True)
        assert (await group.await_()).status == "succeeded"
        await app.aclose()

    asyncio.run(story())
    assert seen[-2:] == ["b", "end"]


def test_waiting_for_a_group_waits_for_its_callback_too(app: Headway, work: Any, seen: list[str]) -> None:
    group = app.group([work.build("a"), work.build("b")], callback=work.build("end"))
    assert group.wait(timeout="20ms").done == 0

    async def both() -> None:
        worker = asyncio.create_task(app.arun("default"))
        assert (await asyncio.to_thread(group.wait, "20s")).status == "succeeded"
        worker.cancel()
        await asyncio.wait([worker])
        await app.aclose()

    asyncio.run(both())
    assert seen[-1] == "end"


def test_a_job_joins_a_group_that_is_there(app: Headway, work: Any, seen: list[str]) -> None:
    group = app.group([work.build("a")], callback=work.build("end"))
    work.using(group=group).enqueue("b")
    work.using(group=group.id).enqueue("c")
    assert group.get().total == 3
    drain(app)
    assert sorted(seen[:3]) == ["a", "b", "c"]
    assert seen[3:] == ["end"]


def test_a_group_of_a_callback_alone_runs_it(app: Headway, work: Any, seen: list[str]) -> None:
    group = app.group([], callback=work.build("end"))
    drain(app)
    assert (seen, group.jobs, group.progress) == (["end"], [], 1.0)


def test_a_group_is_one_tenants(app: Headway, work: Any, seen: list[str]) -> None:
    acme = app.tenant("acme")
    group = acme.group([work.build("a")], callback=work.build("end"))
    assert acme.get_group(group.id).tenant == app.get_group(group.id).tenant == "acme"
    with pytest.raises(NotFound, match="there is no group"):
        app.tenant("other").get_group(group.id)
    with pytest.raises(NotAllowed):
        acme.group([work.using(tenant="other").build("a")])
    drain(app)
    assert group.get().status == "succeeded"


def test_what_is_no_group_is_refused(app: Headway, work: Any, call: Call) -> None:
    for verb in ("get_group", "cancel_group", "retry_group"):
        with pytest.raises(NotFound, match="there is no group"):
            call(app, verb, uuid4())
        with pytest.raises(InvalidJob, match="is not a group"):
            call(app, verb, "x")
    with pytest.raises(InvalidJob, match=r"give \[job, …\]"):
        call(app, "group", work.build("a"))
    with pytest.raises(InvalidJob, match=r"takes what kind\.build"):
        call(app, "group", ["work"])
    with pytest.raises(InvalidJob, match="at least one job"):
        call(app, "group", [])


# after


def test_a_job_runs_after_others(app: Headway, work: Any, seen: list[str]) -> None:
    first = work.enqueue("a")
    second = work.build("b")
    app.enqueue_many([work.using(after=[first, second]).build("c"), second])
    (held,) = app.jobs(status="held")
    assert held.pending
    drain(app)
    assert seen == ["a", "b", "c"]


def test_what_follows_a_failure(app: Headway, work: Any, seen: list[str], broken: set[str]) -> None:
    broken.add("a")
    first = work.enqueue("a")
    stops = work.using(after=first).enqueue("stops")
    further = work.using(after=[stops]).enqueue("further")
    goes_on = work.using(after=first, on_failure="continue").enqueue("goes on")
    drain(app)
    assert seen == ["a", "goes on"]
    assert [app.get(job.id).status for job in (stops, further, goes_on)] == ["canceled", "canceled", "succeeded"]
    assert f"job {first.id} is dead" in app.get(stops.id).error


def test_circles_and_unknown_jobs_are_refused(app: Headway, work: Any, call: Call) -> None:
    one = work.build("a")
    two = work.using(after=one).build("b")
    import msgspec

    circle = [msgspec.structs.replace(one, after=(two.id,)), two]
    with pytest.raises(InvalidJob, match=f"{one.id} → {two.id} → {one.id}"):
        call(app, "enqueue_many", circle)
    with pytest.raises(InvalidJob, match="after names job"):
        call(app, "enqueue", work.using(after=new_id()).build("c"))
    other = app.tenant("other").enqueue("work", {"name": "x"})
    with pytest.raises(InvalidJob, match="after names job"):
        call(app, "enqueue", work.using(after=other).build("c"))
    assert app.counts().get("held", 0) == 0
