"""What an app is made of: registries, hooks, middleware, lifespan, and workers with their queues."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from headway import Context, Headway, Registry
from headway.errors import ConfigError, HeadwayError, InvalidJob
from headway.worker import EVENTS


def test_kinds_of_a_registry_are_added_now_and_later(app: Headway) -> None:
    shop = Registry()

    @shop.job(queue="mail")
    def early(number: int) -> int:
        return number

    with pytest.raises(InvalidJob, match="belongs to no app yet"):
        early.enqueue(1)
    app.include(shop)

    @shop.job
    def late() -> None: ...

    first, second = early.enqueue(7), late.enqueue()
    assert app.kinds.names == ("early", "late")
    assert app.run(until_idle=True).succeeded == 2
    assert (app.get(first.id).result, app.get(second.id).status) == (7, "succeeded")
    with pytest.raises(InvalidJob, match="defined twice"):

        @app.job
        def early() -> None: ...


def test_a_registry_of_two_apps_is_enqueued_through_one_by_name(both: list[Headway]) -> None:
    shop = Registry()

    @shop.job
    def work() -> None: ...

    for app in both:
        app.include(shop)
    with pytest.raises(InvalidJob, match="belongs to 2 apps"):
        work.enqueue()
    for app in both:
        app.enqueue(work.build())
        assert app.run(until_idle=True).succeeded == 1


def test_hooks_hear_what_happens_to_jobs_and_workers(app: Headway) -> None:
    heard: list[tuple[str, str | None]] = []
    for event in EVENTS:
        app.on(event, lambda event: heard.append((event.name, event.kind)))

    @app.job
    def well() -> None: ...

    @app.job(max_attempts=1)
    def badly() -> None:
        raise LookupError("no such user")

    well.enqueue()
    app.run(until_idle=True)
    assert heard == [
        ("worker.started", None),
        ("job.started", "well"),
        ("job.settled", "well"),
        ("job.succeeded", "well"),
        ("worker.stopped", None),
    ]
    errors: list[Any] = []

    async def on_dead(event: Any) -> None:
        await asyncio.sleep(0)
        errors.append((event.kind, event.queue, event.fence, event.error.splitlines()[0], app.get(event.job_id).status))

    app.on("job.dead", on_dead)
    badly.enqueue()
    app.run(until_idle=True)
    assert errors == [("badly", "default", 1, "LookupError: no such user", "dead")]  # after the commit
    with pytest.raises(ConfigError, match=r"no event 'job.died' .* job.dead"):
        app.on("job.died", print)


def test_a_hook_that_fails_is_logged_and_goes_no_further(app: Headway, caplog: pytest.LogCaptureFixture) -> None:
    def breaks(event: Any) -> None:
        raise ValueError("in the hook")

    app.on("job.succeeded", breaks)

    @app.job
    def work() -> None: ...

    work.enqueue()
    with caplog.at_level(logging.ERROR, "headway"):
        assert app.run(until_idle=True).succeeded == 1
    assert "a hook failed" in caplog.text


def test_middleware_wraps_handlers_outside_in(app: Headway) -> None:
    order: list[str] = []

    @app.middleware
    async def outer(ctx: Context, call_next: Any) -> Any:
        order.append(f"outer {ctx.kind}")
        result = await call_next()
        order.append("outer after")
        return result * 10

    @app.middleware
    async def inner(ctx: Context, call_next: Any) -> Any:
        order.append("inner")
        return await call_next(ctx)

    @app.job
    def plain() -> int:
        order.append("handler")
        return 1

    @app.job
    async def coroutine() -> int:
        return 2

    job = plain.enqueue()
    app.run(until_idle=True)
    assert order == ["outer plain", "inner", "handler", "outer after"]
    assert app.get(job.id).result == 10
    job = coroutine.enqueue()
    app.run(until_idle=True)
    assert app.get(job.id).result == 20


def test_lifespan_functions_run_around_the_work(app: Headway, caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []

    @app.on_startup
    async def connect() -> None:
        order.append("connect")

    @app.on_startup
    def warm() -> None:
        order.append("warm")

    @app.on_shutdown
    def leave() -> None:
        raise ValueError("shutdown is logged")

    @app.on_shutdown
    async def close() -> None:
        order.append("close")

    @app.job
    def work() -> None:
        order.append("work")

    work.enqueue()
    with caplog.at_level(logging.ERROR, "headway"):
        app.run(until_idle=True)
    assert order == ["connect", "warm", "work", "close"]
    assert "shutdown function" in caplog.text


def test_a_startup_that_fails_claims_nothing(app: Headway) -> None:
    @app.on_startup
    def connect() -> None:
        raise OSError("no network")

    @app.job
    def work() -> None: ...

    job = work.enqueue()
    with pytest.raises(HeadwayError, match="connect raised OSError: no network: no job was claimed"):
        app.run(until_idle=True)
    assert app.get(job.id).fence == 0


def test_run_takes_queues_in_every_shape(app: Headway) -> None:
    @app.job(queue="mail")
    def mail() -> None: ...

    @app.job
    def other() -> None: ...

    def waiting(**options: Any) -> list[str]:
        app.cancel_jobs(status="queued")
        for kind, queue in ((mail, "mail"), (other, "default"), (other, "extra")):
            kind.using(queue=queue).enqueue()
        app.run(until_idle=True, **options)
        return sorted(job.queue for job in app.jobs(status="queued"))

    assert waiting() == ["extra"]  # those of its kinds
    assert waiting(queues="mail") == ["default", "extra"]
    assert waiting(queues=["mail", "extra"], concurrency=1) == ["default"]
    assert waiting(queues=("extra",)) == ["default", "mail"]
    assert waiting(queues={"mail": 5, "default": 20}) == ["extra"]
    assert waiting(queues={"mail": 5, "default": 20, "extra": 1}, concurrency=2) == []


def test_a_worker_shows_its_queues_and_slots(app: Headway) -> None:
    seen: list[Any] = []

    @app.job
    def looks() -> None:
        seen.extend((worker.queues, worker.concurrency, worker.kinds) for worker in app.workers())

    for options in ({"queues": {"default": 5, "mail": 2}}, {"queues": ["default"], "concurrency": 3}):
        looks.enqueue()
        app.run(until_idle=True, **options)  # type: ignore[arg-type]
    assert seen == [({"default": 5, "mail": 2}, 7, ("looks",)), ({"default": 3}, 3, ("looks",))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queues": []}, "a worker needs at least one queue"),
        ({"queues": {"mail": 0}}, "queue mail has 0 slots"),
        ({"queues": {"mail": True}}, "queue mail has True slots"),
        ({"queues": "no spaces"}, "queue='no spaces' is not a valid name"),
        ({"concurrency": 0}, "concurrency=0 must be a whole number from 1"),
        ({"concurrency": "many"}, "concurrency='many' must be a whole number from 1"),
    ],
)
def test_a_worker_that_could_do_nothing_is_refused(app: Headway, options: Any, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        app.run(until_idle=True, **options)


def test_run_in_a_running_loop_points_at_arun(app: Headway) -> None:
    @app.job
    async def work() -> None: ...

    async def test() -> None:
        with pytest.raises(ConfigError, match=r"await app\.arun"):
            app.run(until_idle=True)
        await work.aenqueue()
        assert (await app.arun(until_idle=True)).succeeded == 1
        await app.aclose()

    asyncio.run(test())
