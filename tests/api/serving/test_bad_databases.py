"""A database that is full, read-only, gone from its schema, or of another release: 503, and itself again after."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import psycopg
import pytest

from headway import Headway
from headway.api import Api, application, streams
from headway.api.serving import database_watch
from headway.api.serving.schema_watch import SchemaWatch
from headway.model.ids import new_id
from headway.store.postgres.engine.pool import SIZE
from headway.store.sqlite.engine.migrate import VERSION
from tests.api.conftest import Stream
from tests.crash.chaos.faults import NotHere, small_disk

WELCOME = {"kind": "welcome", "payload": {"user_id": 7}}


def _says(said: Any) -> tuple[int, str]:
    assert (said.headers["content-type"], said.headers.get("retry-after")) == ("application/problem+json", "1")
    assert "sqlite" not in said.text.lower()
    assert "postgres" not in said.text.lower(), "where the database is, is nobody's business"
    return said.status_code, said.json()["code"]


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
def test_a_full_disk_and_a_read_only_file(app: Headway, api: Api, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["operator"])
    large = {"jobs": [{"kind": "report", "meta": {"note": "x" * 4_000}}] * 50}
    assert ask.post("/jobs", json=WELCOME).status_code == 201
    conn = app.store._live.writer._conn  # type: ignore[attr-defined]
    for pragma in ("max_page_count = 1", "query_only = on"):  # a page count below what the file has is what it has
        conn.execute(f"pragma {pragma}")
        said = ask.post("/jobs/batch", json=large, headers={"Idempotency-Key": pragma.split()[0]})
        assert _says(said)[0] == 503, said.text
        assert ask.get("/jobs").status_code == 200, "what is there can be read"
        assert client(None).get("/healthz").status_code == 200
        again = ask.post("/jobs/batch", json=large, headers={"Idempotency-Key": pragma.split()[0]})
        assert (again.status_code, again.headers.get("idempotent-replayed")) == (201, None), "nothing of it was stored"
        conn = app.store._live.writer._conn  # type: ignore[attr-defined]
    assert app.counts() == {"queued": 101}


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
def test_a_file_that_another_process_keeps_locked(app: Headway, api: Api, client: Any, keys: dict[str, str]) -> None:
    ask, work = client(keys["operator"]), client(keys["worker"])
    claim = {"worker_id": new_id(), "queues": ["mail"]}
    assert ask.post("/jobs", json=WELCOME).status_code == 201
    with closing(apsw.Connection(app.store._path)) as other:  # type: ignore[attr-defined]
        other.execute("begin immediate")
        for said in (
            lambda: ask.post("/jobs", json=WELCOME),
            lambda: ask.post("/jobs", json={**WELCOME, "unique_key": "k"}, headers={"Idempotency-Key": "a"}),
            lambda: ask.post("/jobs/batch", json={"jobs": [WELCOME] * 2}),
            lambda: work.post("/worker/jobs/claim", json={**claim, "wait": 30}),
        ):
            began = time.monotonic()
            assert _says(said())[0] == 503
            assert time.monotonic() - began < 5, "not as long as a worker would wait"
        assert ask.get("/jobs").status_code == 200, "what is there can be read"
        other.execute("rollback")
    assert ask.post("/jobs", json=WELCOME).status_code == 201
    assert len(work.post("/worker/jobs/claim", json={**claim, "limit": 10}).json()["jobs"]) == 2
    assert app.counts() == {"running": 2}, "what was refused is not written afterwards"


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
def test_a_full_disk_of_postgresql(app: Headway, client: Any, keys: dict[str, str]) -> None:
    """The jobs are on a disk of their own, which only root can mount, beside a server of this machine."""
    ask = client(keys["operator"])
    with psycopg.connect(app.url, autocommit=True) as owner, ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))  # pytest's are closed to the server's user
        try:
            disk = stack.enter_context(small_disk(folder, 4, _system_user(owner)))
        except (NotHere, OSError) as error:
            pytest.skip(str(error))
        owner.execute(f"create tablespace tiny location '{disk}/space'")
        try:
            owner.execute("alter table headway.jobs set tablespace tiny")
            large = {"jobs": [{"kind": "report", "meta": {"note": token_hex(3_000)}} for _ in range(50)]}
            with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(4_096))
            for _ in range(2):
                said = ask.post("/jobs/batch", json=large, headers={"Idempotency-Key": "k"})
                assert _says(said)[0] == 503, said.text
            assert ask.get("/jobs").status_code == 200, "what is there can be read"
            (disk / "ballast").unlink()
            again = ask.post("/jobs/batch", json=large, headers={"Idempotency-Key": "k"})
            assert (again.status_code, again.headers.get("idempotent-replayed")) == (201, None), again.text
            assert app.counts() == {"queued": 50}
        finally:
            owner.execute("alter table headway.jobs set tablespace pg_default")
            owner.execute("drop tablespace tiny")


def _system_user(owner: psycopg.Connection[Any]) -> str:
    (folder,) = owner.execute("show data_directory").fetchone()  # type: ignore[misc]
    return Path(folder).owner()


def test_a_schema_of_another_release_or_none(app: Headway, client: Any, keys: dict[str, str]) -> None:
    """The server opens its connections while another release has migrated the database, or while it is taken down."""
    ask = client(keys["operator"])
    assert ask.post("/jobs", json=WELCOME).status_code == 201
    for version, code in ((VERSION + 98, "SchemaOutdated"), (VERSION, None)):
        _set_version(app, version)
        app.store.close()
        said = ask.post("/jobs", json=WELCOME)
        ready = client(None).get("/readyz")
        if code is None:
            assert (said.status_code, ready.status_code) == (201, 200)
        else:
            assert (_says(said), ready.status_code) == ((503, code), 503)
            assert client(None).get("/healthz").status_code == 200
    assert app.counts() == {"queued": 2}


def test_a_schema_that_is_migrated_under_the_running_server(app: Headway, api: Api, client: Any, keys: Any) -> None:
    """Its sessions stay open, and have looked at the schema when they began."""
    ask, now = client(keys["operator"]), [0.0]
    api._schema = SchemaWatch(app, lambda: now[0])
    for version, code in ((VERSION + 98, "SchemaOutdated"), (0, "SchemaMissing"), (VERSION, None)):
        assert ask.post("/jobs", json=WELCOME).status_code == 201
        _set_version(app, version)
        now[0] += 4
        assert ask.post("/jobs", json=WELCOME).status_code == 201, "it looks once in five seconds"
        now[0] += 2
        for _ in range(2):
            said = ask.post("/jobs", json=WELCOME)
            assert said.status_code == 201 if code is None else _says(said) == (503, code)
            assert code is None or "Headway" in said.json()["detail"]
            assert client(None).get("/readyz").status_code == (200 if code is None else 503)
        assert client(None).get("/healthz").status_code == 200
        _set_version(app, VERSION)
        assert ask.get("/jobs").status_code == 200
    assert app.counts() == {"queued": 8}


def test_a_read_that_takes_too_long_is_503(
    app: Headway, api: Api, client: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "_READ_S", 0.05)
    ask = client(keys["viewer"])
    job_id = app.tenant("acme").enqueue("report").id
    verbs = type(app._walled_tenant(app.get(job_id).tenant_id, for_viewers=True))
    jobs, slow = verbs.ajobs, [True]

    async def ajobs(self: Any, **options: Any) -> Any:
        if slow[0]:
            await asyncio.Event().wait()
        return await jobs(self, **options)

    monkeypatch.setattr(verbs, "ajobs", ajobs)
    assert _says(ask.get("/jobs")) == (503, "StoreUnavailable")
    # what may wait has a time of its own
    assert ask.get(f"/jobs/{job_id}/result?wait=0.2").status_code == 202
    slow[0] = False
    assert ask.get("/jobs").status_code == 200


def _set_version(app: Headway, version: int) -> None:
    if app.store.dialect == "sqlite":
        # by the library that the server uses: closing a file of another one would take its locks away
        with closing(apsw.Connection(app.store.describe())) as conn:
            conn.execute("delete from schema_version where version < (select max(version) from schema_version)")
            conn.execute("update schema_version set version = ?", (version,))
        return
    with psycopg.connect(app.url, autocommit=True) as owner:
        (said,) = owner.execute("select obj_description('headway.jobs'::regclass)").fetchone()  # type: ignore[misc]
        _, _, rest = said.partition("version ")
        text = said.replace(f"version {rest.split()[0]}", f"version {version}")
        owner.execute(f"comment on table headway.jobs is '{text}'")


def test_a_tenant_whose_reads_are_slow_delays_no_other_tenants_streams(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "EVERY_S", 0.01)
    acme, other = app.tenant("acme"), app.tenant("other")
    theirs = other.create_api_key("viewer", "viewer").text
    slow = type(app._walled_tenant(acme.get(acme.enqueue("report").id).tenant_id, for_viewers=True))
    watched, hangs, held = slow.awatched, asyncio.Event(), asyncio.Event()

    async def one_hangs(self: Any, *args: Any) -> Any:
        if self.tenant_id == acme.tenant_id:
            held.set()
            await hangs.wait()
        return await watched(self, *args)

    monkeypatch.setattr(slow, "awatched", one_hangs)

    async def watch() -> None:
        mine, job_id = acme.enqueue("report").id, other.enqueue("report").id
        path = f"/api/v1/jobs/{job_id}/stream"
        async with Stream(api, f"/api/v1/jobs/{mine}/stream", {"Authorization": f"Bearer {keys['viewer']}"}):
            await asyncio.wait_for(held.wait(), 30)
            async with Stream(api, path, {"Authorization": f"Bearer {theirs}"}) as stream:
                assert '"queued"' in await asyncio.wait_for(stream.next(), 30)
                await other.acancel(job_id)
                assert '"canceled"' in await asyncio.wait_for(stream.next(), 30)
                assert not hangs.is_set()
            hangs.set()

    loop.run_until_complete(watch())


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
def test_neither_busy_connections_nor_a_held_up_server_are_a_silent_database(
    app: Headway, loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_s, tick_s = database_watch._SLOW_S, database_watch._TICK_S
    assert slow_s + tick_s * (1 + database_watch._SILENCE_TICKS) < 1, "503 within a second"
    monkeypatch.setattr(database_watch, "_TICK_S", 0.02)
    watch = database_watch.DatabaseWatch(app)

    async def ask() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(SIZE):
                await stack.enter_async_context(app.store._apool.connection())  # type: ignore[attr-defined]
            await watch._ask()
        assert not watch._silent
        # a question of several statements, as one that has to connect first
        monkeypatch.setattr(app.store.ops, "now", lambda: app.store.ops.attempts(new_id(), tenant_id=None))
        asking = asyncio.create_task(watch._ask())
        for _ in range(3):
            await asyncio.sleep(0)
        time.sleep(0.4)  # as on a machine with far more to do than it can
        await asking
        assert not watch._silent

    loop.run_until_complete(ask())
