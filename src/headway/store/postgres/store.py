"""The PostgreSQL store: a pool for threads and one for event loops, most ops in one round trip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from headway.errors import ConfigError, SchemaMissing, SchemaOutdated, StoreError
from headway.secrets import add_own, own, redact, show_url, url_secrets
from headway.store.ops import Batch, Op, Ops, Rows, Statement, Steps
from headway.store.postgres.engine.arrays import literal
from headway.store.postgres.engine.migrate import VERSION, State, state
from headway.store.postgres.engine.migrate_in_parts import migrate_in_parts
from headway.store.run import Store, adrive, drive
from headway.store.versions import UNRELEASED, incomplete, newer, unreleased

try:
    import psycopg

    from headway.store.postgres.engine.connection import TIMEOUT_S
    from headway.store.postgres.engine.decode import as_text
    from headway.store.postgres.engine.errors import LOCKED, STALE, translated, worth_another_try
    from headway.store.postgres.engine.much import adrive_beside
    from headway.store.postgres.engine.pool import WORKER_SIZE, AsyncPool, Pool, parameters
    from headway.store.postgres.engine.tenant_connections import TenantConnections
    from headway.store.postgres.engine.transaction import atransaction, transaction
    from headway.store.postgres.ops import PostgresOps
except ImportError as missing:  # pragma: no cover
    raise ConfigError("PostgreSQL needs psycopg: install it with pip install 'headway-engine[postgres]'") from missing

T = TypeVar("T")

_TRIES = (3, 2, 1, 0)  # how many more tries are left at each
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
        walled: bool = False,
    ) -> None:
        self.ops: Ops = PostgresOps()
        self._url = url
        self._timeout_s = timeout_s
        self._tenant_id = tenant_id
        self._root: PostgresStore = parent._root if parent else self
        self._tenants: TenantConnections = self._root._tenants if parent else TenantConnections(url)
        self._walled = walled
        self._pool: Pool = self._tenants.pool if walled else parent._pool if parent else Pool(url)
        self._apool: AsyncPool = self._tenants.apool if walled else parent._apool if parent else AsyncPool(url)
        self._checked = False
        self._install_id: str | None = None
        if parent is None:
            for value in url_secrets(url):
                add_own(value)  # no text for people may show it

    @property
    def install_id(self) -> str | None:
        return self._root._install_id

    @property
    def artifacts_beside(self) -> Path:
        return Path("headway-artifacts")

    @property
    def is_absent(self) -> bool:
        return False

    def describe(self) -> str:
        return show_url(self._url)

    def for_tenant(self, tenant_id: str) -> Store:
        return PostgresStore(self._url, timeout_s=self._timeout_s, tenant_id=tenant_id, parent=self)

    def walled_for(self, tenant_id: str) -> Store:
        return PostgresStore(self._url, timeout_s=self._timeout_s, tenant_id=tenant_id, parent=self, walled=True)

    def presume_silent(self, silent: bool) -> None:
        self._apool.silent = self._tenants.apool.silent = silent

    def with_own_connections(self) -> Store:
        store = PostgresStore(self._url, timeout_s=self._timeout_s, tenant_id=self._tenant_id)
        store._apool = AsyncPool(self._url, WORKER_SIZE)
        return store

    def run(self, op: Op[T]) -> T:
        with self._errors():
            for left in _TRIES:
                try:
                    return self._run(op)
                except psycopg.Error as error:
                    if left and error.sqlstate == LOCKED and op.fallback is not None:
                        op = op.fallback
                    elif not left or not worth_another_try(error, repeatable=op.repeatable, first=left == _TRIES[0]):
                        raise
        raise AssertionError

    async def arun(self, op: Op[T], *, timeout_s: float | None = None) -> T:
        with self._errors():
            for left in _TRIES:
                try:
                    return await self._arun(op, self._timeout_s if timeout_s is None else timeout_s)
                except psycopg.Error as error:
                    if left and error.sqlstate == LOCKED and op.fallback is not None:
                        op = op.fallback
                    elif not left or not worth_another_try(error, repeatable=op.repeatable, first=left == _TRIES[0]):
                        raise
        raise AssertionError

    def run_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import postgres_session

        session = postgres_session(conn, refusable=op.refusable)
        session.joins = op.joins
        with session as execute:
            return drive(op.steps(), lambda request: as_text(execute(request)))

    async def arun_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import postgres_session

        session = postgres_session(conn, refusable=op.refusable)
        session.joins = op.joins
        async with session as execute:

            async def run(request: Statement | Batch) -> Rows:
                return as_text(await execute(request))

            return await adrive(op.steps(), run)

    def walls(self) -> int:
        return 1 if self.run(Op(self._tenants.role, writes=False)) is None else 2

    def run_script(self, op: Op[T]) -> T:
        """Run an op in a transaction on a new connection, without checking the schema first."""
        with self._errors(), psycopg.connect(**parameters(self._url)) as conn, conn.transaction():
            cursor = psycopg.RawCursor(conn)
            return drive(op.steps(), lambda request: _execute(cursor, request))

    def migrate(self, to: int | None = None) -> list[str]:
        """Bring the schema to a version (default: this library's); gives what was done. Each part is committed by
        itself and recorded, so a migration that was ended goes on where it was."""
        with self._errors(), psycopg.connect(**parameters(self._url)) as conn:
            cursor = psycopg.RawCursor(conn)

            def run(steps: Steps[T]) -> T:
                return drive(steps, lambda request: _execute(cursor, request))

            def in_transaction(steps: Steps[T]) -> T:
                with conn.transaction():
                    return run(steps)

            return migrate_in_parts(to, in_transaction, run)

    def close(self) -> None:
        self._root._checked = False
        self._pool.forget()
        self._tenants.forget()

    async def aclose(self) -> None:
        await self.leave_loop()
        self.close()

    async def leave_loop(self) -> None:
        await self._apool.forget()
        await self._tenants.apool.forget()

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
            role = drive(self._tenants.role(), execute) if self._walled else None
            with transaction(conn, role=role, tenant_id=self._tenant_id):
                return drive(steps(), execute)
        except psycopg.Error as error:
            if error.sqlstate in STALE:
                conn.close()
            raise
        finally:
            self._pool.release(conn)

    async def _arun(self, op: Op[T], timeout_s: float) -> T:
        async with self._apool.connection(timeout_s, urgent=op.urgent) as conn:
            cursor = psycopg.AsyncRawCursor(conn)
            run = partial(adrive_beside, cursor=cursor, asked=_asked, prepare=_prepare(op))
            try:
                if not self._root._checked:
                    self._judge(await run(state(), computes=False))
                steps = op.alone or op.steps
                if self._tenant_id is None and not op.atomic:
                    return await run(steps(), computes=op.computes)
                role = await run(self._tenants.role(), computes=False) if self._walled else None
                async with atransaction(conn, role=role, tenant_id=self._tenant_id):
                    return await run(steps(), computes=op.computes)
            except psycopg.Error as error:
                if error.sqlstate in STALE:
                    await conn.close()
                raise

    def _judge(self, found: State) -> None:
        """Refuse a database that this library cannot work on, with the command that fixes it."""
        where = self.describe()
        # nobody can type a URL whose password is hidden
        fix = f"run headway --url {where} migrate" if where == self._url else "run headway migrate with its --url"
        if found.version == 0:
            raise SchemaMissing(f"{where} has no Headway schema: {fix}")
        if found.version in UNRELEASED:
            raise unreleased(where, found.version, fix)
        if found.version < VERSION:
            raise SchemaOutdated(f"{where} has schema version {found.version}, this library needs {VERSION}: {fix}")
        if found.version > VERSION:
            raise newer(where, found.version, VERSION)
        if found.lacks:
            raise incomplete(where, VERSION, found.lacks, fix)
        if found.isolation != "read committed":
            raise ConfigError(
                f"{where} starts transactions as {found.isolation}, but Headway locks rows and then reads what others "
                "have committed: alter role … set default_transaction_isolation = 'read committed'"
            )
        self._root._install_id = found.install_id
        self._root._checked = True

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            # no cause if the driver's own message quotes a password
            cause = error if redact(str(error), own()) == str(error) else None
            raise translated(error, self.describe()) from cause


def _prepare(op: Op[Any]) -> bool | None:
    """Calls of functions are prepared when they repeat. Reads never are: they are planned with their values and the
    current statistics."""
    return None if op.writes else False


def _execute(cursor: psycopg.RawCursor[Any], request: Statement | Batch, *, prepare: bool | None = False) -> Rows:
    cursor.execute(*_asked(request), prepare=prepare)
    return cursor.fetchall() if _gives_rows(cursor) else []


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


def _gives_rows(cursor: psycopg.RawCursor[Any]) -> bool:
    # not by cursor.description, which would be built for this alone
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
