"""Fires what is due: schedules whose time has come, and triggers whose event was emitted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from headway import secrets
from headway.config import Settings
from headway.define.definitions import Definitions
from headway.define.firing import event_job, meets, schedule_job
from headway.errors import HeadwayError, StoreError
from headway.logs import get_logger
from headway.model.ids import new_id
from headway.model.schedule import Plan, plan
from headway.model.trigger import Declaration, Due, Fire, Firing, Handling, Heard, Met, NewFire, Trigger
from headway.store.ops import Op
from headway.worker.lease import Lease
from headway.worker.loop import Loop
from headway.worker.pace import spread
from headway.worker.reach import Reach

log = get_logger("headway.worker")

T = TypeVar("T", Firing, Handling)

BATCH = 100
_REASON_LIMIT = 2_000
ROUNDS = 100
"""How often it looks again at once, where there was as much as it takes at a time."""


class Firer:
    """Any worker may do it: the store lets each time and each event through once."""

    def __init__(
        self,
        reach: Reach,
        lease: Lease,
        settings: Settings,
        definitions: Definitions,
        *,
        kinds: Callable[[], Sequence[str]],
        declare: Callable[[datetime], Declaration],
        on_fired: Callable[[], None],
    ) -> None:
        self._reach = reach
        self._ops = reach.ops
        self._lease = lease
        self._settings = settings
        self._definitions = definitions
        self._kinds = kinds
        self._declare = declare
        self._on_fired = on_fired
        self._declared: tuple[str, ...] = ()
        self._one_at_a_time = asyncio.Lock()
        self._next_due_ms: int | None = None
        self.loop = Loop("firing", self._round, self._every_s)

    async def begin(self) -> None:
        """Write what the code declares, before the first claim."""
        declaration = self._declare(await self._reach.run(self._ops.now()))
        self._declared = await self._reach.run(self._ops.declare(declaration))
        if len(self._declared) < len(declaration.schedules):
            names = ", ".join(each.name for each in declaration.schedules)
            log.warning(
                "a schedule of the code has the name of a stored one, which stays as it is: give one of them another "
                "name, or delete the stored one",
                declared=names,
            )
        await self._learn()

    async def fire(self) -> int:
        """Fire all that is due now; gives how many jobs that made."""
        made = 0
        async with self._one_at_a_time:
            for _ in range(ROUNDS):
                due = await self._reach.run(self._ops.due(kinds=self._kinds(), declared=self._declared, limit=BATCH))
                self._next_due_ms = due.next_due_ms
                if due.defined_at != self._definitions.defined_at:
                    await self._learn()
                if not (due.schedules or due.events):
                    break
                fired, more = await self._fire(due)
                made += fired
                if not more:
                    break
        if made:
            self._on_fired()
        return made

    def poke(self) -> None:
        """An event was emitted in this process."""
        self.loop.poke()

    async def _round(self) -> float:
        await self.fire()
        usual_s = spread(self._every_s(), random.random())
        if self._next_due_ms is None:
            return usual_s
        apart_s = random.random() * self._settings.pace_ms / 1_000 * self._lease.workers
        return min(usual_s, self._next_due_ms / 1_000 + apart_s)

    def _every_s(self) -> float:
        return self._settings.promote_every_ms * self._lease.workers / 1_000

    async def _learn(self) -> None:
        found = await self._reach.run(self._ops.definitions(None))
        self._definitions.hear(found)

    async def _fire(self, due: Due) -> tuple[int, bool]:
        """How many jobs that made, and whether there may be more to fire at once."""
        limit = self._settings.payload_limit
        firings = [_firing(met, due.now, self._definitions, limit) for met in due.schedules]
        handlings = [_handling(heard, due.now, self._definitions, limit) for heard in due.events]
        names = {met.trigger.id: met.trigger for met in due.schedules}
        names |= {met.trigger.id: met.trigger for heard in due.events for met in heard.met}
        fires = await self._all_or_each(firings, self._ops.fire, _each_time)
        fires += await self._all_or_each(handlings, self._ops.handle, _each_alone)
        for fire in fires:
            _tell(fire, names.get(fire.trigger_id))
        more = max(len(due.schedules), len(due.events)) == BATCH or any(
            each.next_fire_at is not None and each.next_fire_at <= due.now for each in firings
        )
        return sum(fire.status == "enqueued" for fire in fires), more

    async def _all_or_each(
        self, batch: list[T], verb: Callable[[Sequence[T]], Op[list[Fire]]], split: Callable[[T], list[T]]
    ) -> list[Fire]:
        """Write the batch; where one of its jobs is refused, each alone, and that one as failed."""
        if not batch:
            return []
        try:
            return await self._reach.run(verb(batch))
        except StoreError:
            raise
        except HeadwayError:
            fires: list[Fire] = []
            for each in (part for one in batch for part in split(one)):
                try:
                    written = await self._reach.run(verb([each]))
                except StoreError:
                    raise
                except HeadwayError as error:
                    written = await self._reach.run(verb([_refused(each, str(error))]))
                fires += written
            return fires


def _firing(met: Met, now: datetime, definitions: Definitions, limit: int) -> Firing:
    trigger = met.trigger
    assert trigger.next_fire_at is not None
    try:
        planned = plan(trigger, now)
    except HeadwayError as error:
        # its row was written by hand: it stops, and says why
        fires: tuple[NewFire, ...] = (_failed(trigger.id, error, nominal_at=trigger.next_fire_at),)
        planned = Plan((), None)
    else:
        fires = tuple(_fire_at(met, time, definitions, now, limit) for time in planned.times)
    return Firing(
        trigger_id=trigger.id,
        revision=trigger.revision,
        due_at=trigger.next_fire_at,
        next_fire_at=planned.next_fire_at,
        fires=fires,
    )


def _fire_at(met: Met, nominal_at: datetime, definitions: Definitions, now: datetime, limit: int) -> NewFire:
    try:
        job = schedule_job(met, nominal_at, definitions, now=now, limit=limit)
    except HeadwayError as error:
        return _failed(met.trigger.id, error, nominal_at=nominal_at)
    return NewFire(id=new_id(), trigger_id=met.trigger.id, nominal_at=nominal_at, job=job)


def _handling(heard: Heard, now: datetime, definitions: Definitions, limit: int) -> Handling:
    fires = []
    for met in heard.met:
        try:
            if not meets(met.trigger, heard.event):
                continue
            job, dedupe_key = event_job(met, heard.event, definitions, now=now, limit=limit)
        except HeadwayError as error:
            fires.append(_failed(met.trigger.id, error))
        else:
            fires.append(NewFire(id=new_id(), trigger_id=met.trigger.id, job=job, dedupe_key=dedupe_key))
    return Handling(event_id=heard.event.id, fires=tuple(fires))


def _failed(trigger_id: str, error: HeadwayError, nominal_at: datetime | None = None) -> NewFire:
    return NewFire(id=new_id(), trigger_id=trigger_id, nominal_at=nominal_at, error=_cut(str(error)))


def _refused(one: T, reason: str) -> T:
    """The same, with nothing to enqueue."""
    fires = tuple(
        fire if fire.job is None else msgspec.structs.replace(fire, job=None, dedupe_key=None, error=_cut(reason))
        for fire in one.fires
    )
    return msgspec.structs.replace(one, fires=fires)


def _each_time(firing: Firing) -> list[Firing]:
    """One firing for each of its times."""
    parts = []
    due_at = firing.due_at
    for fire, following in zip(firing.fires, [*firing.fires[1:], None], strict=True):
        then = firing.next_fire_at if following is None else following.nominal_at
        parts.append(msgspec.structs.replace(firing, due_at=due_at, next_fire_at=then, fires=(fire,)))
        due_at = then or due_at
    return parts or [firing]


def _each_alone(handling: Handling) -> list[Handling]:
    return [handling]


def _cut(reason: str) -> str:
    """What is kept of an error, which may quote what an event holds."""
    text = secrets.redact_head(reason, _REASON_LIMIT)
    return text if len(text) < _REASON_LIMIT else text + " …"


def _tell(fire: Fire, trigger: Trigger | None) -> None:
    said = {
        ("schedule" if fire.event_id is None else "trigger"): trigger.name if trigger else fire.trigger_id,
        "tenant_id": fire.tenant_id,
        "job_id": fire.job_id,
        "event_id": fire.event_id,
        "nominal_at": None if fire.nominal_at is None else fire.nominal_at.isoformat(),
        "error": fire.error,
    }
    said = {name: value for name, value in said.items() if value is not None}
    if fire.status == "failed":
        log.warning("a fire made no job", **said)
    else:
        log.info(_SAID[fire.status], **said)


_SAID = {
    "enqueued": "fired",
    "skipped": "not fired: the job before is not over",
    "deduped": "not fired: the same was enqueued a moment ago",
}
