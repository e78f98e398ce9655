"""Writes how executions ended, in batches: while one is written, the next gathers."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from headway.errors import HeadwayError, SchemaMissing, SchemaOutdated, StoreBusy, StoreFailed, StoreUnavailable
from headway.logs import Seldom, get_logger
from headway.model.job import Claim, Report, Settlement
from headway.model.machine import Settled, Turn
from headway.model.retry import dead, failed
from headway.secrets import own, redact
from headway.worker.batch_size import SettleBatchSize
from headway.worker.database import Database
from headway.worker.error_text import storable
from headway.worker.hooks import Event, Hooks
from headway.worker.intervals import backoff
from headway.worker.loop import Loop
from headway.worker.own_transactions import settle_committed
from headway.worker.success_lines import SuccessLines
from headway.worker.summary import SUCCESSES, Summary, name_of

if TYPE_CHECKING:
    from headway.worker.metrics import WorkerMetrics

log = get_logger("headway.worker")

BATCH = 1_000
BATCH_BYTES = 8 * 1024 * 1024
"""The most bytes in one statement; a larger outcome goes alone."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""With more than this waiting to be written, the worker claims nothing."""
RETRY_S = 2.0
"""The longest pause before outcomes that the store did not take are tried again."""
_PARENT = '"parent_id"'

Entry = tuple[Claim, Settlement, Report | None, float | None]
"""With the seconds from its claim to its end; None: it never ran."""


class Settler:
    """Takes outcomes and writes them. While the database is away they are kept, and one that the store refuses does not
    hold up the others."""

    def __init__(
        self,
        database: Database,
        hooks: Hooks,
        summary: Summary,
        *,
        worker_id: Callable[[], str],
        batch_settled: Callable[[], None],
        set_free: Callable[[set[str]], None],
        reserve_claim: Callable[[Iterable[str]], tuple[str, int] | None],
        claimed_by_settle: Callable[[str, int, list[Claim] | None, str], Awaitable[None]],
        due_in: Callable[[int], None],
        queues: Callable[[], Iterable[str]],
        start_next_step: Callable[[Claim, Settlement, str | None], None],
        drop_next_step: Callable[[Claim], None],
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._hooks = hooks
        self._summary = summary
        self._worker_id = worker_id
        self._batch_settled = batch_settled
        self._set_free = set_free
        self._reserve_claim = reserve_claim
        self._claimed_by_settle = claimed_by_settle
        self._due_in = due_in
        self._all_queues = queues
        self._start_next_step = start_next_step
        self._drop_next_step = drop_next_step
        self._metrics = metrics
        self._continued: dict[str, str | None] = {}  # of the batch that is being written: Settled.continued
        self._busy: set[tuple[str, int]] = set()
        self._pending: list[Entry] = []  # not written yet, the batch being written included
        self._refused: list[Entry] = []  # what the store did not take: tried again after a pause, row by row
        self._retry_at = 0.0
        self._failed_rounds = 0
        self._row_by_row = False
        self._says = Seldom(30)
        self._success_lines = SuccessLines(log)
        self._size = 0  # bytes of both lists
        self._batch_size = SettleBatchSize(BATCH)
        self._claimed_queue = ""  # the queue that the last batch was settled and claimed from in one transaction
        self._empty = asyncio.Event()
        self._empty.set()
        self.loop = Loop("settling", self._flush, lambda: math.inf)

    def put(
        self, claim: Claim, settlement: Settlement, report: Report | None = None, took_s: float | None = None
    ) -> None:
        """Settle it: now, or with the next batch while one is being written. `report` is written before it."""
        self._pending.append((claim, settlement, report, took_s))
        self._size += settlement.size
        if len(self._pending) == 1:
            self._empty.clear()
            self.loop.poke()

    @property
    def backlog(self) -> int:
        return len(self._pending) + len(self._refused)

    @property
    def is_full(self) -> bool:
        """Whether too many bytes wait for anything more to be claimed."""
        return self._size >= BACKLOG_BYTES

    def will_claim(self, queue: str) -> bool:
        """Whether an outcome that other jobs of this queue wait for is about to be written: its settle claims them."""
        return any(claim.followed and claim.queue == queue for claim, _, _, _ in self._pending)

    def unwritten(self) -> set[tuple[str, int]]:
        """The claims whose outcomes are not written yet, and the claims that they continue under."""
        entries = [*self._pending, *self._refused]
        following = {(claim.id, claim.fence + 1) for claim, settlement, _, _ in entries if settlement.to == "running"}
        return {(claim.id, claim.fence) for claim, _, _, _ in entries} | following

    def drop(self) -> int:
        """Forget what is not written: the lease is lost, and with it the claims. Gives how many there were."""
        dropped = self.backlog
        # new lists: the batch that is being written belongs to the old ones
        self._pending, self._refused, self._size = [], [], 0
        self._empty.set()
        self._summary.count("lost", dropped)
        return dropped

    async def drain(self) -> None:
        """Wait until all is written."""
        await self._empty.wait()
        self._success_lines.close()

    async def warm_up(self) -> None:
        """Settle nothing, once, so that the first batch finds an open connection."""
        with suppress(HeadwayError):  # the loops report a database that is away
            await self._database.run(self._ops.settle(self._worker_id(), []))

    async def _flush(self) -> float:
        now = asyncio.get_running_loop().time
        again = 0
        if self._refused and now() >= self._retry_at:
            again = len(self._refused)
            self._pending, self._refused = [*self._refused, *self._pending], []
        while pending := self._pending:
            refused = self._refused
            self._claimed_queue = ""
            self._row_by_row = again > 0
            batch = self._batch(min(again or BATCH, BATCH))
            again -= min(again, len(batch))
            self._continued = {}
            kept = len(refused)
            began = time.monotonic()
            written = await self._write(self._worker_id(), batch, refused)
            if self._metrics is not None:
                self._metrics.settled(written, time.monotonic() - began)
            self._batch_size.worked(len(batch))
            self._continue_machines(batch, refused)
            del pending[: len(batch)]
            if pending is self._pending:
                self._size -= _size(batch) - _size(refused[kept:])
            if not self.backlog:
                self._empty.set()
            self._count_written(written)
            # a dropped list was counted when it was dropped
            if len(written) < len(batch) and pending is self._pending:
                self._count_lost(batch, [*written, *refused])
            self._batch_settled()
        if not self._refused:
            self._failed_rounds = 0
            return math.inf
        if now() >= self._retry_at:
            self._failed_rounds += 1
            self._retry_at = now() + backoff(self._failed_rounds, cap_s=RETRY_S, jitter=random.random())
            if self._says():
                log.warning("outcomes could not be written yet; they are kept and tried again", jobs=len(self._refused))
        return max(self._retry_at - now(), 0.001)

    def _batch(self, most: int) -> list[Entry]:
        """As many of the oldest outcomes as one statement should carry."""
        batch = self._pending[: min(most, self._batch_size.most)]
        size = 0
        for count, (_, settlement, _, _) in enumerate(batch):
            size += settlement.size
            if size > BATCH_BYTES and count:
                return batch[:count]
        return batch

    def _continue_machines(self, batch: list[Entry], refused: list[Entry]) -> None:
        """Start the next steps of machines whose last step was written, and drop those of the others."""
        kept = {claim.id for claim, _, _, _ in refused}
        for claim, settlement, _, _ in batch:
            if settlement.to != "running" or claim.id in kept:
                continue
            if claim.id in self._continued:
                self._start_next_step(claim, settlement, self._continued[claim.id])
            else:
                self._drop_next_step(claim)

    async def _write(self, worker_id: str, batch: list[Entry], refused: list[Entry]) -> list[Entry]:
        """Settle the batch, by halves where the store refuses it. Gives what was written: without what was lost, and
        without what the store did not take now, which goes to `refused`."""
        await self._write_reports(worker_id, batch)
        try:
            lost = await self._settle(worker_id, batch)
        except StoreBusy:
            # somebody's open transaction locks one of them: the others do not wait for it
            if len(batch) == 1:
                refused.append(batch[0])
                return []
        except (StoreUnavailable, SchemaMissing, SchemaOutdated):
            self._batch_size.failed(len(batch))  # it may have been too much for the deadline of one call
            raise
        except StoreFailed as error:
            # the database's fault, not the outcome's: keep it until the store takes it, and write the others without it
            self._batch_size.failed(len(batch))
            if len(batch) == 1:
                if self._says("failed"):
                    log.warning("the database failed at an outcome, which is kept and tried again", error=str(error))
                refused.append(batch[0])
                return []
        except Exception as error:
            if len(batch) == 1:
                return await self._settle_as_dead(worker_id, batch[0], refused, error)
        else:
            if lost:
                batch, lost = await self._settle_committed(batch, lost)
            if self._busy:
                refused += [entry for entry in batch if (entry[0].id, entry[0].fence) in self._busy]
            gone = {*lost, *self._busy}
            return [entry for entry in batch if (entry[0].id, entry[0].fence) not in gone] if gone else batch
        middle = len(batch) // 2
        return [
            *await self._write(worker_id, batch[:middle], refused),
            *await self._write(worker_id, batch[middle:], refused),
        ]

    async def _settle_committed(
        self, batch: list[Entry], lost: list[tuple[str, int]]
    ) -> tuple[list[Entry], list[tuple[str, int]]]:
        """The store leaves alone what a handler committed with its own rows: settle that. Gives the batch with those
        outcomes, and what is lost anyway."""
        settled, left = await settle_committed(self._database, lost)
        if not settled and not left:
            return batch, lost
        done = {(each.id, each.fence): each for each in settled}
        self._busy.update(left)
        self._claimed_queue = ""  # what they set free was not claimed with this batch
        entries = [(entry[0], done.get((entry[0].id, entry[0].fence), entry[1]), *entry[2:]) for entry in batch]
        return entries, [key for key in lost if key not in done and key not in left]

    async def _settle(self, worker_id: str, batch: list[Entry]) -> list[tuple[str, int]]:
        """Settle the batch. Where other jobs wait for one of its ends, claim these in the same transaction."""
        settlements = [settlement for _, settlement, _, _ in batch]
        queues = {claim.queue for claim, _, _, _ in batch if claim.followed}
        reserved = self._reserve_claim(queues) if queues and not self._row_by_row else None
        if reserved is None:
            op = self._ops.settle(worker_id, settlements)
            return self._note_answer(await self._database.run(op.fallback if self._row_by_row and op.fallback else op))
        claims: list[Claim] | None = None
        try:
            answer = await self._database.run(self._ops.settle_and_claim(worker_id, settlements, *reserved))
            settled, claims = answer.settled, answer.claims
            self._claimed_queue = reserved[0]
        except StoreFailed:
            claims = []
            raise  # the batch is halved
        except StoreUnavailable as error:
            claims = [] if isinstance(error, StoreBusy) else None
            raise
        except Exception:
            # the claim may be what was refused: settle without it
            claims = []
            settled = await self._database.run(self._ops.settle(worker_id, settlements))
        finally:
            await self._claimed_by_settle(*reserved, claims, worker_id)
        return self._note_answer(settled)

    def _note_answer(self, settled: Settled) -> list[tuple[str, int]]:
        if settled.continued:
            self._continued.update(settled.continued)
        self._busy = set(settled.busy)
        return settled.lost

    async def _write_reports(self, worker_id: str, batch: list[Entry]) -> None:
        reports = [report for _, _, report, _ in batch if report is not None]
        if not reports:
            return
        try:
            await self._database.run(self._ops.report(worker_id, reports))
        except (StoreUnavailable, SchemaMissing, SchemaOutdated):
            raise
        except Exception as error:
            log.warning(
                "the last progress and log lines of some jobs could not be stored", jobs=len(reports), error=str(error)
            )

    async def _settle_as_dead(
        self, worker_id: str, entry: Entry, refused: list[Entry], reason: Exception
    ) -> list[Entry]:
        """The store refuses this one outcome: the job is dead, with that reason."""
        claim, settlement, _, took_s = entry
        text = f"its outcome ({settlement.status}) could not be stored: {type(reason).__name__}: {reason}"
        text = storable(redact(text, own()))
        log.error(text, **self._fields(claim))
        # a retry may help: the children that a step spawns may be accepted later
        spawns = settlement.turn is not None and settlement.turn.children
        replaced = failed(claim, text) if spawns else dead(claim, text)
        try:
            lost = (await self._database.run(self._ops.settle(worker_id, [replaced]))).lost
        except (StoreUnavailable, SchemaMissing, SchemaOutdated):
            raise
        except Exception as error:
            # it has run, so giving it back would run it twice: keep it until the store takes it
            log.error("the job's death could not be stored either: it is kept and tried again", exc_info=error)
            refused.append(entry)
            return []
        return [] if lost else [(claim, replaced, None, took_s)]

    def _count_written(self, written: list[Entry]) -> None:
        verbose = log.is_enabled_for(logging.DEBUG)
        listened = self._hooks.listens_to_settling
        count = self._summary.count
        room = self._success_lines.room()
        before = self._summary.successes
        free: set[str] = set()  # queues where this may have set jobs free
        for claim, settlement, _, took_s in written:
            name = name_of(settlement)
            count(name)
            if room and name in SUCCESSES:
                room -= 1
                before += 1
                self._success_lines.say(name, took_s, self._fields(claim))
            if claim.followed:
                free.add(claim.queue)
                if claim.checkpoint is not None and _PARENT in claim.checkpoint:
                    free |= set(self._all_queues())  # its parent may be in any of them
            if settlement.to == "scheduled":
                self._due_in(settlement.delay_ms)
            elif settlement.turn is not None and settlement.to in ("queued", "waiting"):
                self._note_turn(claim, settlement.turn, free)
            if verbose:
                log.debug(f"job {name}", **self._fields(claim))
            if listened:
                self._tell(name, claim, settlement)
        self._success_lines.leave_out(self._summary.successes - before)
        free.discard(self._claimed_queue)
        if free:
            self._set_free(free)

    def _note_turn(self, claim: Claim, turn: Turn, free: set[str]) -> None:
        """A machine's outcome may have queued work, its next step or its children, or set a deadline."""
        if turn.deadline_ms is not None:
            self._due_in(turn.deadline_ms)
        free.add(turn.queue or claim.queue)
        free.update(child.queue for child in turn.children)

    def _count_lost(self, batch: list[Entry], written: list[Entry]) -> None:
        told = {claim.id for claim, _, _, _ in written}
        lost = [f"{claim.kind} {claim.id}" for claim, _, _, _ in batch if claim.id not in told]
        if not lost:
            return
        self._summary.count("lost", len(lost))
        log.warning(
            "outcomes of lost claims were not written: the jobs were taken from this worker",
            jobs=len(lost),
            some=", ".join(lost[:3]),
            worker_id=self._worker_id(),
        )

    def _fields(self, claim: Claim) -> dict[str, object]:
        return {
            "tenant_id": claim.tenant_id,
            "job_id": claim.id,
            "kind": claim.kind,
            "attempt": claim.fence,
            "worker_id": self._worker_id(),
            "trace_id": claim.trace,
        }

    def _tell(self, name: str, claim: Claim, settlement: Settlement) -> None:
        for event in ("job.settled", f"job.{name}"):
            if self._hooks.listens(event):
                self._hooks.emit(Event(event, self._worker_id(), claim, settlement))


def _size(entries: list[Entry]) -> int:
    return sum(settlement.size for _, settlement, _, _ in entries)
