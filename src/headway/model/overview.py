"""What needs a person, most urgent first, and the pulse: how much work there was lately, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, get_args

import msgspec

from headway.model.duration import show_ms
from headway.model.error_groups import ErrorGroup
from headway.model.event import Event
from headway.model.fleet import MOST_QUEUED, Queue, Worker
from headway.model.stats import COUNTS, Numbers, Stat, Times, added, time_taken_ms
from headway.model.train import Train
from headway.model.trigger import Trigger
from headway.model.vitals import Condition
from headway.shell import command

# most urgent first
What = Literal[
    "full_database",
    "no_worker",
    "dying",
    "slow_database",
    "starving",
    "silent_worker",
    "held_train",
    "late_schedule",
    "failed_event",
    "paused",
    "limited",
]
_URGENCY: tuple[What, ...] = get_args(What)
LATE = timedelta(minutes=1)
LONG = timedelta(minutes=10)
LITTLE_BYTES = 512 * 1024**2  # free on the disk of a file
SLOW_MS = 1_000
LONG_TRANSACTION = timedelta(hours=1)
MOST_IDS = 0.75  # of PostgreSQL's transaction ids
MOST_COUNTED = 10_000
"""How many jobs pages count of each queue and status, at most: no number is worth a full scan."""
LATELY = timedelta(minutes=12)
"""How far back it looks for what is queued and whether it moves: as long as something may wait, and a sample's age."""
SAMPLED = timedelta(minutes=2)
"""How old the sample is that tells what is queued now, at most: one of this minute may not be there yet."""


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
    error: str | None = None  # the fingerprint
    tenant: str | None = None  # whose train or schedule it is


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


def side_by_side(numbers: Mapping[str, Numbers], names: Mapping[str, str], since: datetime) -> list[TenantPulse]:
    """The tenants with their numbers of a span, by id; the busiest first."""
    taken = {tenant_id: time_taken_ms(of.runs) for tenant_id, of in numbers.items()}
    whole = sum(taken.values())
    return [
        TenantPulse(
            tenant_id=tenant_id,
            tenant=names.get(tenant_id, tenant_id),
            depth=of.depth or 0,
            oldest_ms=of.oldest_ms,
            share=taken[tenant_id] / whole if whole else 0.0,
            pulse=pulse([of], since),
        )
        for tenant_id, of in sorted(numbers.items(), key=lambda item: (-taken[item[0]], item[0]))
    ]


def pulse(stats: Iterable[Stat | Numbers], since: datetime) -> Pulse:
    found = list(stats)
    waits: Times = {}
    runs: Times = {}
    for stat in found:
        waits, runs = added(waits, stat.waits), added(runs, stat.runs)
    whole = Stat(at=since, waits=waits, runs=runs)
    return Pulse(
        since=since,
        **{name: sum(getattr(stat, name) for stat in found) for name in COUNTS},
        wait_p50_ms=whole.wait_ms(0.5),
        wait_p95_ms=whole.wait_ms(0.95),
        run_p50_ms=whole.run_ms(0.5),
        run_p95_ms=whole.run_ms(0.95),
    )


def urgent_first(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: (_URGENCY.index(each.what), -each.count, each.why))


def sampled(stats: Iterable[Stat], now: datetime) -> dict[tuple[str, str, str], Stat]:
    """The last sample of what is queued, by tenant, queue and kind; `stats` are those of minutes."""
    found: dict[tuple[str, str, str], Stat] = {}
    for stat in stats:
        if stat.depth and now - stat.at < SAMPLED and stat.tenant_id and stat.queue and stat.kind:
            found[stat.tenant_id, stat.queue, stat.kind] = stat
    return found


def of_queues(
    queues: Sequence[Queue], samples: Mapping[tuple[str, str, str], Stat], now: datetime
) -> Iterable[Problem]:
    """Queues in which jobs wait that nothing will start; the first of each were counted, and more may be sampled."""
    depths: dict[str, int] = {}
    for (_, name, _), stat in samples.items():
        depths[name] = depths.get(name, 0) + (stat.depth or 0)
    for queue in queues:
        waiting = queue.counts.get("queued", 0)
        if waiting >= MOST_QUEUED:
            waiting = max(waiting, depths.get(queue.name, 0))
        since = queue.oldest_queued_at
        if not waiting:
            continue
        jobs = _jobs(waiting)
        wait = f"{jobs} wait{'s' if waiting == 1 else ''} in it"
        if queue.paused:
            why = f"queue {queue.name} is paused, and {wait}"
            fix = command("queues resume", queue.name)
            yield Problem(what="paused", why=why, fix=fix, count=waiting, since=queue.paused_at, queue=queue.name)
        elif not queue.workers:
            why = f"no worker listens to queue {queue.name}, and {wait}"
            fix = command("worker MODULE:APP", queues=queue.name)
            yield Problem(what="no_worker", why=why, fix=fix, count=waiting, since=since, queue=queue.name)
        elif queue.limited and since is not None and now - since > LONG:
            why = f"{queue.limited:,} of {jobs} in queue {queue.name} wait for a limit or partition"
            fix = "headway limits, and " + command("queues set", queue.name, max_running="N")
            yield Problem(what="limited", why=why, fix=fix, count=queue.limited, since=since, queue=queue.name)


def of_starving(
    queues: Sequence[Queue],
    stats: Sequence[Stat],
    samples: Mapping[tuple[str, str, str], Stat],
    now: datetime,
    tenant: str | None = None,
) -> Iterable[Problem]:
    """Jobs that have waited for long in a queue that works on others, or whose workers do not know their kind."""
    listening = {queue.name: queue for queue in queues if queue.workers and not queue.paused}
    started: dict[tuple[str | None, str | None, str | None], int] = {}
    busy: dict[str | None, int] = {}
    for stat in stats:
        if now - stat.at < LONG + SAMPLED:
            started[stat.tenant_id, stat.queue, stat.kind] = (
                started.get((stat.tenant_id, stat.queue, stat.kind), 0) + stat.started
            )
            busy[stat.queue] = busy.get(stat.queue, 0) + stat.started
    late: dict[tuple[str, str], list[Stat]] = {}
    for (tenant_id, queue, kind), stat in samples.items():
        waited = timedelta(milliseconds=stat.oldest_ms or 0)
        if queue in listening and waited > LONG and not started.get((tenant_id, queue, kind)):
            late.setdefault((queue, kind), []).append(stat)
    for (queue, kind), found in late.items():
        count = sum(stat.depth or 0 for stat in found)
        oldest_ms = max(stat.oldest_ms or 0 for stat in found)
        known = listening[queue].kinds
        if known and kind not in known:
            why = f"no worker of queue {queue} knows kind {kind}, and {_jobs(count)} of it wait{_s(count)}"
            fix = command("worker MODULE:APP", queues=queue)
        elif busy.get(queue):
            of = f" of {len(found):,} tenants" if len(found) > 1 else ""
            why = (
                f"{_jobs(count)} of kind {kind}{of} {'have' if count > 1 else 'has'} waited in queue {queue} for "
                f"{show_ms(oldest_ms)}, while it runs others"
            )
            found_by = command("jobs list", status="queued", queue=queue, kind=kind, tenant=tenant)
            fair = listening[queue].fair  # then its tenants take turns already
            more = command("worker MODULE:APP", queues=queue) if fair else command("queues set", queue, fair=True)
            fix = f"{found_by}, and {more}"
        else:
            continue
        since = now - timedelta(milliseconds=oldest_ms)
        yield Problem(what="starving", why=why, fix=fix, count=count, since=since, queue=queue, kind=kind)


def of_database(condition: Condition, now: datetime) -> Iterable[Problem]:
    """A database that is slow, or that will soon refuse to write."""
    if condition.free_bytes is not None and condition.free_bytes < LITTLE_BYTES:
        why = f"the disk of the database has only {condition.free_bytes // 1024**2:,} MiB left: full, it stops all work"
        yield Problem(what="full_database", why=why, fix="headway prune, and make room on that disk")
    if condition.ids_used is not None and condition.ids_used > MOST_IDS:
        why = f"{condition.ids_used:.0%} of PostgreSQL's transaction ids are used: unless it is vacuumed, it will stop"
        yield Problem(what="full_database", why=why, fix="headway doctor, and vacuum freeze in that database")
    open_ms = condition.oldest_transaction_ms or 0
    if timedelta(milliseconds=open_ms) > LONG_TRANSACTION:
        why = f"a transaction has been open for {show_ms(open_ms)}: dead rows pile up behind it, and claims slow down"
        since = now - timedelta(milliseconds=open_ms)
        yield Problem(what="slow_database", why=why, fix="headway doctor, and end that session", since=since)
    if condition.answer_ms is not None and condition.answer_ms > SLOW_MS:
        why = f"the database took {show_ms(condition.answer_ms)} to answer"
        yield Problem(what="slow_database", why=why, fix="headway doctor")


def of_kinds(stats: Iterable[Stat], errors: Sequence[ErrorGroup] = (), tenant: str | None = None) -> Iterable[Problem]:
    """Kinds whose jobs died, with the error that killed most; `stats` are those of a span, by queue and kind. With a
    tenant, the commands touch no other's jobs."""
    worst: dict[tuple[str | None, str | None], ErrorGroup] = {}
    for each in sorted(errors, key=lambda each: each.dead):
        if each.dead:
            worst[each.queue, each.kind] = each
    first: dict[tuple[str | None, str | None], Stat] = {}
    dead: dict[tuple[str | None, str | None], int] = {}
    for stat in stats:
        if stat.dead:
            key = (stat.queue, stat.kind)
            first.setdefault(key, stat)
            dead[key] = dead.get(key, 0) + stat.dead
    kinds = Counter(kind for _, kind in dead)
    for (queue, kind), count in dead.items():
        since = first[queue, kind].at
        is_of_several = kinds[kind] > 1
        why = f"{_jobs(count)} of kind {kind} died" + (f" in queue {queue}" if is_of_several else "")
        chosen = {"status": "dead", "kind": kind, "queue": queue if is_of_several else None, "tenant": tenant}
        fix = command("jobs list", **chosen) + ", then " + command("jobs retry", **chosen)
        error = None
        if (queue, kind) in worst:
            found = worst[queue, kind]
            error = found.fingerprint
            why += f": {found.message}" if found.dead == count else f", {found.dead:,} of one error: {found.message}"
            if found.count > 1:
                why += f" ({found.count:,} × the same since {found.first_seen_at:%H:%M} UTC)"
            retry = command("jobs retry", status="dead", error=error, tenant=tenant)
            fix = command("errors show", error, tenant=tenant) + f", then {retry}"
        yield Problem(what="dying", why=why, fix=fix, count=count, since=since, queue=queue, kind=kind, error=error)


def of_workers(workers: Sequence[Worker], now: datetime) -> Iterable[Problem]:
    for worker in workers:
        if worker.lease_expires_at < now:
            why = f"worker {worker.hostname}:{worker.pid} has been silent since {worker.heartbeat_at:%H:%M:%S} UTC"
            fix = command("workers dead", worker.id)
            yield Problem(
                what="silent_worker", why=why, fix=fix, count=worker.running, since=worker.heartbeat_at, name=worker.id
            )


def of_trains(trains: Sequence[Train]) -> Iterable[Problem]:
    for train in trains:
        if train.hold is not None:
            why = f"train {train.train} is on hold, and {train.length:,} of its jobs wait: {train.hold.reason}"
            fix = command("trains resume", train.train, tenant=train.tenant)
            yield Problem(
                what="held_train",
                why=why,
                fix=fix,
                count=train.length,
                since=train.hold.since,
                name=train.train,
                tenant=train.tenant,
            )


def of_schedules(schedules: Sequence[Trigger], now: datetime) -> Iterable[Problem]:
    for schedule in schedules:
        due = schedule.next_fire_at
        if schedule.enabled and due is not None and now - due > LATE:
            why = f"schedule {schedule.name} was due at {due:%H:%M:%S} UTC and has not fired: does a worker run?"
            fix = "headway workers, and headway doctor"
            yield Problem(
                what="late_schedule",
                why=why,
                fix=fix,
                since=due,
                kind=schedule.kind,
                name=schedule.name,
                tenant=schedule.tenant,
            )


def of_events(events: Sequence[Event], tenant: str | None = None) -> Iterable[Problem]:
    if events:
        last = events[0]
        why = f"{len(events):,} event{'' if len(events) == 1 else 's'} failed, the last is {last.name}: {last.error}"
        fix = command("events list", status="failed", tenant=tenant) + ", then headway events retry ID"
        yield Problem(what="failed_event", why=why, fix=fix, count=len(events), since=events[-1].emitted_at)


def _s(count: int) -> str:
    return "s" if count == 1 else ""


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
