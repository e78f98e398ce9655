"""Bulk verbs with a limit, changes of meta and tags, and who waits for a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Context, Done, Headway, Machine, Spawn, step
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.model.ids import new_id
from headway.testing import drain

Call = Callable[..., Any]


@pytest.fixture
def mail(app: Headway) -> Any:
    @app.job
    def mail(n: int = 0) -> int:
        return n

    return mail


def test_a_limit_takes_the_oldest(app: Headway, call: Call, mail: Any) -> None:
    ids = [mail.enqueue(n).id for n in range(6)]
    assert call(app, "cancel_jobs", kind="mail", limit=2) == 2
    assert [app.get(job_id).status for job_id in ids] == ["canceled"] * 2 + ["queued"] * 4
    assert call(app, "cancel_jobs", kind="mail", limit=1) == 1  # those that are over do not count
    assert call(app, "retry_jobs", kind="mail", limit=2) == 2
    assert [app.get(job_id).status for job_id in ids[:3]] == ["queued", "queued", "canceled"]
    assert call(app, "cancel_jobs", kind="mail", limit=100) == 5
    assert call(app, "delete_jobs", kind="mail", limit=4, dry_run=True) == 4
    assert call(app, "delete_jobs", kind="mail", limit=4) == 4
    assert [job.id for job in app.jobs()] == ids[:3:-1]
    for verb in ("cancel_jobs", "retry_jobs", "delete_jobs"):
        for wrong in (0, True, 1.5):
            with pytest.raises(InvalidJob, match="must be a whole number from 1, or None"):
                call(app, verb, kind="mail", limit=wrong)


def test_meta_and_tags_change_also_once_a_job_is_over(app: Headway, call: Call, mail: Any) -> None:
    job_id = mail.using(tags=("a", "b"), meta={"x": 1}).enqueue().id
    assert call(app, "change", job_id, tags=("b", "c"), actor="ann") == "queued"
    assert (app.get(job_id).tags, app.get(job_id).meta) == (("b", "c"), {"x": 1})
    assert [len(app.jobs(tags=tag)) for tag in "abc"] == [0, 1, 1]
    assert call(app, "change", job_id, meta={"y": [1, "ü"]}, priority=7) == "queued"
    job = app.get(job_id)
    assert (job.meta, job.priority, job.tags) == ({"y": [1, "ü"]}, 7, ("b", "c"))
    drain(app)
    assert call(app, "change", job_id, meta=None, tags="done", actor="ann") == "succeeded"
    job = app.get(job_id)
    assert (job.status, job.meta, job.tags, job.priority) == ("succeeded", None, ("done",), 7)
    assert app.jobs(tags="done", meta={"y": 1}) == []
    assert call(app, "change", job_id, tags=None) == "succeeded"
    assert (app.get(job_id).tags, app.jobs(tags="done")) == ((), [])
    with pytest.raises(NotAllowed, match="is succeeded and cannot be changed: retry it"):
        call(app, "change", job_id, tags="x", priority=1)
    assert app.get(job_id).tags == ()
    assert [entry.detail for entry in app.audit(job_id)][:3] == [
        '{"tags":["b","c"]}',
        '{"priority":7,"meta":{"y":[1,"ü"]}}',
        '{"meta":null,"tags":["done"]}',
    ]
    for wrong in ({"tags": "a b"}, {"meta": 7}):
        with pytest.raises(InvalidJob):
            call(app, "change", job_id, **wrong)


def test_a_running_jobs_meta_and_tags_stay(app: Headway, call: Call) -> None:
    @app.job
    def change_me(ctx: Context) -> str:
        with pytest.raises(NotAllowed, match="is running and cannot be changed"):
            app.change(ctx.job_id, tags="x")
        return "stays"

    job_id = change_me.enqueue().id
    drain(app)
    assert (app.get(job_id).tags, app.get(job_id).result) == ((), "stays")


def test_who_waits_for_a_job(app: Headway, call: Call, mail: Any) -> None:
    @app.machine
    class Parent(Machine, name="parent"):
        @step
        def start(self, ctx: Context) -> Any:
            return Spawn([mail.using(delay="1h").build()], then="end")

        @step
        def end(self, ctx: Context) -> Done:
            return Done()

    first = mail.enqueue()
    after = [mail.using(after=first).enqueue().id for _ in range(3)]
    cars = [mail.using(train="t", delay="1h" if n == 0 else None).enqueue().id for n in range(3)]
    group = app.group([mail.using(delay="1h").build()], callback=mail.build(99))
    machine = Parent.enqueue().id

    def waiters(job_id: str, **options: Any) -> list[tuple[str, str]]:
        return [(each.id, each.waits) for each in call(app, "waiters", job_id, **options)]

    assert waiters(first.id) == [(job_id, "after") for job_id in after]
    assert waiters(first.id, limit=2) == [(job_id, "after") for job_id in after[:2]]
    assert waiters(cars[0]) == [(job_id, "train") for job_id in cars[1:]]
    assert waiters(cars[1]) == [(cars[2], "train")]
    assert waiters(cars[2]) == []
    assert group.callback is not None
    assert waiters(group.jobs[0].id) == [(group.callback.id, "after")]
    drain(app)
    (child,) = app.children(machine)
    assert waiters(child.id) == [(machine, "children")]
    assert call(app, "waiters", child.id)[0].status == "waiting"
    assert waiters(first.id) == []
    with pytest.raises(NotFound):
        call(app, "waiters", new_id())
