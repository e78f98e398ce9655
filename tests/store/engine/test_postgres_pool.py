"""Connections to PostgreSQL: what is prepared in sessions of our own, and never in one that a pooler lends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.model.listing import Filter
from headway.store.postgres import store as postgres_store
from headway.store.postgres.engine import pool
from headway.store.postgres.store import PostgresStore

MANY = 20
PREPARED = "select count(*) from pg_prepared_statements"


@pytest.fixture
def pooler_url(postgres_migrated_url: str) -> Iterator[str]:
    """The database behind somebody who, as every pooler, gives out keys for cancelling of his own."""
    with psycopg.connect(postgres_migrated_url) as conn:
        where = conn.info.get_parameters() | {
            "host": conn.info.host,
            "port": str(conn.info.port),
            "password": conn.info.password or None,
        }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, where["host"], where["port"]), daemon=True).start()
        port = listener.getsockname()[1]
        # neither TLS nor GSS: what is said at the start can be read
        yield psycopg.conninfo.make_conninfo(
            **where | {"host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
        )


def _accept(listener: socket.socket, host: str, port: str) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            server = _connect(host, int(port))
            threading.Thread(target=_copy, args=(client, server), daemon=True).start()
            threading.Thread(target=_answer, args=(server, client), daemon=True).start()


def _connect(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def _answer(server: socket.socket, client: socket.socket) -> None:
    """Pass on what the server says, with another process id in its key."""
    with contextlib.suppress(OSError):
        stream = server.makefile("rb")
        while True:
            kind, length = stream.read(1), stream.read(4)
            body = stream.read(struct.unpack("!I", length)[0] - 4)
            if kind == b"K":
                body = struct.pack("!i", struct.unpack("!i", body[:4])[0] + 1) + body[4:]
            client.sendall(kind + length + body)
            if kind == b"K":
                break
        while chunk := stream.read1():
            client.sendall(chunk)
    _hang_up(client, server)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65_536):
            sink.sendall(chunk)
    _hang_up(source, sink)


def _hang_up(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _prepared(url: str) -> int:
    """How many statements a session has prepared after the same enqueue and the same read many times."""
    store = PostgresStore(url)
    try:
        for _ in range(MANY):
            store.run(store.ops.enqueue([NewJob(id=new_id(), kind="k")]))
            store.run(store.ops.find(Filter(status="queued"), limit=1))
        conn: psycopg.Connection[Any] = store._pool.acquire()
        try:
            (found,) = conn.execute(PREPARED).fetchone() or (0,)
        finally:
            store._pool.release(conn)
        return int(found)
    finally:
        store.close()


async def _aprepared(url: str) -> int:
    store = PostgresStore(url)
    try:
        for _ in range(MANY):
            await store.arun(store.ops.enqueue([NewJob(id=new_id(), kind="k")]))
            await store.arun(store.ops.find(Filter(status="queued"), limit=1))
        async with store._apool.connection() as conn:
            (found,) = await (await conn.execute(PREPARED)).fetchone() or (0,)
        return int(found)
    finally:
        await store.aclose()


def test_what_is_said_again_and_again_is_prepared_but_not_a_read(postgres_migrated_url, plain_pools):
    """A read is planned with its values, and by the table as it is then."""
    assert _prepared(postgres_migrated_url) == 1
    assert asyncio.run(_aprepared(postgres_migrated_url)) == 1


def test_nothing_is_prepared_behind_a_pooler(pooler_url):
    assert _prepared(pooler_url) == 0
    assert asyncio.run(_aprepared(pooler_url)) == 0


@pytest.fixture
def plain_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools as they are, not those of the other tests, which keep sessions."""
    monkeypatch.setattr(postgres_store, "Pool", pool.Pool)
    monkeypatch.setattr(postgres_store, "AsyncPool", pool.AsyncPool)


def _connections(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as conn:
        found = conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        ).fetchone()
    return int(found[0]) if found else 0


def _until_as_before(url: str, before: int) -> None:
    """Backends take a moment to end after their client did."""
    limit = time.monotonic() + 60
    while (found := _connections(url)) > before and time.monotonic() < limit:
        time.sleep(0.01)
    assert found <= before


def test_connections_of_an_event_loop_end_with_it(postgres_migrated_url, plain_pools):
    store = PostgresStore(postgres_migrated_url)

    async def many() -> None:
        # more at a time than there are connections, so that some wait for others
        await asyncio.gather(*(store.arun(store.ops.enqueue([NewJob(id=new_id(), kind="k")])) for _ in range(20)))

    before = _connections(postgres_migrated_url)
    for _ in range(3):
        asyncio.run(many())
        _until_as_before(postgres_migrated_url, before)
    assert not store._apool._of_loop


def test_connections_of_an_event_loop_that_was_just_closed_end_with_the_next(postgres_migrated_url, plain_pools):
    store = PostgresStore(postgres_migrated_url)

    async def one() -> None:
        await store.arun(store.ops.enqueue([NewJob(id=new_id(), kind="k")]))

    before = _connections(postgres_migrated_url)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(one())
    loop.close()
    asyncio.run(one())
    _until_as_before(postgres_migrated_url, before)


class Alarm(BaseException):
    """What a signal handler raises, wherever the program is just then."""


def test_no_place_of_the_pool_is_lost_wherever_a_signal_handler_raises(postgres_migrated_url, plain_pools):
    store = PostgresStore(postgres_migrated_url)
    files = {pool.__file__, postgres_store.__file__}
    op = store.ops.counts(tenant_id=None)
    store.run(op)

    def raise_at(number: int) -> bool:
        """Whether there was such a line."""
        left = number

        def trace(frame: Any, event: str, _arg: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in files:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    raise Alarm
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            store.run(op)
            return False
        except Alarm:
            return True
        finally:
            sys.settrace(before)

    lines = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a connection that was lost that way is closed
        while raise_at(lines):
            lines += 1
    assert lines > 20
    gc.collect()
    assert pool.SIZE <= store._pool._slots.qsize() <= pool.SIZE + 2
    store.run(op)
    store.close()
