"""One op's stay on a foreign connection: a guard around it, its statements, and its errors in our words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Protocol

from headway.errors import ConfigError, HeadwayError
from headway.store.ops import Batch, Rows, Statement

Execute = Callable[[Statement | Batch], Rows]
AExecute = Callable[[Statement | Batch], Awaitable[Rows]]
Translate = Callable[[BaseException], HeadwayError | None]


@dataclass(frozen=True, slots=True)
class Guard:
    """The statements that make an op all or nothing: before it, after it, and when it failed."""

    open: tuple[str, ...]
    keep: tuple[str, ...]
    undo: tuple[str, ...]

    @property
    def commits(self) -> bool:
        """Whether the op is a transaction of its own."""
        return "commit" in self.keep


BARE = Guard((), (), ())
SAVEPOINT = Guard(
    ("savepoint headway",),
    ("release savepoint headway",),
    ("rollback to savepoint headway", "release savepoint headway"),
)
TRANSACTION = Guard(("begin",), ("commit",), ("rollback",))


class Port(Protocol):
    """A blocking foreign connection: which guard it needs now, and one statement at a time."""

    def guard(self) -> Guard: ...

    def run(self, sql: str, params: Sequence[Any]) -> Rows: ...


class AsyncPort(Protocol):
    """The same, awaitable."""

    async def guard(self) -> Guard: ...

    async def run(self, sql: str, params: Sequence[Any]) -> Rows: ...


class Session(ABC):
    """A foreign connection for one op: `with session as execute:` or `async with session as execute:`.

    The block ends with the op's writes in the caller's transaction (or committed, where the connection is in
    no transaction and commits by itself), or, after any exception, with none of them. The caller's
    transaction is never committed or rolled back here. A session is used once.
    """

    is_async: ClassVar[bool]
    joins = False
    """Set before it is entered: refuse a connection on which the op would commit by itself."""

    @abstractmethod
    def __enter__(self) -> Execute: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    @abstractmethod
    async def __aenter__(self) -> AExecute: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


class SyncSession(Session):
    """A blocking connection; `async with` works too, and holds up the event loop for the op's statements."""

    is_async = False

    def __init__(self, port: Port, translate: Translate) -> None:
        self._scope: AbstractContextManager[Execute] = _guarded(self, port, translate)

    def __enter__(self) -> Execute:
        return self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, trace)

    async def __aenter__(self) -> AExecute:
        blocking = self._scope.__enter__()

        async def execute(request: Statement | Batch) -> Rows:
            return blocking(request)

        return execute

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, trace)


class AsyncSession(Session):
    """An async connection; it cannot be used from blocking code."""

    is_async = True

    def __init__(self, port: AsyncPort, translate: Translate, *, name: str) -> None:
        self._name = name
        self._scope: AbstractAsyncContextManager[AExecute] = _aguarded(self, port, translate)

    def __enter__(self) -> Execute:
        raise ConfigError(
            f"conn= is {self._name}, which is async, and this call is blocking: "
            "use the async twin with await (aenqueue, amigrate, …), or pass a blocking connection"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None

    async def __aenter__(self) -> AExecute:
        return await self._scope.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._scope.__aexit__(kind, error, trace)


@contextmanager
def _guarded(session: Session, port: Port, translate: Translate) -> Iterator[Execute]:
    def execute(request: Statement | Batch) -> Rows:
        return [row for params in _runs(request) for row in port.run(request.sql, params)]

    try:
        guard = port.guard()
        if session.joins:
            _check_joins(guard)
        for sql in guard.open:
            port.run(sql, ())
        try:
            yield execute
            for sql in guard.keep:
                port.run(sql, ())
        except BaseException as error:
            try:
                for sql in guard.undo:
                    port.run(sql, ())
            except Exception as failure:  # the first error is the one to show; nothing of ours can commit
                error.add_note(f"and undoing the operation on the caller's connection failed: {failure}")
            raise
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        raise ours from error


@asynccontextmanager
async def _aguarded(session: Session, port: AsyncPort, translate: Translate) -> AsyncIterator[AExecute]:
    async def execute(request: Statement | Batch) -> Rows:
        return [row for params in _runs(request) for row in await port.run(request.sql, params)]

    try:
        guard = await port.guard()
        if session.joins:
            _check_joins(guard)
        for sql in guard.open:
            await port.run(sql, ())
        try:
            yield execute
            for sql in guard.keep:
                await port.run(sql, ())
        except BaseException as error:
            try:
                for sql in guard.undo:
                    await port.run(sql, ())
            except Exception as failure:  # the first error is the one to show; nothing of ours can commit
                error.add_note(f"and undoing the operation on the caller's connection failed: {failure}")
            raise
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        raise ours from error


def _check_joins(guard: Guard) -> None:
    if guard.commits:
        raise ConfigError(
            "conn= is in no transaction, so the outcome would be committed alone, apart from your own rows: begin one, "
            "write your rows in it, settle, and commit"
        )


def _runs(request: Statement | Batch) -> Sequence[Sequence[Any]]:
    match request:
        case Statement(params=params):
            return (params,)
        case Batch(rows=rows):
            return rows
