"""Fires: schedules and events fire their triggers; fires and their jobs are written in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from headway.model.checks import check_fires, check_firings, check_signals
from headway.model.job import NewJob
from headway.model.signal import NewSignal
from headway.model.status import UNFINISHED
from headway.model.trigger import Fire, FireStatus, Firing, Handling, NewFire
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.decode import plain
from headway.store.postgres.engine.verbs import call, first, read
from headway.store.postgres.jobs.enqueue import enqueue

T = TypeVar("T")

_BEGIN_FIRES = (
    "select trigger_id, ordinal, busy_id, skips"
    " from headway.begin_fires($1::uuid[], $2::integer[], $3::timestamptz[], $4::uuid[], $5::timestamptz[])"
)
_BEGIN_HANDLING = (
    "select event_id, ordinal, same_id, dedupes"
    " from headway.begin_handling($1::uuid[], $2::uuid[], $3::uuid[], $4::text[])"
)
_RECORD = (
    "select * from headway.record_fires($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::text[],"
    " $6::timestamptz[], $7::uuid[], $8::text[], $9::uuid[], $10::timestamptz[], $11::uuid[])"
)
_SIGNAL_EACH = (
    "select ordinal, job_id, created, error from headway.signal_each($1::uuid[], $2::text[], $3::json[], $4::uuid[],"
    " $5::text[], $6::text[], $7::uuid[], $8::text[])"
)
_RUN = (
    "select headway.run_trigger("
    "$1::uuid, $2::uuid, $3::uuid, $4, $5::timestamptz, $6::uuid, $7, p_created => $8::boolean)"
)
_FIRE_COLUMNS = "f.id, f.trigger_id, f.tenant_id, f.nominal_at, f.event_id, f.fired_at, f.status, f.job_id, f.error"
_FIRE = f"select {_FIRE_COLUMNS} from headway.fires f where f.id = $1::uuid"  # noqa: S608 - texts of this file
_FIRES_BY_ID = f"""
select {_FIRE_COLUMNS} from headway.fires f where f.id = any ($1::uuid[]) order by f.nominal_at
"""  # noqa: S608 - texts of this file
_FIRED_TIMES = """
select f.nominal_at
  from headway.fires f
 where f.trigger_id = $1::uuid
   and f.nominal_at is not null
   and f.nominal_at = any ($2::timestamptz[])
 order by f.nominal_at
"""
_BEGIN_BACKFILL = "select headway.begin_backfill($1::uuid, $2::timestamptz[], $3::uuid)"
_BACKFILL = "select headway.backfill($1::uuid[], $2::uuid, $3::uuid[], $4::boolean[], $5::timestamptz[], $6::uuid, $7)"
_FIRES = f"""
select {_FIRE_COLUMNS}
  from headway.fires f
 where ($1::uuid is null or f.tenant_id = $1)
   and $2::uuid is null -- of every trigger
   and ($3::uuid is null or f.event_id = $3)
   and ($4::uuid is null or f.id < $4)
 order by f.id desc
 limit $5::integer
"""  # noqa: S608 - texts of this file
# as a range of (trigger_id, id), which only the index fires_trigger serves: the planner would walk back through all
# that other triggers have fired since
_FIRES_OF_TRIGGER = f"""
select {_FIRE_COLUMNS}
  from headway.fires f
 where ($1::uuid is null or f.tenant_id = $1)
   and (f.trigger_id, f.id) >= ($2::uuid, '00000000-0000-0000-0000-000000000000'::uuid)
   and (f.trigger_id, f.id) <= ($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
   and ($3::uuid is null or f.event_id = $3)
   and ($4::uuid is null or (f.trigger_id, f.id) < ($2, $4))
 order by f.trigger_id desc, f.id desc
 limit $5::integer
"""  # noqa: S608 - texts of this file


class FireVerbs:
    def fire(self, firings: Sequence[Firing]) -> Op[list[Fire]]:
        def steps() -> Steps[list[Fire]]:
            check_firings(firings)
            once = _firsts(firings, lambda firing: firing.trigger_id)
            planned = [(None, fire) for firing in once for fire in _firsts(firing.fires, _key)]
            rows = yield Statement(
                _BEGIN_FIRES,
                [
                    [firing.trigger_id for firing in once],
                    [firing.revision for firing in once],
                    [firing.due_at for firing in once],
                    [fire.trigger_id for _, fire in planned],
                    [fire.nominal_at for _, fire in planned],
                ],
            )
            standing = {str(trigger_id) for trigger_id, *_ in rows}
            if not standing:
                return []
            verdicts = yield from _judge_overlap(
                [(n, planned[n - 1][1], busy_id, skips) for _, n, busy_id, skips in rows if n]
            )
            return (
                yield from _record(
                    planned, verdicts, scheduled=[firing for firing in once if firing.trigger_id in standing]
                )
            )

        return Op(steps, writes=True, refusable=True, atomic=True)

    def handle(self, handlings: Sequence[Handling]) -> Op[list[Fire]]:
        def steps() -> Steps[list[Fire]]:
            once = _firsts(handlings, lambda handling: handling.event_id)
            planned = [(handling.event_id, fire) for handling in once for fire in _firsts(handling.fires, _key)]
            rows = yield Statement(
                _BEGIN_HANDLING,
                [
                    [handling.event_id for handling in once],
                    [event_id for event_id, _ in planned],
                    [fire.trigger_id for _, fire in planned],
                    [fire.dedupe_key for _, fire in planned],
                ],
            )
            if not rows:
                return []
            standing = [
                (ordinal, planned[ordinal - 1][1], same_id, dedupes) for _, ordinal, same_id, dedupes in rows if ordinal
            ]
            verdicts = yield from _judge_keys([each for each in standing if each[1].signal is None])
            verdicts |= yield from _send([(each[0], each[1].signal) for each in standing if each[1].signal is not None])
            left = {handling.event_id for handling in once if handling.left}
            handled = {str(event_id) for event_id, *_ in rows} - left
            return (yield from _record(planned, verdicts, handled=sorted(handled)))

        return Op(steps, writes=True, refusable=True, atomic=True)

    def run_trigger(self, fire: NewFire, *, tenant_id: str | None, actor: str | None) -> Op[Fire | None]:
        def steps() -> Steps[Fire | None]:
            check_fires([fire])
            found = yield Statement("select headway.begin_run($1::uuid, $2::uuid)", [fire.trigger_id, tenant_id])
            if not found[0][0]:
                return None
            jobs = yield from enqueue([fire.job] if fire.job is not None else [])
            yield Statement(
                _RUN,
                [
                    fire.id,
                    fire.trigger_id,
                    jobs[0].id if jobs else None,
                    None if jobs else fire.error,
                    fire.nominal_at,
                    tenant_id,
                    actor,
                    all(job.created for job in jobs),
                ],
            )
            return _fire((yield Statement(_FIRE, [fire.id]))[0])

        return Op(steps, writes=True, refusable=True, atomic=True)

    def backfill(
        self, trigger_id: str, fires: Sequence[NewFire], *, tenant_id: str | None, actor: str | None
    ) -> Op[list[Fire] | None]:
        def steps() -> Steps[list[Fire] | None]:
            once = _firsts(fires, _key)
            times = [fire.nominal_at for fire in once]
            found = yield Statement(_BEGIN_BACKFILL, [trigger_id, times, tenant_id])
            if found[0][0] is None:
                return None
            free = [once[place - 1] for place in found[0][0]]
            jobs = yield from enqueue([fire.job for fire in free if fire.job is not None])
            if not jobs:
                return []
            ids = [fire.id for fire in free]
            yield Statement(
                _BACKFILL,
                [
                    ids,
                    trigger_id,
                    [job.id for job in jobs],
                    [job.created for job in jobs],
                    [fire.nominal_at for fire in free],
                    tenant_id,
                    actor,
                ],
            )
            return [_fire(row) for row in (yield Statement(_FIRES_BY_ID, [ids]))]

        return Op(steps, writes=True, refusable=True, atomic=True)

    def fired_times(self, trigger_id: str, times: Sequence[datetime]) -> Op[list[datetime]]:
        return read(_FIRED_TIMES, [trigger_id, list(times)], lambda rows: [row[0] for row in rows])

    def prune_fires(self, *, events_ms: int, failed_ms: int, fires_ms: int, limit: int) -> Op[int]:
        return call(
            "select headway.prune_fires($1::bigint, $2::bigint, $3::bigint, $4::integer)",
            [events_ms, failed_ms, fires_ms, limit],
            first,
        )

    def fires(
        self,
        *,
        tenant_id: str | None,
        trigger_id: str | None,
        event_id: str | None,
        limit: int,
        before: str | None,
    ) -> Op[list[Fire]]:
        return read(
            _FIRES if trigger_id is None else _FIRES_OF_TRIGGER,
            [tenant_id, trigger_id, event_id, before, limit],
            lambda rows: [_fire(row) for row in rows],
        )


def _firsts(items: Sequence[T], key: Callable[[T], Hashable]) -> list[T]:
    """The first item of each key: a repeat within one call is void."""
    firsts: dict[Hashable, T] = {}
    for item in items:
        firsts.setdefault(key(item), item)
    return list(firsts.values())


def _key(fire: NewFire) -> Hashable:
    return fire.trigger_id, fire.nominal_at


class _Verdict(NamedTuple):
    """What becomes of a fire."""

    status: FireStatus
    job_id: str | None = None
    error: str | None = None


_Verdicts = dict[int, _Verdict]
"""By the fire's ordinal."""


def _judge_overlap(fires: Sequence[tuple[int, NewFire, str | None, bool]]) -> Steps[_Verdicts]:
    """Enqueue the jobs of schedules' fires, each given with an unfinished job and whether it skips because of that.

    One that may skip is decided after the one before it, which may have met a job that is over.
    """
    verdicts: _Verdicts = {}
    busy = {fire.trigger_id: str(busy_id) for _, fire, busy_id, _ in fires if busy_id is not None}
    todo = list(fires)
    while todo:
        now: list[tuple[int, NewFire, NewJob, bool]] = []
        later = []
        for each in todo:
            ordinal, fire, _, skips = each
            if fire.job is None:
                verdicts[ordinal] = _Verdict("skipped" if fire.skipped else "failed", error=fire.error)
            elif fire.trigger_id in busy:
                verdicts[ordinal] = _Verdict("skipped", busy[fire.trigger_id])
            elif skips and any(fire.trigger_id == before.trigger_id for _, before, _, _ in now):
                later.append(each)
            else:
                now.append((ordinal, fire, fire.job, skips))
        enqueued = yield from enqueue([job for _, _, job, _ in now])
        for (ordinal, fire, _, skips), job in zip(now, enqueued, strict=True):
            verdicts[ordinal] = _Verdict("enqueued" if job.created else "deduped", job.id)
            if skips and job.created and job.status in UNFINISHED:
                busy[fire.trigger_id] = job.id
        todo = later
    return verdicts


def _judge_keys(fires: Sequence[tuple[int, NewFire, str | None, bool]]) -> Steps[_Verdicts]:
    """Enqueue the jobs of events' fires, each given with the job of the same key and whether its trigger has a window.

    One whose key comes twice is decided after the one before it, which may have made no job.
    """
    verdicts: _Verdicts = {}
    made: dict[tuple[str, str], str] = {}
    todo = list(fires)
    while todo:
        now: list[tuple[int, NewJob, tuple[str, str] | None]] = []
        asked: set[tuple[str, str]] = set()
        later = []
        for each in todo:
            ordinal, fire, same_id, dedupes = each
            key = (fire.trigger_id, fire.dedupe_key) if dedupes and fire.dedupe_key is not None else None
            if fire.job is None:
                verdicts[ordinal] = _Verdict("skipped" if fire.error is None else "failed", error=fire.error)
            elif same_id is not None:
                verdicts[ordinal] = _Verdict("deduped", str(same_id))
            elif key is not None and key in made:
                verdicts[ordinal] = _Verdict("deduped", made[key])
            elif key is not None and key in asked:
                later.append(each)
            else:
                now.append((ordinal, fire.job, key))
                asked |= {key} if key is not None else set()
        enqueued = yield from enqueue([job for _, job, _ in now])
        for (ordinal, _, key), job in zip(now, enqueued, strict=True):
            verdicts[ordinal] = _Verdict("enqueued" if job.created else "deduped", job.id)
            if key is not None and job.created:
                made[key] = job.id
        todo = later
    return verdicts


def _send(signals: Sequence[tuple[int, NewSignal]]) -> Steps[_Verdicts]:
    """Send the signals of events' fires. Where no job can receive one, the fire says so; the event does not fail."""
    if not signals:
        return {}
    check_signals([signal for _, signal in signals])
    columns = [
        [getattr(signal, name) for _, signal in signals]
        for name in ("id", "name", "payload", "job_id", "kind", "unique_key", "tenant_id", "dedup_key")
    ]
    verdicts: _Verdicts = {}
    for number, job_id, created, error in (yield Statement(_SIGNAL_EACH, columns)):
        status: FireStatus = "undelivered" if error is not None else "signaled" if created else "deduped"
        verdicts[signals[number - 1][0]] = _Verdict(status, None if job_id is None else str(job_id), error)
    return verdicts


def _record(
    planned: Sequence[tuple[str | None, NewFire]],
    verdicts: _Verdicts,
    *,
    scheduled: Sequence[Firing] = (),
    handled: Sequence[str] = (),
) -> Steps[list[Fire]]:
    """Write the fires that have a verdict, in order, and what it means for their triggers and events."""
    written = [(*planned[ordinal - 1], verdict) for ordinal, verdict in sorted(verdicts.items())]
    rows = yield Statement(
        _RECORD,
        [
            [fire.id for _, fire, _ in written],
            [fire.trigger_id for _, fire, _ in written],
            [verdict.status for _, _, verdict in written],
            [verdict.job_id for _, _, verdict in written],
            [verdict.error for _, _, verdict in written],
            [fire.nominal_at for _, fire, _ in written],
            [event_id for event_id, _, _ in written],
            [fire.dedupe_key for _, fire, _ in written],
            [firing.trigger_id for firing in scheduled],
            [firing.next_fire_at for firing in scheduled],
            list(handled) or None,
        ],
    )
    return [_fire(row) for row in rows]


def _fire(row: Row) -> Fire:
    return Fire(**dict(zip(Fire.__struct_fields__, map(plain, row), strict=True)))
