"""What needs a person, most urgent first, and the pulse: how much work there was lately, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from headway.model.event import Event
from headway.model.fleet import Queue, Worker
from headway.model.stats import COUNTS, Numbers, Stat, time_taken_ms
from headway.model.train import Train
from headway.model.trigger import Trigger

What = Literal[
    "no_worker", "dying", "silent_worker", "held_train", "late_schedule", "failed_event", "paused", "limited"
]
_URGENCY: tuple[What, ...] = (
    "no_worker",
    "dying",
    "silent_worker",
    "held_train",
    "late_schedule",
    "failed_event",
    "paused",
    "limited",
)
LATE = timedelta(minutes=1)
LONG = timedelta(minutes=10)
_LATELY = timedelta(minutes=2)  # a sample of this minute may not be there yet


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that needs a person: one sentence why, and the command that helps."""

    what: What
    why: str
    fix: str
    count: int = 1
    since: datetime | None = None
    queue: str | None = None
    kind: str | None = None
    name: str | None = None  # of the train or schedule; the id of a worker


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a span together."""

    since: datetime
    enqueued: int
    started: int
    succeeded: int
    failed: int
    retried: int
    dead: int
    canceled: int
    lost: int
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    run_p50_ms: float | None
    run_p95_ms: float | None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    problems: list[Problem]
    pulse: Pulse


class TenantPulse(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant beside the others."""

    tenant_id: str
    tenant: str
    depth: int  # queued at the last sample
    oldest_ms: int | None
    share: float  # of all time that executions took
    pulse: Pulse


def side_by_side(stats: Iterable[Stat], names: Mapping[str, str], since: datetime, now: datetime) -> list[TenantPulse]:
    """The tenants of these numbers, which are those of a span by tenant and minute; the busiest first."""
    found: dict[str, list[Stat]] = {}
    for stat in stats:
        if stat.tenant_id is not None:
            found.setdefault(stat.tenant_id, []).append(stat)
    taken = {tenant_id: sum(time_taken_ms(stat.runs) for stat in of) for tenant_id, of in found.items()}
    whole = sum(taken.values())
    sampled = {tenant_id: [stat for stat in of if now - stat.at < _LATELY] for tenant_id, of in found.items()}
    return [
        TenantPulse(
            tenant_id=tenant_id,
            tenant=names.get(tenant_id, tenant_id),
            depth=next((stat.depth for stat in reversed(sampled[tenant_id]) if stat.depth is not None), 0),
            oldest_ms=next((stat.oldest_ms for stat in reversed(sampled[tenant_id]) if stat.depth is not None), None),
            share=taken[tenant_id] / whole if whole else 0.0,
            pulse=pulse(of, since),
        )
        for tenant_id, of in sorted(found.items(), key=lambda item: (-taken[item[0]], item[0]))
    ]


def pulse(stats: Iterable[Stat], since: datetime) -> Pulse:
    total = Numbers()
    for stat in stats:
        counts = {name: getattr(stat, name) for name in COUNTS}
        total.add(Numbers(**counts, waits=stat.waits, runs=stat.runs))
    whole = Stat(at=since, waits=total.waits, runs=total.runs)
    return Pulse(
        since=since,
        **{name: getattr(total, name) for name in COUNTS},
        wait_p50_ms=whole.wait_ms(0.5),
        wait_p95_ms=whole.wait_ms(0.95),
        run_p50_ms=whole.run_ms(0.5),
        run_p95_ms=whole.run_ms(0.95),
    )


def urgent_first(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: (_URGENCY.index(each.what), -each.count, each.why))


def of_queues(queues: Sequence[Queue], now: datetime) -> Iterable[Problem]:
    for queue in queues:
        waiting = queue.counts.get("queued", 0)
        since = queue.oldest_queued_at
        if not waiting:
            continue
        jobs = _jobs(waiting)
        wait = f"{jobs} wait{'s' if waiting == 1 else ''} in it"
        if queue.paused:
            why = f"queue {queue.name} is paused, and {wait}"
            fix = f"headway queues resume {queue.name}"
            yield Problem(what="paused", why=why, fix=fix, count=waiting, since=queue.paused_at, queue=queue.name)
        elif not queue.workers:
            why = f"no worker listens to queue {queue.name}, and {wait}"
            fix = f"headway worker MODULE:APP --queues {queue.name}"
            yield Problem(what="no_worker", why=why, fix=fix, count=waiting, since=since, queue=queue.name)
        elif queue.limited and since is not None and now - since > LONG:
            why = f"{queue.limited:,} of {jobs} in queue {queue.name} wait for a limit or partition"
            fix = f"headway limits, and headway queues set {queue.name} --max-running N"
            yield Problem(what="limited", why=why, fix=fix, count=queue.limited, since=since, queue=queue.name)


def of_kinds(stats: Iterable[Stat]) -> Iterable[Problem]:
    """Kinds whose jobs died; `stats` are those of a span, by queue and kind."""
    first: dict[tuple[str | None, str | None], Stat] = {}
    dead: dict[tuple[str | None, str | None], int] = {}
    for stat in stats:
        if stat.dead:
            key = (stat.queue, stat.kind)
            first.setdefault(key, stat)
            dead[key] = dead.get(key, 0) + stat.dead
    for (queue, kind), count in dead.items():
        since = first[queue, kind].at
        why = f"{_jobs(count)} of kind {kind} died since {since:%H:%M} UTC"
        fix = f"headway jobs list --status dead --kind {kind}, then headway jobs retry --status dead --kind {kind}"
        yield Problem(what="dying", why=why, fix=fix, count=count, since=since, queue=queue, kind=kind)


def of_workers(workers: Sequence[Worker], now: datetime) -> Iterable[Problem]:
    for worker in workers:
        if worker.lease_expires_at < now:
            why = f"worker {worker.hostname}:{worker.pid} has been silent since {worker.heartbeat_at:%H:%M:%S} UTC"
            fix = f"headway workers dead {worker.id}"
            yield Problem(
                what="silent_worker", why=why, fix=fix, count=worker.running, since=worker.heartbeat_at, name=worker.id
            )


def of_trains(trains: Sequence[Train]) -> Iterable[Problem]:
    for train in trains:
        if train.hold is not None:
            why = f"train {train.train} is on hold, and {train.length:,} of its jobs wait: {train.hold.reason}"
            fix = f"headway trains resume {train.train} --tenant {train.tenant}"
            yield Problem(
                what="held_train", why=why, fix=fix, count=train.length, since=train.hold.since, name=train.train
            )


def of_schedules(schedules: Sequence[Trigger], now: datetime) -> Iterable[Problem]:
    for schedule in schedules:
        due = schedule.next_fire_at
        if schedule.enabled and due is not None and now - due > LATE:
            why = f"schedule {schedule.name} was due at {due:%H:%M:%S} UTC and has not fired: does a worker run?"
            fix = "headway workers, and headway doctor"
            yield Problem(what="late_schedule", why=why, fix=fix, since=due, kind=schedule.kind, name=schedule.name)


def of_events(events: Sequence[Event]) -> Iterable[Problem]:
    if events:
        last = events[0]
        why = f"{len(events):,} event{'' if len(events) == 1 else 's'} failed, the last is {last.name}: {last.error}"
        fix = "headway events list --status failed, then headway events retry ID"
        yield Problem(what="failed_event", why=why, fix=fix, count=len(events), since=events[-1].emitted_at)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
