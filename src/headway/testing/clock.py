"""A held clock: the time of the app and its database stands still until the test moves it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from headway.app import Headway
from headway.clock import HeldClock, from_micros
from headway.errors import ConfigError, InvalidJob, NotAllowed
from headway.model.duration import Duration, to_ms

Follower = Callable[[datetime], None]

_holds: weakref.WeakKeyDictionary[Headway, HeldTime] = weakref.WeakKeyDictionary()


class HeldTime:
    """The time of a test, for the app and its database: it stands still until `advance` or `move_to`."""

    def __init__(self, at: datetime | None = None) -> None:
        if at is not None and at.utcoffset() is None:
            raise InvalidJob(f"held(at={at!r}) carries no zone: use datetime(…, tzinfo=UTC)")
        self.clock = HeldClock(at)
        self._follower: Follower | None = None

    def now(self) -> datetime:
        return from_micros(self.clock.now())

    def advance(self, by: Duration) -> datetime:
        """Move forward by "5m", seconds or a timedelta; gives the new time."""
        return self._move(timedelta(milliseconds=to_ms(by, "by")))

    def move_to(self, moment: datetime) -> datetime:
        """Move forward to a moment; gives it."""
        if moment.utcoffset() is None:
            raise InvalidJob(f"move_to({moment!r}) carries no zone: use datetime(…, tzinfo=UTC)")
        by = moment - self.now()
        if by < timedelta(0):
            raise InvalidJob(
                f"move_to({moment.isoformat()}) is before {self.now().isoformat()}: time only moves forward"
            )
        return self._move(by)

    def _move(self, by: timedelta) -> datetime:
        self.clock.advance(by)
        if self._follower is not None:
            self._follower(self.now())
        return self.now()


@contextmanager
def held(app: Headway, at: datetime | None = None) -> Iterator[HeldTime]:
    """Hold the time of an app and of its database, at `at` or at this moment, until the block ends.

        with held(app) as clock:
            remind.using(delay="5m").enqueue(user_id=7)
            clock.advance("5m")
            assert drain(app).succeeded == 1

    On SQLite the app's own clock is held. On PostgreSQL the database's is, for everybody who uses it: its
    function `headway.now()` is replaced, which only the schema's owner may do (`NotAllowed` otherwise), and put
    back at the end. `datetime.now()` in handlers is not held, nor are timeouts and heartbeats, which workers measure
    themselves.
    """
    if app in _holds:
        raise ConfigError("the time of this app is held already: use the clock of the outer held(…)")
    time = HeldTime(at)
    store = app.store  # open it before the clock is replaced: it keeps the one that it opens with
    before, app.clock = app.clock, time.clock
    _holds[app] = time
    try:
        with _held_sqlite(app, time) if store.dialect == "sqlite" else _held_postgres(app, time):
            yield time
    finally:
        del _holds[app]
        app.clock = before


def clock_of(app: Headway) -> HeldTime | None:
    """The clock that `held` gave for this app, inside its block."""
    return _holds.get(app)


@contextmanager
def _held_sqlite(app: Headway, time: HeldTime) -> Iterator[None]:
    ops: Any = app.store.ops
    before, ops._clock = ops._clock, time.clock
    try:
        yield
    finally:
        ops._clock = before


@contextmanager
def _held_postgres(app: Headway, time: HeldTime) -> Iterator[None]:
    import psycopg

    app.counts()  # raises a clear error if there is no schema, or not this library's
    with psycopg.connect(app.url, autocommit=True) as conn:

        def hold(moment: datetime) -> None:
            _define_now(conn, f"select timestamptz '{moment.isoformat()}'")

        try:
            hold(time.now())
        except psycopg.errors.InsufficientPrivilege as error:
            raise NotAllowed(
                f"the time of {app.store.describe()} cannot be held, because this login does not own the "
                f"schema headway ({error}): connect the tests as its owner"
            ) from error
        time._follower = hold
        try:
            yield
        finally:
            time._follower = None
            # not what it was before: that may be left over from a killed test run
            _define_now(conn, "select pg_catalog.clock_timestamp()")


def _define_now(conn: Any, body: str) -> None:
    conn.execute(f"create or replace function headway.now() returns timestamptz language sql volatile as $$ {body} $$")
