"""The periodic work that any worker does for the whole fleet: promote, reap, prune, sweep, add up the stats."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress

from headway.artifacts import Places
from headway.config import Settings
from headway.errors import ArtifactsUnavailable, ConfigError, HeadwayError
from headway.logs import Seldom, get_logger
from headway.model.fleet import Reaped, Swept, Worker
from headway.worker.artifacts import sweep
from headway.worker.database import Database
from headway.worker.hooks import Event, Hooks
from headway.worker.host import is_gone, machine
from headway.worker.intervals import jittered
from headway.worker.lease import Lease
from headway.worker.loop import Loop
from headway.worker.own_transactions import settle_committed
from headway.worker.prune import BATCH, duties
from headway.worker.wake import folder_of

log = get_logger("headway.worker")

LOOK_EVERY_S = 2.0
"""How often some worker of a machine looks whether another one's process ended."""
PRUNE_EVERY_S = 300.0
FIRST_PRUNE_S = 20.0
LAST_PRUNE_S = 1.0
"""How long a worker that was too short-lived for a round prunes before it ends."""
PRUNE_PAUSE_S = 0.2
FOLD_EVERY_S = 10.0
FOLD_LIMIT = 5_000
FOLD_PAUSE_S = 0.05
FOLD_MOST_S = 30.0
SWEEP_LIMIT = 10_000
FIRST_SWEEP_S = 5.0
SWEEP_AGAIN_S = 1.0
"""After a sweep that repaired something: there may be more."""


class Maintenance:
    """Each of these is set-based and safe to run in several workers at once."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        hooks: Hooks,
        settings: Settings,
        *,
        places: Places | None,
        on_promoted: Callable[[], None],
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._lease = lease
        self._hooks = hooks
        self._settings = settings
        self._places = places
        self._on_promoted = on_promoted
        self._next_due_ms: int | None = None
        self._looked = False
        self._neighbours: list[Worker] = []  # this machine's, when it looked last
        self._folder_seen: int | None = None
        self._says = Seldom(600)
        self._promotes = asyncio.Lock()
        self._promoting = Loop("promoting", self._promote, self._promote_every_s)
        self._reaping = Loop("reaping", self._reap_lost, self._reap_every_s)
        self._looking = Loop("looking for dead neighbours", self._look_around, self._look_every_s, first_s=LOOK_EVERY_S)
        self._pruned = False
        first_s = jittered(min(FIRST_PRUNE_S, PRUNE_EVERY_S), random.random())
        self._pruning = Loop("pruning", self._prune, self._prune_every_s, first_s=first_s)
        first_s = jittered(min(FIRST_SWEEP_S, settings.sweep_every_ms / 1_000), random.random())
        self._sweeping = Loop("sweeping", self._sweep, self._sweep_every_s, first_s=first_s)
        first_s = jittered(FOLD_EVERY_S, random.random())
        self._folding = Loop("adding up stats", self._fold, self._fold_every_s, first_s=first_s)
        self.loops = (self._promoting, self._reaping, self._looking, self._pruning, self._sweeping, self._folding)

    # promote

    async def promote(self) -> int:
        """Queue all that is due now; gives how many jobs."""
        queued = arrived = 0
        # one at a time: two would skip each other's locked rows, and both could return before all are queued
        async with self._promotes:
            while True:
                promoted = await self._database.run(self._ops.promote(limit=BATCH))
                queued += promoted.queued
                arrived += promoted.arrived
                self._next_due_ms = promoted.next_due_ms
                if promoted.queued + promoted.expired < BATCH:
                    break
        if queued or arrived:
            self._on_promoted()
        return queued

    def due_in(self, delay_ms: int) -> None:
        """A job is due in this time: promote then, if the next round would be later."""
        if delay_ms < self._settings.promote_every_ms * self._lease.workers:
            self._promoting.poke(delay_ms / 1_000 + self._offset_s())

    async def _promote(self) -> float:
        await self.promote()
        usual_s = jittered(self._promote_every_s(), random.random())
        if self._next_due_ms is None:
            return usual_s
        return min(usual_s, self._next_due_ms / 1_000 + self._offset_s())

    def _offset_s(self) -> float:
        """A random offset, so that the workers of a fleet do not all query at once."""
        return random.random() * self._settings.pace_ms / 1_000 * self._lease.workers

    def _promote_every_s(self) -> float:
        return self._settings.promote_every_ms * self._lease.workers / 1_000

    # reap

    async def reap_local(self) -> None:
        """Reap the workers of this machine whose process is provably gone, before the first claim: if every worker is
        killed as soon as it runs something, none lives long enough to do it later."""
        with suppress(HeadwayError):  # the first round tries again
            await self._reap_gone()

    async def _reap_lost(self) -> None:
        if not self._settings.hints:
            self._looked = False  # no socket tells that a worker came
        await self._look_around()
        await self._reap([])

    def _reap_every_s(self) -> float:
        # a third of the fleet per period, not one worker: at random intervals all of them may be late together
        return self._settings.reap_every_ms / 1_000 * max(1.0, self._lease.workers / 3)

    async def _reap_gone(self) -> None:
        gone = await self._gone()
        if gone:
            await self._reap(gone)
            # a job that somebody had locked is left to the next round: its worker is still there
            await self._gone()

    async def _gone(self) -> list[str]:
        changed_at = self._folder_changed_at()
        # a change a moment later may have the same time: look once more then
        is_old = changed_at is not None and time.time_ns() - changed_at > 100_000_000
        self._folder_seen = changed_at if is_old else None
        here = machine()
        found = await self._database.run(self._ops.workers())
        self._looked = True
        self._neighbours = [worker for worker in found if worker.machine is not None and worker.machine == here]
        return [worker.id for worker in self._neighbours if is_gone(worker)]

    async def _look_around(self) -> None:
        """Whether a process of this machine ended without signing off: its jobs need not wait for the end of its lease.
        Asks the kernel, and the database only if one did, or if workers came or went here."""
        changed = not self._looked or self._folder_changed_at() != self._folder_seen
        if changed or any(is_gone(worker) for worker in self._neighbours):
            await self._reap_gone()

    def _look_every_s(self) -> float:
        return LOOK_EVERY_S * max(1.0, len(self._neighbours) / 8)

    def _folder_changed_at(self) -> int | None:
        """When a worker of this machine last began or ended, as far as their sockets tell."""
        folder = folder_of(self._database.install_id)
        try:
            return None if folder is None else os.stat(folder).st_mtime_ns
        except OSError:
            return None

    async def _reap(self, gone: list[str]) -> None:
        while True:
            found = await self._database.run(self._ops.reap(gone, limit=BATCH, by=self._lease.worker_id))
            reaped = [each for each in found if each.fault is None and not each.committed]
            committed = [(each.job_id, each.fence) for each in found if each.committed]
            self._tell(reaped)
            for each in found:
                if each.fault is not None and self._says(each.job_id):
                    log.error(
                        "a job that was lost with its worker cannot be ended and stays running",
                        job_id=each.job_id,
                        kind=each.kind,
                        lost_worker_id=each.worker_id,
                        error=each.fault,
                    )
            if committed:
                await self._settle_committed(committed)
            if max(len(reaped), len(committed)) < BATCH:
                return

    async def _settle_committed(self, claims: list[tuple[str, int]]) -> None:
        """The handlers of a lost worker had committed these outcomes with their own rows: nothing runs again."""
        settled, _ = await settle_committed(self._database, claims)
        log.info("settled outcomes that a lost worker's handlers had committed with their own rows", jobs=len(settled))
        self._on_promoted()  # others may have waited for them

    def _tell(self, reaped: list[Reaped]) -> None:
        by_worker: dict[str | None, list[Reaped]] = {}
        for each in reaped:
            by_worker.setdefault(each.worker_id, []).append(each)
        for worker_id, lost in by_worker.items():
            log.warning(
                "a worker was lost; other workers take over its jobs",
                lost_worker_id=worker_id,
                jobs=len(lost),
                dead=sum(each.to == "dead" for each in lost),
                some=", ".join(f"{each.kind} {each.job_id}" for each in lost[:3]),
            )
            if self._hooks.listens("worker.reaped"):
                self._hooks.emit(Event("worker.reaped", worker_id or "", reaped=tuple(lost)))

    # prune

    def _prune_every_s(self) -> float:
        return PRUNE_EVERY_S * self._lease.workers

    async def _prune(self) -> None:
        """Delete in small batches with pauses, so that no job waits for it."""
        for op in duties(self._ops, self._settings.retention_ms):
            pruned = BATCH
            while pruned >= BATCH:
                pruned = await self._database.run(op)
                await asyncio.sleep(PRUNE_PAUSE_S)
        self._pruned = True
        await self._sweep_artifacts()

    async def _sweep_artifacts(self) -> None:
        """After what was pruned has committed: the bytes of its artifacts, and of attempts that never kept theirs."""
        if self._places is None:
            return
        try:
            await sweep(self._database, self._places)
        except (ArtifactsUnavailable, ConfigError) as error:
            if self._says("artifacts"):
                log.warning("bytes of deleted artifacts stay for now", error=str(error))

    async def prune_before_end(self) -> None:
        """Prune for a moment if this worker was too short-lived for a round: else a fleet of workers that only run
        until idle would never prune."""
        if self._pruned:
            return
        clock = asyncio.get_running_loop().time
        end = clock() + LAST_PRUNE_S
        with suppress(HeadwayError):  # the next worker does it
            for op in duties(self._ops, self._settings.retention_ms):
                while clock() < end and await self._database.run(op) >= BATCH:
                    pass
            await self._sweep_artifacts()

    # stats

    def _fold_every_s(self) -> float:
        # at least as often as depths are sampled: a round that finds nothing costs one probe
        return min(FOLD_EVERY_S * self._lease.workers, FOLD_MOST_S)

    async def _fold(self) -> None:
        """Add what happened up to minutes, hours and days, and errors to their groups; once a minute, one worker also
        samples what is queued."""
        depths = await self._database.run(self._ops.depths())
        while True:
            counted = await self._database.run(self._ops.fold_stats(limit=FOLD_LIMIT, depths=depths))
            grouped = await self._database.run(self._ops.fold_errors(limit=FOLD_LIMIT))
            if max(counted, grouped) < FOLD_LIMIT:
                return
            depths = None
            await asyncio.sleep(FOLD_PAUSE_S)

    # sweep

    def _sweep_every_s(self) -> float:
        return self._settings.sweep_every_ms / 1_000 * self._lease.workers

    async def _sweep(self) -> float | None:
        """Repair what somebody broke by changing rows by hand, and log it: our own verbs leave nothing to sweep."""
        swept = await self._database.run(self._ops.sweep(limit=SWEEP_LIMIT))
        if not swept:
            return None
        _tell_swept(swept)
        self._on_promoted()
        return min(SWEEP_AGAIN_S, self._sweep_every_s())


def _tell_swept(swept: Swept) -> None:
    found = {"trains": swept.trains, "jobs": swept.jobs, "limits": swept.keys}
    some = {name: ", ".join(all_[:5]) + (", …" if len(all_) > 5 else "") for name, all_ in found.items() if all_}
    count = sum(map(len, found.values()))
    log.warning(
        f"released {count} that waited for something that no longer exists: somebody changed or deleted rows by hand",
        **some,
    )
