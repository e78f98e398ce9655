"""Notices that another release has migrated the database under the running server. A session looks at the schema when
it begins; one that is open would go on with statements of another release, or fail at them one by one."""

from __future__ import annotations

import time
from collections.abc import Callable

from headway.app import Headway
from headway.errors import SchemaMissing, SchemaOutdated
from headway.store import migrate

_EVERY_S = 5.0


class SchemaWatch:
    """Looks every five seconds while there are requests, and at each request while the schema is another one."""

    def __init__(self, app: Headway, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._monotonic = monotonic
        self._next = monotonic() + _EVERY_S

    @property
    def is_due(self) -> bool:
        return self._monotonic() >= self._next

    async def check(self) -> None:
        """Raises `SchemaOutdated`, or `SchemaMissing`."""
        store, before = self._app.store, self._next
        self._next = self._monotonic() + _EVERY_S  # first: one of many requests looks
        found: int = await store.arun(store.ops.version())
        known = migrate.latest(store)
        if found != known:
            self._next = min(before, self._monotonic())
            error = SchemaOutdated if found else SchemaMissing
            raise error(
                f"{store.describe()} was migrated to schema version {found} while this server runs, which needs "
                f"{known}: run a server of the release that fits, or headway migrate"
            )
