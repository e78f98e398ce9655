"""A worker beside a web application: it starts and ends with it, and the application's transactions hold its jobs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fastapi
import httpx2
import litestar
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

import headway
from headway import Context, Headway
from headway.errors import HeadwayError
from headway.testing import drain
from tests.frameworks.asgi_lifespan import served


def fastapi_site(app: Headway) -> Any:
    site = fastapi.FastAPI(lifespan=app.lifespan())
    site.mount("/work", headway.asgi(app))

    @site.post("/double/{number}")
    async def double(number: int) -> str:
        return (await app.aenqueue("double", {"number": number})).id

    return site


def starlette_site(app: Headway) -> Any:
    async def double(request: Any) -> JSONResponse:
        return JSONResponse((await app.aenqueue("double", {"number": int(request.path_params["number"])})).id)

    routes = [Route("/double/{number}", double, methods=["POST"]), Mount("/work", headway.asgi(app))]
    return Starlette(routes=routes, lifespan=app.lifespan())


def litestar_site(app: Headway) -> Any:
    @litestar.post("/double/{number:int}", status_code=200)
    async def double(request: litestar.Request[Any, Any, Any]) -> dict[str, str]:
        return {"id": (await app.aenqueue("double", {"number": request.path_params["number"]})).id}

    site = litestar.Litestar([double], lifespan=[app.lifespan()])
    work = headway.asgi(app, prefix="/work")  # its own mounts change the paths

    async def both(scope: Any, receive: Any, send: Any) -> None:
        answer: Any = work if scope["type"] == "http" and scope["path"].startswith("/work/") else site
        await answer(scope, receive, send)

    return both


@pytest.mark.parametrize("make", [fastapi_site, starlette_site, litestar_site])
def test_a_site_has_a_worker_from_its_startup_to_its_shutdown(app: Headway, make: Callable[[Headway], Any]) -> None:
    @app.job
    async def double(number: int) -> int:
        return 2 * number

    async def story() -> None:
        async with served(make(app)) as client:
            assert len(await app.aworkers()) == 1
            answer = (await client.post("/double/21")).json()
            job_id = answer["id"] if isinstance(answer, dict) else answer
            assert (await app.aresult(job_id, timeout=60)).value == 42
            assert (await client.get("/work/healthz")).json() == {"status": "up"}
            page = await client.get("/work/login")  # the dashboard, whose links stay below it
            assert (page.status_code, "/work/assets/" in page.text) == (200, True)
        assert await app.aworkers() == []
        await app.aclose()

    asyncio.run(story())


def test_jobs_of_a_session_exist_if_the_request_commits(app: Headway, url: str) -> None:
    """As docs/how-to/web-frameworks.md has it."""

    @app.job
    async def ship(order: str) -> str:
        return order

    driver = "sqlite+aiosqlite" if url.startswith("sqlite") else "postgresql+asyncpg"
    engine = create_async_engine(f"{driver}:{url.partition(':')[2]}")

    async def session() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(engine) as session, session.begin():
            yield session

    site = fastapi.FastAPI(lifespan=app.lifespan())

    around_the_function = fastapi.Depends(session, scope="function")

    @site.post("/orders/{order}")
    async def order(order: str, session: AsyncSession = around_the_function) -> dict[str, str]:
        await session.execute(sa.text("insert into orders values (:name)"), {"name": order})
        job = await ship.using(conn=session).aenqueue(order)
        if order == "refused":
            raise fastapi.HTTPException(409)
        return {"job": job.id}

    async def story() -> None:
        async with engine.begin() as conn:
            await conn.execute(sa.text("create table orders (name text unique)"))
        async with served(site) as client:
            assert (await client.post("/orders/refused")).status_code == 409
            made = await client.post("/orders/first")
            assert (await app.aresult(made.json()["job"], timeout=60)).value == "first"
            assert (await client.post("/orders/first")).status_code == 500
            assert [job.payload["order"] for job in await app.ajobs()] == ["first"]
        await engine.dispose()
        await app.aclose()

    asyncio.run(story())


def test_the_block_ends_when_its_jobs_have_ended_and_a_cancellation_gives_them_back(app: Headway) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.job
    async def waits(ctx: Context) -> str:
        begun.set()
        await release.wait()
        return "done"

    async def canceled_while_it_ends() -> None:
        async with app.working() as worker:
            await begun.wait()
        raise AssertionError(worker)

    async def story() -> None:
        async with app.working(queues={"default": 3}) as worker:
            first = await waits.aenqueue()
            await begun.wait()
            asyncio.get_running_loop().call_later(0.05, release.set)
            worker.stop()  # the end of the block does not make it the second time
        assert (worker.is_stopping, (await app.aget(first.id)).status, worker.summary.succeeded) == (
            True,
            "succeeded",
            1,
        )

        begun.clear()
        release.clear()
        second = await waits.aenqueue()
        ending = asyncio.create_task(canceled_while_it_ends())
        await begun.wait()
        await asyncio.sleep(0.05)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        job = await app.aget(second.id)
        assert (job.status, [attempt.status for attempt in await app.aattempts(second.id)]) == ("queued", ["released"])
        assert await app.aworkers() == []
        await app.aclose()

    asyncio.run(story())


def test_a_worker_that_cannot_start_fails_the_startup(app: Headway) -> None:
    @app.on_startup
    def breaks() -> None:
        raise OSError("no disk")

    async def story() -> None:
        with pytest.raises(HeadwayError, match=r"startup function .*breaks raised OSError: no disk"):
            async with app.working():
                raise AssertionError("the block began")

    asyncio.run(story())


def test_sigterm_of_a_site_in_the_middle_of_its_jobs_loses_none(urls: list[str], tmp_path: Path) -> None:
    socket = tempfile.mktemp(prefix="hw-", dir="/tmp")  # a socket's path has 108 bytes at most
    command = [sys.executable, "-m", "tests.frameworks.shop_site", str(tmp_path), socket, *urls]
    log = tmp_path / "log"
    with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr, stdout=stderr) as process:
        try:
            wait_until(lambda: Path(socket).exists() or process.poll() is not None)
            with httpx2.Client(transport=httpx2.HTTPTransport(uds=socket)) as client:
                ids = {kind: client.post(f"http://shop/jobs/{kind}").json() for kind in ("finishes", "blocks", "lasts")}
            wait_until(lambda: len([*tmp_path.glob("* *")]) == 6)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: "stopping: waits for running jobs" in log.read_text())
            (tmp_path / "go").touch()
            assert process.wait(60) == -signal.SIGTERM, log.read_text()
        finally:
            process.kill()
            Path(socket).unlink(missing_ok=True)
    for number, url in enumerate(urls):
        app = Headway(url)
        found = {kind: app.get(jobs[number]) for kind, jobs in ids.items()}
        assert {kind: (job.status, job.result) for kind, job in found.items()} == {
            "finishes": ("succeeded", "in time"),
            "blocks": ("succeeded", "in time"),
            "lasts": ("queued", None),
        }
        assert (found["lasts"].tries, found["lasts"].losses) == (0, 0)

        @app.job
        def lasts() -> str:
            return "elsewhere"

        assert (drain(app).succeeded, app.get(found["lasts"].id).result) == (1, "elsewhere")
        app.close()


def test_sigterm_of_a_site_ends_the_streams_of_its_mounts(urls: list[str], tmp_path: Path) -> None:
    socket = tempfile.mktemp(prefix="hw-", dir="/tmp")
    command = [sys.executable, "-m", "tests.frameworks.shop_site", str(tmp_path), socket, *urls]
    (tmp_path / "go").touch()
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stderr=stderr, stdout=stderr) as process,
        ExitStack() as opened,
    ):
        try:
            wait_until(lambda: Path(socket).exists() or process.poll() is not None)
            client = opened.enter_context(httpx2.Client(transport=httpx2.HTTPTransport(uds=socket), timeout=30))
            ids = client.post("http://localhost/jobs/finishes").json()
            streams = []
            for number, (url, job_id) in enumerate(zip(urls, ids, strict=True)):
                app = Headway(url)
                key = app.create_api_key("reader", "viewer").text
                app.close()
                path = f"http://localhost/work{number}/api/v1/jobs/{job_id}/stream"
                asked = client.stream("GET", path, headers={"Authorization": f"Bearer {key}"})
                streams.append(opened.enter_context(asked).iter_text())
            assert all(next(each).startswith("event: job") for each in streams)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == -signal.SIGTERM, log.read_text()
            for each in streams:
                assert not [text for text in each if "finishes" not in text]  # to its end, in good order
        finally:
            process.kill()
            Path(socket).unlink(missing_ok=True)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
