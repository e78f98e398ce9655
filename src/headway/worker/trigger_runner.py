"""Fires what is due: schedules whose time has come, and triggers whose event was emitted."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from headway.config import Settings
from headway.define.definitions import Definitions
from headway.errors import (
    HeadwayError,
    SchemaMissing,
    SchemaOutdated,
    StoreBusy,
    StoreUnavailable,
)
from headway.logs import get_logger
from headway.model.trigger import (
    MADE,
    Declaration,
    Due,
    Fire,
    Firing,
    Handling,
    Trigger,
)
from headway.store.ops import Op
from headway.worker.database import Database
from headway.worker.intervals import jittered
from headway.worker.lease import Lease
from headway.worker.loop import Loop
from headway.worker.trigger_plans import (
    each_fire,
    each_time,
    plan_firing,
    plan_handling,
    refused,
    size_of,
    size_of_payload,
)

log = get_logger("headway.worker")

T = TypeVar("T", Firing, Handling)

BATCH = 100
FIRES = 1_000
"""The most fires of one round: a schedule may have much to catch up on."""
FIRED_BYTES = 2**20
"""The most that the payloads of one round are together, but for its last: few events can become very many bytes, and on
SQLite everybody waits while they are written."""
LOCKED_RETRY_S = 1.0
"""The pause before rows that somebody had locked are tried again."""
QUICK_S = 0.02
"""A round that takes longer is slow, and is followed by a rest where the process has more to do than fire."""
LONGEST_REST_S = 5.0
IDLE_FACTOR = 2
"""How many times longer it waits after a round that found nothing: an idle fleet should cost few queries."""


class TriggerRunner:
    """Any worker may do it: the store accepts each nominal time and each event once."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        settings: Settings,
        definitions: Definitions,
        *,
        kinds: Callable[[], Sequence[str]],
        declare: Callable[[datetime], Declaration],
        on_fired: Callable[[], None],
        rest: float = 0.0,
    ) -> None:
        """`rest`: after a slow round it pauses for so many times as long as that took: one tenant's events can be much
        work, and others use the process, too."""
        self._database = database
        self._ops = database.ops
        self._lease = lease
        self._settings = settings
        self._definitions = definitions
        self._kinds = kinds
        self._declare = declare
        self._on_fired = on_fired
        self._rest = rest
        self._declared: tuple[str, ...] = ()
        self._is_undeclared = False  # what the code declares could not be written yet
        self._one_at_a_time = asyncio.Lock()
        self._next_due_ms: int | None = None
        self._found = False  # the last round found something
        self._poked = False
        self.loop = Loop("firing", self._round, self._every_s)

    async def begin(self) -> None:
        """Write what the code declares, before the first claim."""
        await self._write_declaration()
        await self._learn()
        # so that workers that started together do not query together
        first_s = 0.0 if self._poked else random.random() * self._every_s()
        self.loop = Loop("firing", self._round, self._every_s, first_s=first_s)

    async def fire(self) -> int:
        """Fire all that is due now; gives how many jobs it enqueued."""
        made = 0
        looked: list[object] = []
        async with self._one_at_a_time:
            while True:
                began = time.monotonic()
                kinds = [*self._kinds(), *self._definitions.rendered]
                due = await self._database.run(self._ops.due(kinds=kinds, declared=self._declared, limit=BATCH))
                self._next_due_ms = due.next_due_ms
                self._found = bool(due.schedules or due.events)
                if due.defined != self._definitions.fingerprint:
                    await self._learn()
                if not self._found:
                    break
                before, looked = looked, _identity(due)
                if looked == before:
                    self._next_due_ms = int(
                        LOCKED_RETRY_S * 1_000
                    )  # other workers fire the same, or somebody locks the rows
                    break
                fires, more = await self._fire(due)
                made += sum(fire.status in MADE for fire in fires)
                if not more:
                    break
                took_s = time.monotonic() - began
                if self._rest and took_s > QUICK_S:
                    await asyncio.sleep(min(took_s * self._rest, LONGEST_REST_S))
        if made:
            self._on_fired()
        return made

    def poke(self) -> None:
        """An event was emitted in this process."""
        self._poked = True
        self.loop.poke()

    async def _round(self) -> float:
        if self._is_undeclared:
            await self._write_declaration()
        await self.fire()
        usual_s = jittered(self._every_s(), random.random())
        if self._next_due_ms is None:
            return usual_s
        apart_s = random.random() * self._settings.pace_ms / 1_000 * self._lease.workers
        return min(usual_s, self._next_due_ms / 1_000 + apart_s)

    def _every_s(self) -> float:
        # the next schedule's time is known; only events of other processes must be polled for
        seconds = self._settings.promote_every_ms * self._lease.workers / 1_000
        return seconds if self._found else IDLE_FACTOR * seconds

    async def _write_declaration(self) -> None:
        declaration = self._declare(await self._database.run(self._ops.now()))
        try:
            self._declared = await self._database.run(self._ops.declare(declaration))
        except StoreBusy as error:
            if not self._is_undeclared:
                log.warning(
                    "somebody's open transaction has a definition or a schedule of the code: the worker starts, and "
                    "writes what the code declares when that transaction ends",
                    error=str(error),
                )
            self._is_undeclared = True
            return
        self._is_undeclared = False
        if len(self._declared) < len(declaration.schedules):
            names = ", ".join(each.name for each in declaration.schedules)
            log.warning(
                "a schedule in the code has the name of a stored one, which stays as it is: rename one of them, or "
                "delete the stored one",
                declared=names,
            )

    async def _learn(self) -> None:
        found = await self._database.run(self._ops.definitions(None))
        self._definitions.replace(found)

    async def _fire(self, due: Due) -> tuple[list[Fire], bool]:
        """What was written, and whether there may be more to fire right now."""
        # in a thread: templates and events of a megabyte each take a while to render
        firings, handlings, is_full = await asyncio.to_thread(self._plan, due)
        triggers = {resolved.trigger.id: resolved.trigger for resolved in due.schedules}
        triggers |= {resolved.trigger.id: resolved.trigger for pending in due.events for resolved in pending.triggers}
        emitters = {pending.event.id: pending.event.tenant_id for pending in due.events}
        fires = await self._write(firings, self._ops.fire, each_time, lambda one: triggers[one.trigger_id].tenant_id)
        fires += await self._write(handlings, self._ops.handle, each_fire, lambda one: emitters[one.event_id])
        for fire in fires:
            _tell(fire, triggers.get(fire.trigger_id))
        more = (
            _is_cut([resolved.trigger.tenant_id for resolved in due.schedules])
            or _is_cut([pending.event.tenant_id for pending in due.events])
            or len(firings) < len(due.schedules)
            or is_full
            or due.more
            or any(each.next_fire_at is not None and each.next_fire_at <= due.now for each in firings)
        )
        return fires, more

    def _plan(self, due: Due) -> tuple[list[Firing], list[Handling], bool]:
        """What to write now, and whether some is left for the next round because this one has enough."""
        limit = self._settings.payload_limit
        room, bytes_left = FIRES, FIRED_BYTES
        firings: list[Firing] = []
        for index, resolved in enumerate(due.schedules):
            if room <= 0 or bytes_left <= 0:
                break
            # a schedule that catches up leaves the others their share
            share = max(1, min(room // (len(due.schedules) - index), bytes_left // size_of_payload(resolved)))
            firing = plan_firing(resolved, due.now, self._definitions, limit, share)
            room -= max(1, len(firing.fires))
            bytes_left -= sum(map(size_of, firing.fires))
            firings.append(firing)
        handlings: list[Handling] = []
        for pending in due.events:
            if bytes_left <= 0:
                return firings, handlings, True
            handling, bytes_left = plan_handling(pending, due.now, self._definitions, limit, bytes_left)
            handlings.append(handling)
        return firings, handlings, bytes_left <= 0

    async def _write(
        self,
        batch: list[T],
        verb: Callable[[Sequence[T]], Op[list[Fire]]],
        split: Callable[[T], list[T]],
        tenant: Callable[[T], str],
    ) -> list[Fire]:
        """Write the batch. If the store refuses one of its jobs, or somebody has locked something, write each tenant's
        part alone, and then each of those in which it is."""
        fires = await self._all_at_once(batch, verb)
        if fires is not None:
            return fires
        fires = []
        tenants: dict[str, list[T]] = {}
        for one in batch:
            tenants.setdefault(tenant(one), []).append(one)
        refused_parts = []
        for part in tenants.values():
            written = await self._all_at_once(part, verb) if len(tenants) > 1 else None
            if written is None:
                refused_parts += part
            else:
                fires += written
        for one in refused_parts:
            fires += await self._each(split(one), verb)
        return fires

    async def _all_at_once(self, batch: list[T], verb: Callable[[Sequence[T]], Op[list[Fire]]]) -> list[Fire] | None:
        """None if nothing was written, because of one of them."""
        if not batch:
            return []
        try:
            return await self._database.run(verb(batch))
        except HeadwayError as error:
            if _is_away(error):
                raise
            return None

    async def _each(self, parts: list[T], verb: Callable[[Sequence[T]], Op[list[Fire]]]) -> list[Fire]:
        """Write these one by one: one that the store refuses as failed. What somebody has locked is left for later."""
        fires: list[Fire] = []
        is_left = False
        for part in parts:
            if is_left and not part.fires:
                break  # this one would say that the event was handled
            try:
                fires += await self._one(part, verb)
            except StoreBusy:
                is_left = True
                if isinstance(part, Firing):
                    break  # the next times come after it
        return fires

    async def _one(self, part: T, verb: Callable[[Sequence[T]], Op[list[Fire]]]) -> list[Fire]:
        try:
            return await self._database.run(verb([part]))
        except HeadwayError as error:
            if _is_away(error) or isinstance(error, StoreBusy):
                raise
            return await self._database.run(verb([refused(part, error)]))


def _is_cut(tenants: Sequence[str]) -> bool:
    """Whether there may be more: tenants share the limit, and one of them used up its share."""
    counts = Counter(tenants)
    return bool(counts) and max(counts.values()) * len(counts) >= BATCH


def _identity(due: Due) -> list[object]:
    """Identifies what is due, to notice that the next round finds the same."""
    schedules = [(resolved.trigger.id, resolved.trigger.next_fire_at) for resolved in due.schedules]
    return [*schedules, *(pending.event.id for pending in due.events)]


def _is_away(error: HeadwayError) -> bool:
    """Whether the database is at fault, and not what was written."""
    return isinstance(error, StoreUnavailable | SchemaMissing | SchemaOutdated) and not isinstance(error, StoreBusy)


def _tell(fire: Fire, trigger: Trigger | None) -> None:
    said = {
        ("schedule" if fire.event_id is None else "trigger"): trigger.name if trigger else fire.trigger_id,
        "tenant": trigger.tenant if trigger else None,
        "tenant_id": fire.tenant_id,
        "job_id": fire.job_id,
        "event_id": fire.event_id,
        "nominal_at": None if fire.nominal_at is None else fire.nominal_at.isoformat(),
        "error": fire.error,
    }
    said = {name: value for name, value in said.items() if value is not None}
    if fire.status == "failed":
        log.warning("a fire enqueued no job", **said)
    elif fire.status == "undelivered":
        log.warning("a signal was not sent: no machine is there to receive it", **said)
    elif fire.status == "skipped" and fire.error is not None:
        log.warning("a schedule is too far behind to catch up on all", **said)
    elif fire.status != "skipped" or fire.event_id is None:
        log.info(_SAID[fire.status], **said)


_SAID = {
    "enqueued": "fired",
    "signaled": "sent a signal",
    "skipped": "not fired: its last job has not ended",
    "deduped": "not fired: the same job exists already",
}
