"""The app of a Django project: on the project's own database, with Django's connections closed around each job."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, cast
from urllib.parse import quote, urlencode

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections

from headway.app import Headway
from headway.define.registry import JobVerb
from headway.errors import ConfigError

PREFIX = "headway_"
"""Of Headway's tables in a SQLite file that it shares with Django."""

# what libpq reads of DATABASES[…]["OPTIONS"]; the others are Django's or psycopg's own
_LIBPQ = frozenset(
    {
        *("service", "passfile", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "gssencmode"),
        *("connect_timeout", "application_name", "target_session_attrs", "channel_binding"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
    }
)


class DjangoHeadway(Headway):
    """A Headway on the database `HEADWAY["DATABASE"]` of Django's settings."""

    def __init__(self) -> None:
        given = dict(getattr(settings, "HEADWAY", None) or {})
        self.alias: str = given.pop("DATABASE", DEFAULT_DB_ALIAS)
        self.imports: tuple[str, ...] = tuple(given.pop("IMPORTS", ()))
        self.admin_link: str | None = given.pop("ADMIN_LINK", None)
        try:
            super().__init__(None, **given)
        except ConfigError as error:
            raise ImproperlyConfigured(f"HEADWAY in Django's settings: {error}") from None

    @cached_property
    def url(self) -> str:
        """The URL of Django's database, read when first used: by then a test runner has put its own name there."""
        if self._url is None:
            self._url = database_url(self.alias)
        return self._url

    @property
    def connection(self) -> Any:
        """Django's connection of this thread to the database that holds the jobs, for `conn=`."""
        return connections[self.alias]

    @property
    def job(self) -> JobVerb:
        """As `Headway.job`; Django's connections are closed around each execution as they are around a request."""

        def define(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
            if fn is None:
                return lambda fn: define(fn, **options)
            return self._registry.job(**options)(with_fresh_connections(fn))

        return cast(JobVerb, define)


@cache
def the_app() -> DjangoHeadway:
    """The one app of this process."""
    return DjangoHeadway()


def set_up() -> None:
    """Load Django's apps where no manage.py has done so, as in a process of `headway worker`."""
    if not (apps.ready or apps.loading):
        django.setup()


def with_fresh_connections(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with connections that are too old or broken closed before and after it."""
    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            await sync_to_async(close_old_connections)()
            try:
                return await fn(*args, **kwargs)
            finally:
                await sync_to_async(close_old_connections)()

        return acall

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return fn(*args, **kwargs)
        finally:
            close_old_connections()

    return call


def in_memory(alias: str) -> bool:
    """Whether it is a SQLite database in memory, as Django's test runner makes by default."""
    connection = connections[alias]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def database_url(alias: str) -> str:
    """Headway's URL of a database of Django's; raises `ImproperlyConfigured`."""
    connection = connections[alias]
    given = connection.settings_dict
    match connection.vendor:
        case "sqlite" if in_memory(alias):
            raise ImproperlyConfigured(
                f"database {alias!r} is in memory, and workers could not see it: in tests, name a file "
                f'(DATABASES[{alias!r}]["TEST"] = {{"NAME": "test.sqlite3"}}), or give TASKS another backend'
            )
        case "sqlite":
            return f"sqlite+stdlib:///{quote(str(given['NAME']))}?prefix={PREFIX}"
        case "postgresql":
            return _postgres_url(given)
        case other:
            raise ImproperlyConfigured(
                f"database {alias!r} is {other}: Headway needs PostgreSQL or SQLite. Name one of them in "
                'HEADWAY = {"DATABASE": …}'
            )


def _postgres_url(given: Any) -> str:
    user = quote(given["USER"], safe="") + (f":{quote(given['PASSWORD'], safe='')}" if given["PASSWORD"] else "")
    query = {name: str(value) for name, value in given["OPTIONS"].items() if name in _LIBPQ}
    for name in ("HOST", "PORT"):
        if given[name]:
            query[name.lower()] = str(given[name])
    return f"postgresql://{user and user + '@'}/{quote(str(given['NAME'] or ''), safe='')}?{urlencode(query)}".rstrip(
        "?"
    )
