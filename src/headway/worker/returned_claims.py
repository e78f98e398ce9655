"""Gives back claims that this worker does not run: unknown kinds, payloads of another release, lost answers."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from headway.config import Settings
from headway.define.flow_kind import FlowKind
from headway.define.machine import MachineKind
from headway.define.registry import AnyKind
from headway.logs import Seldom, get_logger
from headway.model.job import Claim
from headway.worker.database import Database
from headway.worker.intervals import jittered
from headway.worker.lease import Lease
from headway.worker.own_transactions import settle_committed

log = get_logger("headway.worker")

UNKNOWN_KIND_MS = 30_000
"""When a job that is unknown here comes again: seldom enough to cost nothing."""
SOON_MS = 500
"""The first time: during a deploy a worker that knows it may be idle beside this one. Twice as long each time."""
_SOON_JOBS = 100  # at a time; of a larger backlog, the others come again seldom from the start
_LOCKED_RETRY_S = 1.0
_CHECK_EVERY_LEASES = 10  # without a reason to doubt

Key = tuple[str, int]
"""A claim: the job's id and the fence."""


class ReturnedClaims:
    """`known` gives the claims that this worker runs or still has to settle; `on_returned` is called when others became
    free."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        settings: Settings,
        kinds: Mapping[str, AnyKind],
        *,
        known: Callable[[], set[Key]],
        on_returned: Callable[[], None],
        on_mismatch: Callable[[], None],
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._lease = lease
        self._settings = settings
        self._kinds = kinds
        self._known = known
        self._on_returned = on_returned
        self._on_mismatch = on_mismatch
        self._mismatched: list[tuple[Claim, str]] = []
        self._uncertain = 0  # how often the answer to a claim was lost
        self._reconciled = 0  # how many of these were cleared up by asking the store
        self._returned: dict[str, tuple[int, float]] = {}  # by job: how often, and when last
        self._says = Seldom(60)
        self._check_at = self._next_check(_CHECK_EVERY_LEASES)

    # what this worker's code cannot run

    async def unknown(self, claims: list[Claim]) -> None:
        """Kinds, versions or steps that are not known here: another worker, or a newer one, knows them."""
        counts = Counter((self._unknown_part(claim), claim.kind, claim.queue) for claim in claims)
        for (what, kind, queue), count in counts.items():
            if self._says(what):
                log.warning(
                    f"no worker here knows {what}: its jobs are given back and come again, at last "
                    "every half a minute; start a worker of the app that defines it, or give it a queue of its own",
                    kind=kind,
                    queue=queue,
                    jobs=count,
                )
        await self._return_later(claims)

    def _unknown_part(self, claim: Claim) -> str:
        kind = self._kinds.get(claim.kind)
        return f'kind "{claim.kind}"' if not isinstance(kind, MachineKind | FlowKind) else kind.unknown(claim)

    def mismatched(self, claim: Claim, why: str) -> None:
        """The code here cannot read the payload of this claim, which another release of it enqueued."""
        self._unreadable(
            claim,
            f"another release of the code enqueued what this one cannot read: {why}. Such jobs are given back "
            "and come again, at last every half a minute, for a worker that knows them; bring this one up to date, and "
            "give new parameters a default",
        )

    def out_of_reach(self, claim: Claim, why: str) -> None:
        """This worker cannot read an artifact that the claim needs."""
        self._unreadable(
            claim,
            f"{why}. Jobs that need it are given back and come again, at last every half a minute, for a worker that "
            "has it",
        )

    def _unreadable(self, claim: Claim, why: str) -> None:
        self._mismatched.append((claim, why))
        self._on_mismatch()

    @property
    def has_mismatched(self) -> bool:
        return bool(self._mismatched)

    async def return_mismatched(self) -> None:
        """Give these back: another worker may be able to run them, such as one of another release during a deploy."""
        if not self._mismatched:
            return
        returned, self._mismatched = self._mismatched, []
        for (why, kind, queue), count in Counter((why, claim.kind, claim.queue) for claim, why in returned).items():
            if self._says(why):
                log.warning(why, kind=kind, queue=queue, jobs=count)
        try:
            await self._return_later([claim for claim, _ in returned])
        except BaseException:
            self.uncertain()  # reconcile finds them, and gives them back
            raise

    async def _return_later(self, claims: list[Claim]) -> None:
        by_delay: dict[int, list[Key]] = {}
        for claim in claims:
            by_delay.setdefault(self._delay_ms(claim.id), []).append((claim.id, claim.fence))
        for delay_ms, keys in by_delay.items():
            await self.give_back(keys, delay_ms=round(jittered(delay_ms, random.random())))

    def _delay_ms(self, job_id: str) -> int:
        now = time.monotonic()
        times, _ = self._returned.pop(job_id, (0, 0.0))
        delay_ms = min(SOON_MS << times, UNKNOWN_KIND_MS)
        while self._returned and next(iter(self._returned.values()))[1] < now - 3 * UNKNOWN_KIND_MS / 1_000:
            del self._returned[next(iter(self._returned))]  # it has not come back: another worker took it
        if len(self._returned) >= _SOON_JOBS:
            return UNKNOWN_KIND_MS
        self._returned[job_id] = (min(times + 1, 10), now)
        return delay_ms

    async def give_back(self, claims: list[Key], *, delay_ms: int = 0) -> None:
        given = await self._database.run(self._ops.release(claims, delay_ms=delay_ms))
        if given < len(claims):
            await settle_committed(self._database, claims)  # some may have been committed by their handlers
            # somebody's open transaction locks others: do not wait for it, reconcile soon instead
            self._check_at = min(self._check_at, time.monotonic() + _LOCKED_RETRY_S)

    # claims that the store has and this worker does not know of

    def uncertain(self) -> None:
        """The answer to a claim was lost: the store may have jobs running that nobody runs."""
        self._uncertain += 1

    @property
    def is_uncertain(self) -> bool:
        return self._reconciled < self._uncertain

    async def check(self) -> None:
        """Reconcile after a lost answer, and again a lease later, since its commit may come long after we stopped
        waiting for it. Now and then also without a reason."""
        uncertain = self.is_uncertain
        if uncertain or time.monotonic() >= self._check_at:
            self.uncertain()  # no settle may claim meanwhile
            self._check_at = self._next_check(1 if uncertain else _CHECK_EVERY_LEASES)
            await self.reconcile()

    def _next_check(self, leases: int) -> float:
        return time.monotonic() + jittered(leases * self._settings.lease_ms, random.random()) / 1_000

    async def reconcile(self, *, kept: Collection[Key] = ()) -> None:
        """Give back what the store has running under this worker and this worker does not know of, except `kept`."""
        uncertain, known = self._uncertain, self._known().union(kept)
        held = await self._database.run(self._ops.running(self._lease.worker_id))
        strays = [claim for claim in held if claim not in known and claim not in self._known()]
        if strays:
            if self._says("strays"):
                log.warning("gives back jobs of a claim whose answer was lost, or that were locked", jobs=len(strays))
            await self.give_back(strays)
            self._on_returned()
        self._reconciled = uncertain
