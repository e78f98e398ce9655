"""Writes how executions ended, in batches: what gathered while one was written makes the next."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

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
from headway.worker.summary import Summary, name_of

log = get_logger("headway.worker")

BATCH = 1_000
BATCH_BYTES = 8 * 1024 * 1024
"""No more than this in one statement, but for one outcome that is larger itself."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""With more than this waiting to be written, nothing is claimed."""
AGAIN_S = 2.0
"""The longest until outcomes are tried again that the store would not take."""
_PARENT = '"parent_id"'

Entry = tuple[Claim, Settlement, Report | None]


class Settler:
    """Takes outcomes and gets them into the store: none is lost while the database is away, and none that the
    store refuses holds up the others."""

    def __init__(
        self,
        database: Database,
        hooks: Hooks,
        summary: Summary,
        *,
        worker_id: Callable[[], str],
        on_flush: Callable[[], None],
        on_followed: Callable[[set[str]], None],
        lend: Callable[[Iterable[str]], tuple[str, int] | None],
        take_over: Callable[[str, int, list[Claim] | None, str], Awaitable[None]],
        on_scheduled: Callable[[int], None],
        queues: Iterable[str],
        go_on: Callable[[Claim, Settlement, str | None], None],
        go_no_further: Callable[[Claim], None],
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._hooks = hooks
        self._summary = summary
        self._worker_id = worker_id
        self._on_flush = on_flush
        self._on_followed = on_followed
        self._lend = lend
        self._take_over = take_over
        self._on_scheduled = on_scheduled
        self._all_queues = set(queues)
        self._go_on = go_on
        self._go_no_further = go_no_further
        self._continued: dict[str, str | None] = {}  # of the batch that is being written: see Settled
        self._busy: set[tuple[str, int]] = set()
        self._pending: list[Entry] = []  # until they are written, those being written too
        self._refused: list[Entry] = []  # what the store would not take now; tried again after a pause, apart
        self._again_at = 0.0
        self._in_vain = 0
        self._apart = False
        self._says = Seldom(30)
        self._size = 0  # bytes of both
        self._batch_size = SettleBatchSize(BATCH)
        self._served = ""  # the queue that the last batch was claimed from in the same transaction
        self._empty = asyncio.Event()
        self._empty.set()
        self.loop = Loop("settling", self._flush, lambda: math.inf)

    def put(self, claim: Claim, settlement: Settlement, report: Report | None = None) -> None:
        """Settle it, now if nothing is being written, else with the next batch; `report` goes before it."""
        self._pending.append((claim, settlement, report))
        self._size += settlement.size
        if len(self._pending) == 1:
            self._empty.clear()
            self.loop.poke()

    @property
    def backlog(self) -> int:
        return len(self._pending) + len(self._refused)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing more should be begun."""
        return self._size >= BACKLOG_BYTES

    def follows(self, queue: str) -> bool:
        """Whether an outcome of this queue waits to be written that others wait for."""
        return any(claim.followed and claim.queue == queue for claim, _, _ in self._pending)

    def holds(self) -> set[tuple[str, int]]:
        """The claims whose outcomes are not written yet, and those that these go on with."""
        entries = [*self._pending, *self._refused]
        following = {(claim.id, claim.fence + 1) for claim, settlement, _ in entries if settlement.to == "running"}
        return {(claim.id, claim.fence) for claim, _, _ in entries} | following

    def drop(self) -> int:
        """Forget what is not written: the claims are no longer this worker's. Gives how many there were."""
        dropped = self.backlog
        # new lists: the batch that is being written now belongs to the old ones
        self._pending, self._refused, self._size = [], [], 0
        self._empty.set()
        self._summary.count("lost", dropped)
        return dropped

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all is written; False if the time ran out before."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    async def rehearse(self) -> None:
        """Write nothing, once, so that the way is open when there is something."""
        with suppress(HeadwayError):  # nothing was lost by it: the loops say that the database is away
            await self._database.run(self._ops.settle(self._worker_id(), []))

    async def _flush(self) -> float:
        now = asyncio.get_running_loop().time
        again = 0
        if self._refused and now() >= self._again_at:
            again = len(self._refused)
            self._pending, self._refused = [*self._refused, *self._pending], []
        while pending := self._pending:
            refused = self._refused
            self._served = ""
            self._apart = again > 0
            batch = self._batch(min(again or BATCH, BATCH))
            again -= min(again, len(batch))
            self._continued = {}
            kept = len(refused)
            written = await self._write(self._worker_id(), batch, refused)
            self._batch_size.worked(len(batch))
            self._turn(batch, refused)
            del pending[: len(batch)]
            if pending is self._pending:
                self._size -= _size(batch) - _size(refused[kept:])
            if not self.backlog:
                self._empty.set()
            self._account(written)
            # those of a dropped list were counted when it was
            if len(written) < len(batch) and pending is self._pending:
                self._account_lost(batch, [*written, *refused])
            self._on_flush()
        if not self._refused:
            self._in_vain = 0
            return math.inf
        if now() >= self._again_at:
            self._in_vain += 1
            self._again_at = now() + backoff(self._in_vain, cap_s=AGAIN_S, jitter=random.random())
            if self._says():
                log.warning("outcomes could not be written yet; they are kept and tried again", jobs=len(self._refused))
        return max(self._again_at - now(), 0.001)

    def _batch(self, most: int) -> list[Entry]:
        """As many of the first outcomes as one statement should bring."""
        batch = self._pending[: min(most, self._batch_size.most)]
        size = 0
        for count, (_, settlement, _) in enumerate(batch):
            size += settlement.size
            if size > BATCH_BYTES and count:
                return batch[:count]
        return batch

    def _turn(self, batch: list[Entry], refused: list[Entry]) -> None:
        """Let the machines of a batch go on that were written to, and those stand that were not."""
        kept = {claim.id for claim, _, _ in refused}
        for claim, settlement, _ in batch:
            if settlement.to != "running" or claim.id in kept:
                continue
            if claim.id in self._continued:
                self._go_on(claim, settlement, self._continued[claim.id])
            else:
                self._go_no_further(claim)

    async def _write(self, worker_id: str, batch: list[Entry], refused: list[Entry]) -> list[Entry]:
        """Settle the batch, by halves where the store refuses it; gives what was written: not the lost, and not what
        the store would not take now, which goes to `refused`."""
        await self._write_reports(worker_id, batch)
        try:
            lost = await self._settle(worker_id, batch)
        except StoreBusy:
            # somebody's open transaction is in the way of one of them: the others do not wait for it
            if len(batch) == 1:
                refused.append(batch[0])
                return []
        except (StoreUnavailable, SchemaMissing, SchemaOutdated):
            self._batch_size.failed(len(batch))  # it may have been too much for the time that a call has
            raise
        except StoreFailed as error:
            # no fault of the outcome's: it is kept until the store takes it, and the others are tried without it
            self._batch_size.failed(len(batch))
            if len(batch) == 1:
                if self._says("failed"):
                    log.warning("the database failed at an outcome, which is kept and tried again", error=str(error))
                refused.append(batch[0])
                return []
        except Exception as error:
            if len(batch) == 1:
                return await self._condemn(worker_id, batch[0], refused, error)
        else:
            if self._busy:
                refused += [entry for entry in batch if (entry[0].id, entry[0].fence) in self._busy]
            gone = {*lost, *self._busy}
            return [entry for entry in batch if (entry[0].id, entry[0].fence) not in gone] if gone else batch
        middle = len(batch) // 2
        return [
            *await self._write(worker_id, batch[:middle], refused),
            *await self._write(worker_id, batch[middle:], refused),
        ]

    async def _settle(self, worker_id: str, batch: list[Entry]) -> list[tuple[str, int]]:
        """Settle the batch and, where others wait for what ends, claim those in the same transaction."""
        settlements = [settlement for _, settlement, _ in batch]
        followed = {claim.queue for claim, _, _ in batch if claim.followed}
        lent = self._lend(followed) if followed and not self._apart else None
        if lent is None:
            op = self._ops.settle(worker_id, settlements)
            return self._noted(await self._database.run(op.apart if self._apart and op.apart else op))
        claims: list[Claim] | None = None
        try:
            settled, got = await self._database.run(self._ops.settle_and_claim(worker_id, settlements, *lent))
            claims = got
            self._served = lent[0]
        except StoreFailed:
            claims = []
            raise  # with less at once
        except StoreUnavailable as error:
            claims = [] if isinstance(error, StoreBusy) else None
            raise
        except Exception:
            # as a whole it was refused, maybe for the claim's sake alone
            claims = []
            settled = await self._database.run(self._ops.settle(worker_id, settlements))
        finally:
            await self._take_over(*lent, claims, worker_id)
        return self._noted(settled)

    def _noted(self, settled: Settled) -> list[tuple[str, int]]:
        if settled.continued:
            self._continued.update(settled.continued)
        self._busy = set(settled.busy)
        return settled.lost

    async def _write_reports(self, worker_id: str, batch: list[Entry]) -> None:
        reports = [report for _, _, report in batch if report is not None]
        if not reports:
            return
        try:
            await self._database.run(self._ops.report(worker_id, reports))
        except (StoreUnavailable, SchemaMissing, SchemaOutdated):
            raise
        except Exception as error:
            log.warning("the last words of some jobs could not be stored", jobs=len(reports), error=str(error))

    async def _condemn(self, worker_id: str, entry: Entry, refused: list[Entry], reason: Exception) -> list[Entry]:
        """The store refuses this one outcome for a reason of its own: the job ends dead with that reason."""
        claim, settlement, _ = entry
        text = f"its outcome ({settlement.status}) could not be stored: {type(reason).__name__}: {reason}"
        text = storable(redact(text, own()))
        log.error(text, **self._fields(claim))
        # the children that a step asks for may be refused now and not later
        verdict = failed(claim, text) if settlement.turn is not None and settlement.turn.children else dead(claim, text)
        try:
            lost = (await self._database.run(self._ops.settle(worker_id, [verdict]))).lost
        except (StoreUnavailable, SchemaMissing, SchemaOutdated):
            raise
        except Exception as error:
            # it has run, so it is not given back as if it had not: it is kept until the store takes it
            log.error("nor could it be stored that the job is dead: it is kept and tried again", exc_info=error)
            refused.append(entry)
            return []
        return [] if lost else [(claim, verdict, None)]

    def _account(self, written: list[Entry]) -> None:
        verbose = log.isEnabledFor(logging.DEBUG)
        listened = self._hooks.listens_to_settling
        count = self._summary.count
        followed: set[str] = set()
        for claim, settlement, _ in written:
            name = name_of(settlement)
            count(name)
            if claim.followed:
                followed.add(claim.queue)
                if claim.place is not None and _PARENT in claim.place:
                    followed |= self._all_queues  # its parent may be in any of them
            if settlement.to == "scheduled":
                self._on_scheduled(settlement.delay_ms)
            elif settlement.turn is not None and settlement.to in ("queued", "waiting"):
                self._follow_turn(claim, settlement.turn, followed)
            if verbose:
                log.debug(f"job {name}", **self._fields(claim))
            if listened:
                self._tell(name, claim, settlement)
        followed.discard(self._served)
        if followed:
            self._on_followed(followed)

    def _follow_turn(self, claim: Claim, turn: Turn, followed: set[str]) -> None:
        """A machine's outcome may have made work: its next step, its children; or have set a deadline."""
        if turn.deadline_ms is not None:
            self._on_scheduled(turn.deadline_ms)
        followed.add(turn.queue or claim.queue)
        followed.update(child.queue for child in turn.children)

    def _account_lost(self, batch: list[Entry], written: list[Entry]) -> None:
        told = {claim.id for claim, _, _ in written}
        lost = [f"{claim.kind} {claim.id}" for claim, _, _ in batch if claim.id not in told]
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
            "trace_id": claim.trace_id,
        }

    def _tell(self, name: str, claim: Claim, settlement: Settlement) -> None:
        for event in ("job.settled", f"job.{name}"):
            if self._hooks.listens(event):
                self._hooks.emit(Event(event, self._worker_id(), claim, settlement))


def _size(entries: list[Entry]) -> int:
    return sum(settlement.size for _, settlement, _ in entries)
