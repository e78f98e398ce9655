"""Writes the journals of all flows of a worker: while one statement is under way, the next gathers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from headway.errors import (
    HeadwayError,
    LeaseLost,
    SchemaMissing,
    SchemaOutdated,
    StoreBusy,
    StoreFailed,
    StoreUnavailable,
)
from headway.model.journal import Entry, Recorded
from headway.worker.database import Database
from headway.worker.loop import Loop

BATCH_BYTES = 8 * 2**20
BATCH_ROWS = 2_000
_BUSY_S = 0.1

Answer = "asyncio.Future[Recorded]"


class _Put:
    """The entries of one flow that are recorded together."""

    __slots__ = ("entries", "future", "size")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.size = sum(entry.size for entry in entries)
        self.future: asyncio.Future[Recorded] = asyncio.get_running_loop().create_future()


class Recorder:
    """What a flow does next depends on its rows, so it waits for them; a row that the store refuses holds up nobody
    else's."""

    def __init__(self, database: Database, *, worker_id: Callable[[], str]) -> None:
        self._database = database
        self._ops = database.ops
        self._worker_id = worker_id
        self._pending: list[_Put] = []
        self.loop = Loop("recording", self._flush, lambda: math.inf)

    async def record(self, entries: Sequence[Entry]) -> Recorded:
        """Write these rows of one flow, and what goes with them; raises `LeaseLost` if the flow is not this worker's
        any more, and what the store refuses."""
        put = _Put(entries)
        self._pending.append(put)
        self.loop.poke()
        recorded = await put.future
        if recorded.lost:
            raise LeaseLost(f"flow {entries[0].job_id} is not this worker's any more: nothing was recorded")
        return recorded

    async def _flush(self) -> float:
        while self._pending:
            batch = self._batch()
            left = await self._write(batch)
            done = {id(put) for put in batch} - {id(put) for put in left}
            self._pending = [put for put in self._pending if id(put) not in done]
            if left:
                return _BUSY_S
        return math.inf

    def _batch(self) -> list[_Put]:
        batch: list[_Put] = []
        rows = size = 0
        for put in self._pending:
            if put.future.done():
                continue
            rows, size = rows + len(put.entries), size + put.size
            if batch and (rows > BATCH_ROWS or size > BATCH_BYTES):
                break
            batch.append(put)
        self._pending = [put for put in self._pending if not put.future.done()]
        return batch

    async def _write(self, batch: list[_Put]) -> list[_Put]:
        """Gives what has to be tried again."""
        if not batch:
            return []
        entries = [entry for put in batch for entry in put.entries]
        try:
            recorded = await self._database.run(self._ops.record(self._worker_id(), entries))
        except (StoreBusy, StoreFailed):
            if len(batch) == 1:
                return batch  # somebody has its row locked: later
        except (StoreUnavailable, SchemaMissing, SchemaOutdated):
            raise
        except HeadwayError as error:
            if len(batch) == 1:
                _fail(batch[0], error)
                return []
        except Exception as error:
            _fail_all(batch, error)
            return []
        else:
            lost = set(recorded.lost)
            for put in batch:
                key = (put.entries[0].job_id, put.entries[0].fence)
                if not put.future.done():
                    put.future.set_result(
                        Recorded(lost=[key] if key in lost else [], children=recorded.children, at=recorded.at)
                    )
            return []
        middle = len(batch) // 2
        return [*await self._write(batch[:middle]), *await self._write(batch[middle:])]


def _fail(put: _Put, error: Exception) -> None:
    if not put.future.done():
        put.future.set_exception(error)


def _fail_all(batch: list[_Put], error: Exception) -> None:
    for put in batch:
        _fail(put, error)
