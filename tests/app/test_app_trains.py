"""Trains through the app: keys of kinds, order, the operators' verbs, tenants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headway import Context, Headway
from headway.define.options import new_job
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.model.ids import new_id
from headway.testing import drain
from headway.worker import run_worker

Call = Callable[..., Any]


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def sync(app: Headway, seen: list[str]) -> Any:
    @app.job(train="dest_{dest}", max_attempts=1)
    def sync(dest: int, name: str, fails: bool = False) -> None:
        seen.append(f"{dest}{name}")
        if fails:
            raise LookupError("no such destination")

    return sync


def test_a_kinds_train_runs_its_jobs_in_order_whatever_their_priority(app: Headway, sync: Any, seen: list[str]) -> None:
    first = sync.enqueue(1, "a")
    second = sync.using(priority=1).enqueue(1, "b")
    other = app.enqueue("sync", {"dest": 2, "name": "a"})
    assert app.get(first.id).train == "dest_1"
    assert [app.get(job.id).status for job in (first, other)] == ["queued", "queued"]
    assert app.get(second.id).status == "held"
    assert drain(app).succeeded == 3
    assert [name for name in seen if name[0] == "1"] == ["1a", "1b"]
    assert app.trains() == []


def test_many_jobs_of_many_trains_in_one_call(app: Headway, sync: Any, seen: list[str]) -> None:
    app.enqueue_many(sync.build(dest, str(number)) for number in range(3) for dest in range(50))
    assert drain(app, concurrency=10).succeeded == 150
    for dest in range(50):
        assert [name for name in seen if name in {f"{dest}{number}" for number in range(3)}][-3:] == [
            f"{dest}{number}" for number in range(3)
        ]


def test_a_train_is_looked_at(app: Headway, sync: Any, call: Call) -> None:
    jobs = [sync.enqueue(1, name) for name in "abc"]
    sync.enqueue(2, "a")
    call(app, "hold_train", "dest_2", reason="not today", actor="ada")
    one, two = call(app, "trains")
    assert (one.train, one.tenant, one.length, one.head_id, one.head_kind) == (
        "dest_1",
        "default",
        3,
        jobs[0].id,
        "sync",
    )
    assert (one.head_status, one.blocked, one.hold) == ("queued", False, None)
    assert (two.train, two.blocked, two.hold.reason, two.hold.actor) == ("dest_2", True, "not today", "ada")
    assert [train.train for train in call(app, "trains", blocked=True)] == ["dest_2"]
    assert [train.train for train in call(app, "trains", blocked=False)] == ["dest_1"]
    assert [train.train for train in call(app, "trains", limit=1)] == ["dest_1"]
    assert [train.train for train in call(app, "trains", after="dest_1")] == ["dest_2"]
    assert [job.id for job in call(app, "train", "dest_1")] == [job.id for job in jobs]
    assert [job.id for job in call(app, "train", "dest_1", limit=2)] == [job.id for job in jobs[:2]]
    assert call(app, "train", "elsewhere") == []


def test_a_dead_car_holds_its_train_until_it_is_resumed(app: Headway, sync: Any, seen: list[str], call: Call) -> None:
    bad, good = sync.using(on_dead="hold").enqueue(1, "a", fails=True), sync.enqueue(1, "b")
    drain(app)
    (train,) = app.trains(blocked=True)
    assert (train.hold is not None and train.hold.job_id, train.head_id) == (bad.id, good.id)
    assert seen == ["1a"]
    assert call(app, "resume_train", "dest_1", actor="ada") is True
    assert call(app, "resume_train", "dest_1") is False
    drain(app)
    assert seen == ["1a", "1b"]


def test_retrying_the_dead_car_ends_the_hold(app: Headway, seen: list[str]) -> None:
    broken = True

    @app.job(train="t", on_dead="hold", max_attempts=1)
    def sync(name: str) -> None:
        seen.append(name)
        if broken:
            raise LookupError

    jobs = [sync.enqueue(name) for name in "ab"]
    drain(app)
    broken = False
    assert app.retry(jobs[0].id) == jobs[0].id
    drain(app)
    assert seen == ["a", "a", "b"]


def test_skipping_and_clearing(app: Headway, sync: Any, seen: list[str], call: Call) -> None:
    jobs = [sync.using(on_canceled="hold").enqueue(1, name) for name in "abc"]
    assert call(app, "skip", jobs[0].id) == "canceled"
    assert call(app, "skip", jobs[1].id, actor="ada") == "canceled"
    assert app.trains(blocked=True) == []
    drain(app)
    assert seen == ["1c"]
    jobs = [sync.using(on_canceled="hold").enqueue(1, name) for name in "abc"]
    assert sorted(call(app, "clear_train", "dest_1")) == sorted(job.id for job in jobs)
    assert app.trains() == []
    with pytest.raises(NotFound, match="there is no job"):
        call(app, "skip", new_id())
    plain = app.enqueue(new_job("elsewhere", "{}", {}, now=app.clock.now()))
    with pytest.raises(NotAllowed):
        call(app, "skip", plain.id)


def test_a_skipped_car_that_held_its_train_lets_it_go(app: Headway, sync: Any, seen: list[str], call: Call) -> None:
    bad = sync.using(on_dead="hold").enqueue(1, "a", fails=True)
    sync.enqueue(1, "b")
    drain(app)
    assert call(app, "skip", bad.id) == "dead"
    drain(app)
    assert seen == ["1a", "1b"]


def test_moving(app: Headway, sync: Any, seen: list[str], call: Call) -> None:
    _, b, c, d, e = [sync.enqueue(1, name) for name in "abcde"]
    moved = call(app, "move", e.id, before=b.id, actor="ada")
    assert (moved.job_id, moved.position) == (e.id, app.get(e.id).position)
    call(app, "move", c.id, last=True)
    call(app, "move", d.id, first=True)
    call(app, "move", b.id, after=c.id)
    drain(app)
    assert seen == ["1a", "1d", "1e", "1c", "1b"]


def test_a_move_that_cannot_be_is_refused(app: Headway, sync: Any, call: Call) -> None:
    first, second, third = [sync.enqueue(1, name) for name in "abc"]
    for where in ({}, {"first": True, "last": True}, {"before": first.id, "after": third.id}):
        with pytest.raises(InvalidJob, match="where to move it"):
            call(app, "move", second.id, **where)
    with pytest.raises(InvalidJob, match="beside itself"):
        call(app, "move", second.id, before=second.id)
    with pytest.raises(NotFound):
        call(app, "move", new_id(), first=True)
    with pytest.raises(NotAllowed):
        call(app, "move", first.id, last=True)  # the locomotive


def test_a_plain_job_moves_in_its_queue(app: Headway, seen: list[str]) -> None:
    @app.job
    def work(name: str) -> None:
        seen.append(name)

    a, b, c = [work.enqueue(name) for name in "abc"]
    app.move(c.id, before=a.id)
    app.move(b.id, first=True)
    drain(app)
    assert seen == ["b", "c", "a"]


@pytest.mark.parametrize("name", ["", None, "x" * 256, 1.5])
def test_a_train_needs_a_name(app: Headway, name: Any) -> None:
    for verb in (app.train, app.hold_train, app.resume_train, app.clear_train):
        with pytest.raises(InvalidJob, match="train"):
            verb(name)


def test_trains_of_tenants_are_apart(app: Headway, sync: Any, seen: list[str]) -> None:
    acme = app.tenant("acme")
    sync.enqueue(1, "a")
    acme.enqueue("sync", {"dest": 1, "name": "x"})
    acme.enqueue("sync", {"dest": 1, "name": "y"})
    assert [(train.train, train.tenant, train.length) for train in acme.trains()] == [("dest_1", "acme", 2)]
    assert sorted((train.tenant, train.length) for train in app.trains()) == [("acme", 2), ("default", 1)]
    assert [train.tenant for train in app.trains(tenant="acme")] == ["acme"]
    with pytest.raises(NotAllowed, match="sees tenant acme only"):
        acme.trains(tenant="default")
    app.hold_train("dest_1")  # the default tenant's
    assert [train.tenant for train in app.trains(blocked=True)] == ["default"]
    assert acme.resume_train("dest_1") is False
    assert len(acme.clear_train("dest_1")) == 2
    assert [len(each.train("dest_1")) for each in (app, acme)] == [1, 0]
    assert app.resume_train("dest_1") is True


def test_a_worker_here_is_woken_when_a_train_is_resumed(url: str) -> None:
    app = Headway(url, pace="30s", idle_pace="30s")
    started, both = threading.Event(), threading.Event()

    @app.job(train="t")
    def work(ctx: Context, last: bool) -> None:
        (both if last else started).set()

    worker = app._worker("default", 1, "turns")
    thread = threading.Thread(target=run_worker, args=(worker,))
    thread.start()
    try:
        work.enqueue(False)
        assert started.wait(60)
        app.hold_train("t")
        work.enqueue(True)
        assert not both.wait(0.2)
        app.resume_train("t")
        assert both.wait(60)
    finally:
        worker.stop()
        thread.join()
        app.close()
