"""Stores what handlers give to `ctx.artifact`, and deletes the bytes that no artifact has."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from headway.artifacts import Data, Places, ablocks, blocks, in_thread
from headway.errors import (
    ArtifactsUnavailable,
    ConfigError,
    HeadwayError,
    LeaseLost,
    NotAllowed,
    StoreFailed,
    StoreUnavailable,
)
from headway.model.artifact import Artifact, NewArtifact, checked_name, checked_type, path_of
from headway.model.ids import new_id
from headway.model.job import Claim
from headway.model.spill import CONTENT_TYPE, RESULT_NAME, name_again, reference
from headway.store.ops import Op, Ops
from headway.worker.database import Database

T = TypeVar("T")

SWEPT = 500
"""How many files one round deletes before it notes them as gone."""
_AGAIN_S = 0.25
_MOST_AT_ONCE = 32
_AHEAD = 4
"""How many blocks of an async iterator wait for the thread that writes them."""


class Attempted(msgspec.Struct, frozen=True):
    """The running attempt that stores something."""

    id: str  # of its job
    tenant_id: str
    fence: int


class ArtifactWriter:
    """What the worker does for `ctx.artifact`.

    First the bytes are noted as trash, then written, then made an artifact under the fence of their attempt. Killed at
    any point, the bytes are known: a sweep deletes them once the attempt has ended.
    """

    def __init__(self, ops: Ops, places: Places, run: Callable[[Op[Any]], Awaitable[Any]]) -> None:
        self._ops = ops
        self._places = places
        self._run_op = run
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)

    def store(self, attempt: Claim | Attempted, name: str, data: Data, content_type: str | None) -> Artifact:
        """For a sync handler, in its thread."""
        refuse_to_block()
        return self._stored(attempt, checked_name(name), blocks(data), content_type)

    async def astore(
        self, attempt: Claim | Attempted, name: str, data: Data | AsyncIterable[bytes | str], content_type: str | None
    ) -> Artifact:
        """For an async handler: a thread writes."""
        named = checked_name(name)
        if not isinstance(data, AsyncIterable):
            return await self._in_thread(attempt, named, blocks(data), content_type)
        pipe = _Pipe(self._loop)
        writing = asyncio.ensure_future(self._in_thread(attempt, named, iter(pipe), content_type))
        writing.add_done_callback(lambda _: pipe.room.release())  # it may have failed before the end
        try:
            async for block in ablocks(data):
                await pipe.room.acquire()
                if writing.done():
                    break
                pipe.put(block)
            pipe.put(None)
        except BaseException as error:
            pipe.put(error)
            await asyncio.wait((writing,))
            writing.exception()  # it is this error
            raise
        return await writing

    async def aspill(self, attempt: Claim | Attempted, result: str) -> str:
        """Store a result that is too large for its row; gives what the row has instead."""
        content = result.encode()
        try:
            kept = await self._in_thread(attempt, RESULT_NAME, iter((content,)), CONTENT_TYPE)
        except NotAllowed:
            kept = await self._in_thread(attempt, name_again(new_id()), iter((content,)), CONTENT_TYPE)
        return reference(kept.id)

    async def _in_thread(self, *args: Any) -> Artifact:
        async with self._room:
            return await in_thread(self._stored, *args)

    def _stored(
        self, attempt: Claim | Attempted, name: str, data: Iterator[bytes], content_type: str | None
    ) -> Artifact:
        """In a thread."""
        kept_as = checked_type(content_type, name)
        own = self._places.own
        artifact_id = new_id()
        new = NewArtifact(
            id=artifact_id,
            tenant_id=attempt.tenant_id,
            job_id=attempt.id,
            fence=attempt.fence,
            name=name,
            content_type=kept_as,
            store=own.name,
            path=path_of(attempt.tenant_id, attempt.id, artifact_id),
        )
        self._run(self._ops.begin_artifact(new))
        try:
            written = own.write(new.path, data, kept_as)
            return self._run(self._ops.keep_artifact(new, size=written.size, sha256=written.sha256))
        except LeaseLost:
            with suppress(HeadwayError):
                own.delete([new.path])  # nobody can ever keep it; else the sweep would find it
            raise

    def _run(self, op: Op[T]) -> T:
        found: T = asyncio.run_coroutine_threadsafe(self._awaited(op), self._loop).result()
        return found

    async def _awaited(self, op: Op[T]) -> T:
        found: T = await self._run_op(op)
        return found


def refuse_to_block() -> None:
    """Raises `NotAllowed` on an event loop."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise NotAllowed("artifact(…) would block the event loop of this async handler: await ctx.aartifact(…)")


def patiently(database: Database) -> Callable[[Op[Any]], Awaitable[Any]]:
    """Runs ops for handlers. It is not their fault if the database is away: their lease decides how long it may be."""

    async def run(op: Op[Any]) -> Any:
        while True:
            try:
                return await database.run(op)
            except (StoreUnavailable, StoreFailed):
                await asyncio.sleep(_AGAIN_S)

    return run


class _Pipe:
    """Blocks on their way from the event loop to the thread that writes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.room = asyncio.Semaphore(_AHEAD)
        self._loop = loop
        self._queue: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()

    def put(self, block: bytes | BaseException | None) -> None:
        """None ends it, an error breaks it off."""
        self._queue.put(block)

    def __iter__(self) -> Iterator[bytes]:
        """In the thread."""
        while (found := self._queue.get()) is not None:
            if isinstance(found, BaseException):
                raise InterruptedWrite from found
            self._loop.call_soon_threadsafe(self.room.release)
            yield found


class InterruptedWrite(Exception):
    """The source of the bytes failed or was canceled."""


async def sweep(database: Database, places: Places) -> int:
    """Delete bytes that no artifact has and none can have any more; gives how many there were. Killed between the bytes
    and their row, it deletes them again the next time. Raises `ArtifactsUnavailable`, `ConfigError`."""
    swept = 0
    failed: HeadwayError | None = None
    for store in places.ids:
        try:
            swept += await _sweep_store(database, places, store)
        except (ArtifactsUnavailable, ConfigError) as error:
            failed = error  # the others are swept all the same
    if failed is not None:
        raise failed
    return swept


async def _sweep_store(database: Database, places: Places, store: str) -> int:
    swept = 0
    while True:
        found = await database.run(database.ops.trash([store], limit=SWEPT))
        if found:
            await places.adiscard(found)
            await database.run(database.ops.empty_trash([each.id for each in found]))
        swept += len(found)
        if len(found) < SWEPT:
            return swept
