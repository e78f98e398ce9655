"""Fires: schedules and events fire their triggers; fires and their jobs are written in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from headway.clock import from_micros, to_micros
from headway.errors import NotAllowed, NotFound
from headway.model import refusals
from headway.model.checks import check_fires, check_firings
from headway.model.signal import NewSignal
from headway.model.trigger import MADE, Fire, FireStatus, Firing, Handling, NewFire
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_fire
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.enqueue import enqueue_jobs
from headway.store.sqlite.machines.signals import send_signals

_SQL = statements("triggers/fires")
_AFTER_EVERY_ID = "g"


class _Firer(msgspec.Struct, frozen=True, array_like=True):
    """What firing needs to know of a trigger."""

    id: str
    tenant_id: str
    name: str
    enabled: int
    revision: int
    next_fire_at: int | None
    overlap: str
    dedupe_window_ms: int
    type: str

    def meant_by(self, firing: Firing) -> bool:
        """Whether the trigger is still as it was when the firing was planned."""
        planned = (firing.revision, to_micros(firing.due_at))
        return bool(self.enabled) and (self.revision, self.next_fire_at) == planned


class FireVerbs(Verbs):
    def fire(self, firings: Sequence[Firing]) -> Op[list[Fire]]:
        def steps() -> Steps[list[Fire]]:
            check_firings(firings)
            now = self._clock.now()
            triggers = yield from _triggers(firing.trigger_id for firing in firings)
            written: list[Fire] = []
            for firing in firings:
                trigger = triggers.pop(firing.trigger_id, None)
                if trigger is None or not trigger.meant_by(firing):
                    continue
                fires = yield from _not_taken(firing.fires, trigger)
                if trigger.overlap == "skip":
                    for fire in fires:
                        written += yield from _fire_alone(fire, trigger, now)
                else:
                    written += yield from _fire(fires, trigger, now)
                due_at = None if firing.next_fire_at is None else to_micros(firing.next_fire_at)
                yield Statement(_SQL["set_due"], (trigger.id, due_at))
            return written

        return SqliteOp(steps, writes=True)

    def run_trigger(self, fire: NewFire, *, tenant_id: str | None, actor: str | None) -> Op[Fire | None]:
        def steps() -> Steps[Fire | None]:
            check_fires([fire])
            now = self._clock.now()
            trigger = (yield from _triggers([fire.trigger_id])).get(fire.trigger_id)
            if trigger is None or tenant_id not in (None, trigger.tenant_id):
                return None
            rows = yield Statement(_SQL["read"], (fire.id,))
            if rows:
                return to_fire(rows[0])
            (written,) = yield from _fire([fire], trigger, now)
            yield record(now, trigger.tenant_id, None, actor, "trigger.run", trigger.name)
            return written

        return SqliteOp(steps, writes=True)

    def backfill(
        self, trigger_id: str, fires: Sequence[NewFire], *, tenant_id: str | None, actor: str | None
    ) -> Op[list[Fire] | None]:
        def steps() -> Steps[list[Fire] | None]:
            now = self._clock.now()
            trigger = (yield from _triggers([trigger_id])).get(trigger_id)
            if trigger is None or trigger.type != "schedule" or tenant_id not in (None, trigger.tenant_id):
                return None
            if any(fire.nominal_at is None or to_micros(fire.nominal_at) > now for fire in fires):
                raise refusals.backfill_time_to_come()
            free = yield from _not_taken(fires, trigger)
            jobs = [fire.job for fire in free if fire.job is not None]
            if not jobs:
                return []
            made = yield from enqueue_jobs(jobs, None, now)
            written: list[Fire] = []
            for fire, job in zip(free, made, strict=True):
                status: FireStatus = "enqueued" if job.created else "deduped"
                written.append((yield from _put(fire, trigger, now, status, job.id)))
            detail = f"{trigger.name}: {len(written)} from {_shown(written[0])} to {_shown(written[-1])}"
            yield record(now, trigger.tenant_id, None, actor, "trigger.backfilled", detail)
            return written

        return SqliteOp(steps, writes=True)

    def fired_times(self, trigger_id: str, times: Sequence[datetime]) -> Op[list[datetime]]:
        def steps() -> Steps[list[datetime]]:
            rows = yield Statement(_SQL["taken"], (trigger_id, json_list([to_micros(time) for time in times])))
            return sorted(from_micros(at) for (at,) in rows)

        return SqliteOp(steps, writes=False)

    def handle(self, handlings: Sequence[Handling]) -> Op[list[Fire]]:
        def steps() -> Steps[list[Fire]]:
            now = self._clock.now()
            ids = json_list([handling.event_id for handling in handlings])
            pending: dict[str, str] = dict((yield Statement(_SQL["pending"], (ids,))))
            fired = {(event_id, trigger_id) for event_id, trigger_id in (yield Statement(_SQL["of_events"], (ids,)))}
            triggers = yield from _triggers(fire.trigger_id for handling in handlings for fire in handling.fires)
            written: list[Fire] = []
            for handling in handlings:
                tenant_id = pending.pop(handling.event_id, None)
                if tenant_id is None:
                    continue
                for fire in handling.fires:
                    trigger = triggers.get(fire.trigger_id)
                    if trigger is None or not trigger.enabled or trigger.tenant_id != tenant_id:
                        continue
                    if (handling.event_id, trigger.id) in fired:
                        continue
                    fired.add((handling.event_id, trigger.id))
                    written.append((yield from _fire_once(fire, trigger, handling.event_id, now)))
                if not handling.left:
                    yield from _end(handling.event_id, now)
            return written

        return SqliteOp(steps, writes=True)

    def prune_fires(self, *, events_ms: int, failed_ms: int, fires_ms: int, limit: int) -> Op[int]:
        def times() -> tuple[int, ...]:
            now = self._clock.now()
            return tuple(now - older * 1000 for older in (events_ms, failed_ms, fires_ms))

        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["prune_probe"], times())
            return None if found else 0

        def steps() -> Steps[int]:
            handled, failed, fired = times()
            events = yield Statement(_SQL["prune_events"], ("handled", handled, limit))
            events += yield Statement(_SQL["prune_events"], ("failed", failed, limit))
            if events:
                yield Batch(_SQL["prune_of_events"], events)
            fires = yield Statement(_SQL["prune"], (fired, limit))
            return len(events) + len(fires)

        return SqliteOp(steps, writes=True, probe=probe)

    def fires(
        self,
        *,
        tenant_id: str | None,
        trigger_id: str | None,
        event_id: str | None,
        limit: int,
        before: str | None,
    ) -> Op[list[Fire]]:
        def steps() -> Steps[list[Fire]]:
            page = (before or _AFTER_EVERY_ID, tenant_id, limit)
            if trigger_id is not None:
                rows = yield Statement(_SQL["page_of_trigger"], (*page, trigger_id, event_id))
            elif event_id is not None:
                rows = yield Statement(_SQL["page_of_event"], (*page, event_id))
            else:
                rows = yield Statement(_SQL["page"], page)
            return [to_fire(row) for row in rows]

        return SqliteOp(steps, writes=False)


def _end(event_id: str, now: int) -> Steps[None]:
    """End an event: failed if one of its fires failed."""
    rows = yield Statement(_SQL["errors"], (event_id,))
    errors = "\n".join(f"{name}: {error}" for name, error in rows)
    yield Statement(_SQL["handled"], (event_id, "failed" if rows else "handled", now, errors if rows else None))


def _triggers(ids: Iterable[str]) -> Steps[dict[str, _Firer]]:
    rows = yield Statement(_SQL["triggers"], (json_list(sorted(set(ids))),))
    return {row[0]: _Firer(*row) for row in rows}


def _not_taken(fires: Sequence[NewFire], trigger: _Firer) -> Steps[list[NewFire]]:
    """Those whose nominal time the trigger has not fired for, one for each time."""
    times = [to_micros(fire.nominal_at) for fire in fires if fire.nominal_at is not None]
    taken = {at for (at,) in (yield Statement(_SQL["taken"], (trigger.id, json_list(times))))}
    found: list[NewFire] = []
    for fire in fires:
        if fire.nominal_at is not None:
            at = to_micros(fire.nominal_at)
            if at in taken:
                continue
            taken.add(at)
        found.append(fire)
    return found


def _fire_alone(fire: NewFire, trigger: _Firer, now: int) -> Steps[list[Fire]]:
    """Fire, unless a job of the trigger is unfinished."""
    if fire.job is not None:
        rows = yield Statement(_SQL["unfinished"], (trigger.id,))
        if rows:
            return [(yield from _write(fire, trigger, now, "skipped", rows[0][0]))]
    return (yield from _fire([fire], trigger, now))


def _fire_once(fire: NewFire, trigger: _Firer, event_id: str, now: int) -> Steps[Fire]:
    """Fire for an event, unless the trigger skips it or made a job by the same dedupe key within its window."""
    if fire.signal is not None:
        return (yield from _send(fire, fire.signal, trigger, event_id, now))
    if fire.job is None and fire.error is None:
        return (yield from _write(fire, trigger, now, "skipped", None, event_id=event_id))
    if fire.job is not None and fire.dedupe_key is not None:
        since = now - trigger.dedupe_window_ms * 1000
        rows = yield Statement(_SQL["deduped"], (trigger.id, fire.dedupe_key, since))
        if rows:
            return (yield from _write(fire, trigger, now, "deduped", rows[0][0], event_id=event_id))
    (written,) = yield from _fire([fire], trigger, now, event_id)
    return written


def _send(fire: NewFire, signal: NewSignal, trigger: _Firer, event_id: str, now: int) -> Steps[Fire]:
    """Send the signal of an event. If there is no machine to get it, the fire says so, and the event does not fail."""
    try:
        (sent,) = yield from send_signals([signal], now)
    except (NotFound, NotAllowed) as error:
        noted = msgspec.structs.replace(fire, error=str(error))
        return (yield from _write(noted, trigger, now, "undelivered", None, event_id=event_id))
    status: FireStatus = "signaled" if sent.created else "deduped"
    return (yield from _write(fire, trigger, now, status, sent.job_id, event_id=event_id))


def _fire(fires: Sequence[NewFire], trigger: _Firer, now: int, event_id: str | None = None) -> Steps[list[Fire]]:
    """Enqueue the jobs of these fires and write them; raises what an enqueue raises."""
    jobs = [fire.job for fire in fires if fire.job is not None]
    made = iter((yield from enqueue_jobs(jobs, None, now)) if jobs else [])
    written: list[Fire] = []
    for fire in fires:
        if fire.job is None:
            without: FireStatus = "skipped" if fire.skipped else "failed"
            written.append((yield from _write(fire, trigger, now, without, None, event_id=event_id)))
        else:
            job = next(made)
            status: FireStatus = "enqueued" if job.created else "deduped"
            written.append((yield from _write(fire, trigger, now, status, job.id, event_id=event_id)))
    return written


def _write(
    fire: NewFire, trigger: _Firer, now: int, status: FireStatus, job_id: str | None, *, event_id: str | None = None
) -> Steps[Fire]:
    written = yield from _put(fire, trigger, now, status, job_id, event_id=event_id)
    if status in MADE:
        at = now if fire.nominal_at is None else to_micros(fire.nominal_at)
        yield Statement(_SQL["note_made"], (trigger.id, at, job_id))
    elif status == "failed":
        yield Statement(_SQL["note_failed"], (trigger.id, written.error))
    return written


def _put(
    fire: NewFire, trigger: _Firer, now: int, status: FireStatus, job_id: str | None, *, event_id: str | None = None
) -> Steps[Fire]:
    nominal = None if fire.nominal_at is None else to_micros(fire.nominal_at)
    error = fire.error if status in ("failed", "undelivered") or fire.skipped else None
    row = (fire.id, trigger.id, trigger.tenant_id, nominal, event_id, now, status, job_id, error)
    yield Statement(_SQL["put"], (*row, fire.dedupe_key))
    return to_fire(row)


def _shown(fire: Fire) -> str:
    assert fire.nominal_at is not None
    return fire.nominal_at.strftime("%Y-%m-%dT%H:%M:%SZ")
