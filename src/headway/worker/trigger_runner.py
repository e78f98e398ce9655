"""Fires what is due: schedules whose time has come, and triggers whose event was emitted."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from headway import secrets
from headway.config import Settings
from headway.define.definitions import Definitions
from headway.define.trigger_jobs import event_job, meets, schedule_job
from headway.errors import (
    HeadwayError,
    RenderError,
    SchemaMissing,
    SchemaOutdated,
    StoreBusy,
    StoreUnavailable,
)
from headway.logs import get_logger
from headway.model.ids import new_id
from headway.model.schedule import CATCH_UP, Plan, plan
from headway.model.trigger import (
    Declaration,
    Due,
    Fire,
    Firing,
    Handling,
    NewFire,
    PendingEvent,
    ResolvedTrigger,
    Trigger,
)
from headway.store.ops import Op
from headway.worker.database import Database
from headway.worker.error_text import storable
from headway.worker.intervals import jittered
from headway.worker.lease import Lease
from headway.worker.loop import Loop

log = get_logger("headway.worker")

T = TypeVar("T", Firing, Handling)

BATCH = 100
FIRES = 1_000
"""How many fires one round makes at most: what is to be caught up on may be much, and comes in portions."""
AGAIN_S = 1.0
"""When it looks again at what somebody held."""
IDLE = 2
"""How much less often it looks where it found nothing: the fleet's queries are counted."""
LEFT_FOR = timedelta(minutes=10)
"""For how long an event waits for a worker that knows the kind of a trigger on it."""
_REASON_LIMIT = 2_000


class TriggerRunner:
    """Any worker may do it: the store lets each time and each event through once."""

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
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._lease = lease
        self._settings = settings
        self._definitions = definitions
        self._kinds = kinds
        self._declare = declare
        self._on_fired = on_fired
        self._declared: tuple[str, ...] = ()
        self._one_at_a_time = asyncio.Lock()
        self._next_due_ms: int | None = None
        self._found = False  # the last look found something
        self._poked = False
        self.loop = Loop("firing", self._round, self._every_s)

    async def begin(self) -> None:
        """Write what the code declares, before the first claim."""
        declaration = self._declare(await self._database.run(self._ops.now()))
        self._declared = await self._database.run(self._ops.declare(declaration))
        if len(self._declared) < len(declaration.schedules):
            names = ", ".join(each.name for each in declaration.schedules)
            log.warning(
                "a schedule of the code has the name of a stored one, which stays as it is: give one of them another "
                "name, or delete the stored one",
                declared=names,
            )
        await self._learn()
        # a fleet that starts together must not look together ever after
        first_s = 0.0 if self._poked else random.random() * self._every_s()
        self.loop = Loop("firing", self._round, self._every_s, first_s=first_s)

    async def fire(self) -> int:
        """Fire all that is due now; gives how many jobs that made."""
        made = 0
        looked: list[object] = []
        async with self._one_at_a_time:
            while True:
                due = await self._database.run(self._ops.due(kinds=self._kinds(), declared=self._declared, limit=BATCH))
                self._next_due_ms = due.next_due_ms
                self._found = bool(due.schedules or due.events)
                if due.defined != self._definitions.heard:
                    await self._learn()
                if not self._found:
                    break
                before, looked = looked, _what(due)
                if looked == before:
                    self._next_due_ms = int(AGAIN_S * 1_000)  # others are at it, or hold what it needs
                    break
                fires, more = await self._fire(due)
                made += sum(fire.status == "enqueued" for fire in fires)
                if not more:
                    break
        if made:
            self._on_fired()
        return made

    def poke(self) -> None:
        """An event was emitted in this process."""
        self._poked = True
        self.loop.poke()

    async def _round(self) -> float:
        await self.fire()
        usual_s = jittered(self._every_s(), random.random())
        if self._next_due_ms is None:
            return usual_s
        apart_s = random.random() * self._settings.pace_ms / 1_000 * self._lease.workers
        return min(usual_s, self._next_due_ms / 1_000 + apart_s)

    def _every_s(self) -> float:
        # when a schedule is due is known: only events of other processes are looked for
        seconds = self._settings.promote_every_ms * self._lease.workers / 1_000
        return seconds if self._found else IDLE * seconds

    async def _learn(self) -> None:
        found = await self._database.run(self._ops.definitions(None))
        self._definitions.hear(found)

    async def _fire(self, due: Due) -> tuple[list[Fire], bool]:
        """What was written, and whether there may be more to fire at once."""
        firings, handlings = await self._planned(due)
        triggers = {resolved.trigger.id: resolved.trigger for resolved in due.schedules}
        triggers |= {resolved.trigger.id: resolved.trigger for pending in due.events for resolved in pending.triggers}
        fires = await self._all_or_each(firings, self._ops.fire, _each_time)
        fires += await self._all_or_each(handlings, self._ops.handle, _each_fire)
        for fire in fires:
            _tell(fire, triggers.get(fire.trigger_id))
        more = (
            _is_cut([resolved.trigger.tenant_id for resolved in due.schedules])
            or _is_cut([pending.event.tenant_id for pending in due.events])
            or len(firings) < len(due.schedules)
            or any(each.next_fire_at is not None and each.next_fire_at <= due.now for each in firings)
        )
        return fires, more

    async def _planned(self, due: Due) -> tuple[list[Firing], list[Handling]]:
        limit = self._settings.payload_limit
        room = FIRES
        firings: list[Firing] = []
        for place, resolved in enumerate(due.schedules):
            if room <= 0:
                break  # the next round has them
            # one that catches up leaves the others their part
            share = max(1, room // (len(due.schedules) - place))
            firing = _firing(resolved, due.now, self._definitions, limit, share)
            room -= max(1, len(firing.fires))
            firings.append(firing)
            await asyncio.sleep(0)  # jobs here go on meanwhile
        handlings: list[Handling] = []
        for pending in due.events:
            handlings.append(_handling(pending, due.now, self._definitions, limit))
            await asyncio.sleep(0)
        return firings, handlings

    async def _all_or_each(
        self, batch: list[T], verb: Callable[[Sequence[T]], Op[list[Fire]]], split: Callable[[T], list[T]]
    ) -> list[Fire]:
        """Write the batch; where one of its jobs is refused, each alone, and that one as failed. What waits for
        somebody's transaction is left for later."""
        if not batch:
            return []
        try:
            return await self._database.run(verb(batch))
        except HeadwayError as error:
            if _is_away(error):
                raise
        fires: list[Fire] = []
        for one in batch:
            for part in split(one):
                try:
                    fires += await self._one(part, verb)
                except StoreBusy:
                    break  # the parts that follow build on it
        return fires

    async def _one(self, part: T, verb: Callable[[Sequence[T]], Op[list[Fire]]]) -> list[Fire]:
        try:
            return await self._database.run(verb([part]))
        except HeadwayError as error:
            if _is_away(error) or isinstance(error, StoreBusy):
                raise
            return await self._database.run(verb([_refused(part, error)]))


def _is_cut(tenants: Sequence[str]) -> bool:
    """Whether a look may have left something: tenants share it, and one of them got all of its part."""
    counts = Counter(tenants)
    return bool(counts) and max(counts.values()) * len(counts) >= BATCH


def _what(due: Due) -> list[object]:
    """What is to be fired, to see whether the next look finds the same."""
    schedules = [(resolved.trigger.id, resolved.trigger.next_fire_at) for resolved in due.schedules]
    return [*schedules, *(pending.event.id for pending in due.events)]


def _is_away(error: HeadwayError) -> bool:
    """Whether it is the database, and nothing that was asked of it."""
    return isinstance(error, StoreUnavailable | SchemaMissing | SchemaOutdated) and not isinstance(error, StoreBusy)


# whatever is wrong with one row, wherever it came from, is written down, and must not stop the others: hence Exception


def _firing(resolved: ResolvedTrigger, now: datetime, definitions: Definitions, limit: int, most: int) -> Firing:
    trigger = resolved.trigger
    assert trigger.next_fire_at is not None
    try:
        planned = plan(trigger, now, most)
    except Exception as error:
        # its row was written by hand: it stops, and says why
        fires: tuple[NewFire, ...] = (_failed(trigger.id, error, nominal_at=trigger.next_fire_at),)
        planned = Plan((), None)
    else:
        before = (trigger.last_fired_at, *planned.times)
        skipped: tuple[NewFire, ...] = ()
        if planned.skipped_from is not None and planned.skipped_until is not None:
            skipped = (_skipped(trigger.id, planned.skipped_from, planned.skipped_until),)
        fires = (
            *skipped,
            *(
                _fire_at(resolved, time, last, definitions, now, limit)
                for time, last in zip(planned.times, before, strict=False)
            ),
        )
    return Firing(
        trigger_id=trigger.id,
        revision=trigger.revision,
        due_at=trigger.next_fire_at,
        next_fire_at=planned.next_fire_at,
        fires=fires,
    )


def _skipped(trigger_id: str, first: datetime, until: datetime) -> NewFire:
    """One fire that stands for all the times that are too many to catch up on."""
    reason = (
        f"skipped: all times from {first.isoformat()} to before {until.isoformat()}; a schedule catches up on its last "
        f"{CATCH_UP:,} times"
    )
    return NewFire(id=new_id(), trigger_id=trigger_id, nominal_at=first, error=reason, skipped=True)


def _fire_at(
    resolved: ResolvedTrigger,
    nominal_at: datetime,
    last: datetime | None,
    definitions: Definitions,
    now: datetime,
    limit: int,
) -> NewFire:
    try:
        resolved = msgspec.structs.replace(
            resolved, trigger=msgspec.structs.replace(resolved.trigger, last_fired_at=last)
        )
        job = schedule_job(resolved, nominal_at, definitions, now=now, limit=limit)
    except Exception as error:
        return _failed(resolved.trigger.id, error, nominal_at=nominal_at)
    return NewFire(id=new_id(), trigger_id=resolved.trigger.id, nominal_at=nominal_at, job=job)


def _handling(pending: PendingEvent, now: datetime, definitions: Definitions, limit: int) -> Handling:
    """A fire for each trigger that wants the event; one whose kind only others know is left to them."""
    fires: list[NewFire] = []
    unwanted: list[NewFire] = []
    left = False
    late = now - pending.event.emitted_at >= LEFT_FOR
    for resolved in pending.triggers:
        trigger = resolved.trigger
        try:
            if pending.fault is not None:
                raise RenderError(pending.fault)
            if not meets(trigger, pending.event):
                unwanted.append(NewFire(id=new_id(), trigger_id=trigger.id))
            elif resolved.computed and not late:
                left = True
            else:
                job, dedupe_key = event_job(resolved, pending.event, definitions, now=now, limit=limit)
                fires.append(NewFire(id=new_id(), trigger_id=trigger.id, job=job, dedupe_key=dedupe_key))
        except Exception as error:
            fires.append(_failed(trigger.id, error))
    # that one does not want it is worth a row only where the event is looked at again
    return Handling(event_id=pending.event.id, fires=(*fires, *unwanted) if left else tuple(fires), left=left)


def _failed(trigger_id: str, error: Exception, nominal_at: datetime | None = None) -> NewFire:
    return NewFire(id=new_id(), trigger_id=trigger_id, nominal_at=nominal_at, error=reason_of(error))


def _refused(one: T, error: HeadwayError) -> T:
    """The same, with nothing to enqueue."""
    reason = reason_of(error)
    fires = tuple(
        fire if fire.job is None else msgspec.structs.replace(fire, job=None, dedupe_key=None, error=reason)
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


def _each_fire(handling: Handling) -> list[Handling]:
    """One handling for each of its fires, of which only the last ends the event."""
    if len(handling.fires) < 2:
        return [handling]
    parts = [msgspec.structs.replace(handling, fires=(fire,), left=True) for fire in handling.fires]
    return [*parts, msgspec.structs.replace(handling, fires=())]


def reason_of(error: Exception) -> str:
    """What is kept of an error, which may quote what an event holds."""
    text = str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"
    text = storable(secrets.redact_head(text, _REASON_LIMIT, secrets.own()))
    return text if len(text) < _REASON_LIMIT else text + " …"


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
        log.warning("a fire made no job", **said)
    elif fire.status == "skipped" and fire.error is not None:
        log.warning("a schedule is too far behind to catch up on all", **said)
    elif fire.status != "skipped" or fire.event_id is None:
        log.info(_SAID[fire.status], **said)


_SAID = {
    "enqueued": "fired",
    "skipped": "not fired: the job before is not over",
    "deduped": "not fired: that job is there already",
}
