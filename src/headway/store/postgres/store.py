"""The PostgreSQL store: pools of either colour, one round trip an op, and errors in Headway's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeVar

from headway.errors import (
    ConfigError,
    HeadwayError,
    NotAllowed,
    SchemaMissing,
    SchemaOutdated,
    StoreBusy,
    StoreError,
    StoreFailed,
    StoreUnavailable,
)
from headway.secrets import add_own, own, redact, show_url, url_secrets
from headway.store.ops import Batch, Op, Ops, Rows, Statement
from headway.store.postgres.engine.arrays import literal
from headway.store.postgres.engine.migrate import VERSION, State, state
from headway.store.postgres.ops import PostgresOps
from headway.store.run import Store, adrive, drive
from headway.store.sqlstate import from_sqlstate

try:
    import psycopg

    from headway.store.postgres.engine.connection import TIMEOUT_S, NoAnswer
    from headway.store.postgres.engine.pool import WORKER_SIZE, AsyncPool, CannotConnect, Pool, parameters
except ImportError as missing:  # pragma: no cover
    raise ConfigError("PostgreSQL needs psycopg: install it with pip install 'headway[postgres]'") from missing

T = TypeVar("T")

_LOCKED = "55P03"
_TRIES = (3, 2, 1, 0)  # how many more are left
_SESSION = "select set_config('headway.tenant_id', $1, true)"
# SQLSTATEs that mean "not now": connection, no room on the disk or for connections, shutdown, serialization
_PASSING = ("08", "531", "533", "57P", "40", "58", "25006")
# and those that are about what was to be written: of the wrong form, against a constraint, too large. Whatever else
# fails may work again, or in smaller parts: an internal error, no memory, a statement_timeout
_OF_THE_DATA = ("22", "23", "54")
# a plan or a statement of this session is older than the functions that were installed meanwhile
_STALE = frozenset({"XX000", "0A000", "26000"})
_LARGEST = 512 * 1024 * 1024  # characters of one statement; PostgreSQL takes a gigabyte


class PostgresStore:
    """Implements `Store` on PostgreSQL 15 and later."""

    dialect: Literal["sqlite", "postgres"] = "postgres"

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        tenant_id: str | None = None,
        parent: PostgresStore | None = None,
    ) -> None:
        self.ops: Ops = PostgresOps()
        self._url = url
        self._timeout_s = timeout_s
        self._tenant_id = tenant_id
        self._pool: Pool = parent._pool if parent else Pool(url)
        self._apool: AsyncPool = parent._apool if parent else AsyncPool(url)
        self._root = parent or self
        self._checked = False
        self._install_id: str | None = None
        if parent is None:
            for value in url_secrets(url):
                add_own(value)  # no text that anybody reads may show it

    @property
    def install_id(self) -> str | None:
        return self._root._install_id

    def describe(self) -> str:
        return show_url(self._url)

    def bound(self, tenant_id: str) -> Store:
        return PostgresStore(self._url, timeout_s=self._timeout_s, tenant_id=tenant_id, parent=self)

    def apart(self) -> Store:
        store = PostgresStore(self._url, timeout_s=self._timeout_s, tenant_id=self._tenant_id)
        store._apool = AsyncPool(self._url, WORKER_SIZE)
        return store

    def run(self, op: Op[T]) -> T:
        with self._errors():
            for left in _TRIES:
                try:
                    return self._run(op)
                except psycopg.Error as error:
                    if left and error.sqlstate == _LOCKED and op.apart is not None:
                        op = op.apart
                    elif not _worth_another(error, op, left):
                        raise
        raise AssertionError

    async def arun(self, op: Op[T], *, timeout_s: float | None = None) -> T:
        with self._errors():
            for left in _TRIES:
                try:
                    return await self._arun(op, self._timeout_s if timeout_s is None else timeout_s)
                except psycopg.Error as error:
                    if left and error.sqlstate == _LOCKED and op.apart is not None:
                        op = op.apart
                    elif not _worth_another(error, op, left):
                        raise
        raise AssertionError

    def run_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import postgres_session

        with postgres_session(conn, refusable=op.refusable) as execute:
            return drive(op.steps(), execute)

    async def arun_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import postgres_session

        async with postgres_session(conn, refusable=op.refusable) as execute:
            return await adrive(op.steps(), execute)

    def run_script(self, op: Op[T]) -> T:
        """Run statements in one transaction on a connection of their own, without asking for a schema first."""
        with self._errors(), psycopg.connect(**parameters(self._url)) as conn, conn.transaction():
            cursor = psycopg.RawCursor(conn)
            return drive(op.steps(), lambda request: _execute(cursor, request))

    def close(self) -> None:
        self._root._checked = False
        self._pool.forget()

    async def aclose(self) -> None:
        await self._apool.forget()
        self.close()

    async def leave_loop(self) -> None:
        await self._apool.forget()

    def _run(self, op: Op[T]) -> T:
        conn = self._pool.acquire(self._timeout_s)
        try:
            cursor = psycopg.RawCursor(conn)
            execute = partial(_execute, cursor, prepare=_prepare(op))
            if not self._root._checked:
                self._judge(drive(state(), execute))
            steps = op.alone or op.steps
            if self._tenant_id is None and not op.atomic:
                return drive(steps(), execute)
            with conn.transaction():
                if self._tenant_id is not None:
                    cursor.execute(_SESSION, (self._tenant_id,))
                return drive(steps(), execute)
        except psycopg.Error as error:
            if error.sqlstate in _STALE:
                conn.close()
            raise
        finally:
            self._pool.release(conn)

    async def _arun(self, op: Op[T], timeout_s: float) -> T:
        async with self._apool.connection(timeout_s, urgent=op.urgent) as conn:
            cursor = psycopg.AsyncRawCursor(conn)
            execute = partial(_aexecute, cursor, prepare=_prepare(op))
            try:
                if not self._root._checked:
                    self._judge(await adrive(state(), execute))
                steps = op.alone or op.steps
                if self._tenant_id is None and not op.atomic:
                    return await adrive(steps(), execute)
                async with conn.transaction():
                    if self._tenant_id is not None:
                        await cursor.execute(_SESSION, (self._tenant_id,))
                    return await adrive(steps(), execute)
            except psycopg.Error as error:
                if error.sqlstate in _STALE:
                    await conn.close()
                raise

    def _judge(self, found: State) -> None:
        """Refuse a database that this library cannot work on, with the command that fixes it."""
        where = self.describe()
        # a URL with its password hidden is not one to type
        fix = f"run headway --url {where} migrate" if where == self._url else "run headway migrate with its --url"
        if found.version == 0:
            raise SchemaMissing(f"{where} has no Headway schema: {fix}")
        if found.version < VERSION:
            raise SchemaOutdated(f"{where} has schema version {found.version}, this library needs {VERSION}: {fix}")
        if found.version > VERSION:
            raise SchemaOutdated(
                f"{where} has schema version {found.version}, newer than this library's {VERSION}: upgrade the library"
            )
        if found.isolation != "read committed":
            raise ConfigError(
                f"{where} begins transactions as {found.isolation}, but what locks and then looks needs read "
                "committed: alter role … set default_transaction_isolation = 'read committed'"
            )
        self._root._install_id = found.install_id
        self._root._checked = True

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            # the driver's own words are no cause to show where they quote a password
            cause = error if redact(str(error), own()) == str(error) else None
            raise self._translate(error) from cause

    def _translate(self, error: psycopg.Error) -> HeadwayError:
        code = error.sqlstate or ""
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        text = redact(text, own())  # a driver may quote the URL
        ours = from_sqlstate(code, error.diag.message_primary or text, error.diag.message_detail)
        if ours is not None:
            return ours
        if code == "42501":
            return NotAllowed(
                f"this login may not do that on {self.describe()}: {text}. Connect as a worker's login "
                "(headway.grant_worker makes one), or as the owner of the schema"
            )
        if code == _LOCKED:
            return StoreBusy(
                f"another transaction holds what this operation needs on {self.describe()} ({text}). Nothing was "
                "written: find it with headway doctor, and try again"
            )
        if code.startswith(_PASSING) or (isinstance(error, psycopg.OperationalError) and not code):
            lost = not isinstance(error, CannotConnect) and (code or "08").startswith(("08", "57P"))
            written = "It may have been written or not; repeating it is safe" if lost else "Nothing was written"
            return StoreUnavailable(
                f"PostgreSQL at {self.describe()} cannot be used right now: {text}. {written}: check that "
                "the server is up and reachable (headway doctor), then try again"
            )
        if code and not code.startswith(_OF_THE_DATA):
            return StoreFailed(f"PostgreSQL failed at the operation ({code}): {text}. Nothing was written: try again")
        return StoreError(f"PostgreSQL refused the operation ({code or 'no code'}): {text}. Nothing was written")


def _prepare(op: Op[Any]) -> bool | None:
    """Calls of functions are prepared when they come again. Reads never are: they are planned with their values, and by
    the table as it is now."""
    return None if op.writes else False


def _execute(cursor: psycopg.RawCursor[Any], request: Statement | Batch, *, prepare: bool | None = False) -> Rows:
    cursor.execute(*_asked(request), prepare=prepare)
    return cursor.fetchall() if _gives_rows(cursor) else []


async def _aexecute(
    cursor: psycopg.AsyncRawCursor[Any], request: Statement | Batch, *, prepare: bool | None = False
) -> Rows:
    await cursor.execute(*_asked(request), prepare=prepare)
    return await cursor.fetchall() if _gives_rows(cursor) else []


def _asked(request: Statement | Batch) -> tuple[str, list[Any] | None]:
    assert isinstance(request, Statement)
    params = [literal(param) for param in request.params]
    size = sum(len(param) for param in params if type(param) is str)
    if size > _LARGEST:
        raise StoreError(
            f"the operation has {size / 2**30:.1f} GiB, and PostgreSQL takes no more than one at once. Nothing was "
            "written: do it in smaller parts"
        )
    return request.sql, params or None


def _gives_rows(cursor: psycopg.RawCursor[Any] | psycopg.AsyncRawCursor[Any]) -> bool:
    # not by its description, which would be made for this alone
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _worth_another(error: psycopg.Error, op: Op[Any], left: int) -> bool:
    """Whether the op may be run again at once: it was undone, or the connection broke and it can be repeated."""
    if not left:
        return False
    if isinstance(error, NoAnswer):
        return op.repeatable and left == _TRIES[0]  # once: each silence costs the caller the whole time
    if error.sqlstate in ("40001", "40P01") or error.sqlstate in _STALE:
        return True
    lost = isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08").startswith(("08", "57P"))
    return lost and op.repeatable
