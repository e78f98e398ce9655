"""What `headway doctor` and `GET /doctor` find out about a database and the work in it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headway.app.doctor import postgres, sqlite
from headway.app.doctor.finding import Finding, note, ok, problem
from headway.errors import SchemaOutdated
from headway.model.duration import show_ms
from headway.model.schedule import overdue
from headway.printable import printable
from headway.shell import command
from headway.store import migrate
from headway.store.versions import UNRELEASED, NewerBuild

if TYPE_CHECKING:
    from headway.app.headway import Headway
    from headway.model.fleet import Queue
    from headway.model.status import Status
    from headway.model.trigger import Trigger
    from headway.store.run import Store

_FEW = 5
_LOOKED_AT = 1_000
"""How many schedules and events it checks."""
_COUNTED = 10_000
"""How many jobs of a queue and of a status it counts, so that its answer takes as long with a million jobs."""
_SEALS = 20
"""How many seals of the audit it checks."""
_UNSEALED = timedelta(hours=1)
_SLOW = timedelta(minutes=1)
_LONG_GONE = timedelta(minutes=10)


def examine_database(app: Headway, tenant: str) -> Iterator[Finding]:
    """The findings, in order of dependency. `tenant` is the one that commands need not name. It blocks."""
    store = app.store
    yield ok("database", f"{store.dialect} at {store.describe()}")
    yield from (postgres if store.dialect == "postgres" else sqlite).examine(store)
    usable = yield from _schema(store)
    if usable:
        yield from _work(app, tenant)


def _schema(store: Store) -> Generator[Finding, None, bool]:
    """Returns whether the schema can be used."""
    found, latest = migrate.current(store), migrate.latest(store)
    if found in UNRELEASED:
        fix = "headway migrate, which adopts the tables if they are the same"
        yield problem("schema", f"version {found} of an unreleased Headway", fix)
    elif found > latest and migrate.usable(store) == latest:
        yield ok("schema", f"version {found}, newer than this library's {latest}, which works on it")
        return True
    elif found > latest:
        yield problem(
            "schema",
            f"version {found}, newer than this library's {latest}",
            "upgrade here: pip install --upgrade headway-engine",
        )
    elif found < latest:
        have = f"version {found}" if found else "none"
        yield problem("schema", f"{have}, this library needs {latest}", "headway migrate")
    else:
        finding = _of_this_version(store, found)
        yield finding
        return finding.status == "ok"
    return False


def _of_this_version(store: Store, found: int) -> Finding:
    try:
        plan = [part.title for part in migrate.plan(store)]
    except NewerBuild:
        return ok("schema", f"version {found} of a newer build, and this library works on it")
    except SchemaOutdated as error:
        return problem("schema", str(error), "headway transfer, or a backup")
    if plan == ["install the functions"]:
        return problem("schema", f"version {found}, but its functions are another release's", "headway migrate")
    if plan:
        return problem("schema", f"version {found} without all its steps", "headway migrate")
    return ok("schema", f"version {found}")


def _work(app: Headway, tenant: str) -> Iterator[Finding]:
    queues, counts = app.queues(most=_COUNTED), app.counts(most=_COUNTED)
    yield from _queues(queues)
    yield from _workers(app)
    yield from _trains(app, tenant)
    yield from _schedules(app, tenant)
    yield from _events(app)
    yield from _audit(app)
    if counts.get("dead"):
        many_dead = f"{'at least ' if counts['dead'] >= _COUNTED else ''}{counts['dead']:,}"
        yield note("jobs", f"{many_dead} are dead: headway jobs list --status dead")


def _audit(app: Headway) -> Iterator[Finding]:
    """Whether the last seals of the audit fit; `headway audit verify` checks all of them."""
    check = app.verify_audit(newest=_SEALS)
    if check.faults:
        yield problem(
            "audit", f"its chain is broken: {check.faults[0]}", "headway audit verify, and ask who could write"
        )
    elif check.oldest_unsealed_at is not None and datetime.now(UTC) - check.oldest_unsealed_at > _UNSEALED:
        yield note(
            "audit", f"{check.unsealed:,} entries are not sealed, since {ago(check.oldest_unsealed_at)}: workers do it"
        )
    else:
        yield ok("audit", f"its last {many(check.seals, 'seal')} fit")


def _queues(queues: Sequence[Queue]) -> Iterator[Finding]:
    stuck = [queue for queue in queues if queue.paused and _waiting(queue.counts)]
    for queue in stuck:
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        yield problem(
            "queues",
            f"{queue.name} is paused{by}: {many(_waiting(queue.counts))} waiting",
            command("queues resume", queue.name),
        )
    shut = [queue for queue in queues if queue.max_running == 0 and not queue.paused and _waiting(queue.counts)]
    for queue in shut:
        yield problem(
            "queues",
            f"{queue.name} may run no job at all (max running 0): {many(_waiting(queue.counts))} waiting",
            command("queues set", queue.name, max_running="none"),
        )
    alone = [queue for queue in queues if not queue.workers and not queue.paused and queue.counts.get("queued")]
    for queue in alone:
        yield problem(
            "queues",
            f"{queue.name} has {many(queue.counts['queued'], 'queued job')} and no worker",
            command("worker module:app", queues=queue.name),
        )
    for queue in queues:
        if not queue.workers and queue.counts.get("scheduled") and not queue.counts.get("queued"):
            yield note("queues", f"{queue.name} has {many(queue.counts['scheduled'], 'scheduled job')} and no worker")
        if queue.reserved_by is not None:
            waiting = many(_waiting(queue.counts))
            until = f"expires {ago(queue.reserved_until)} unless it is renewed"
            yield note("queues", f"{queue.name} is reserved by {queue.reserved_by} ({until}): {waiting} waiting")
    if not stuck and not shut and not alone:
        yield ok("queues", f"{len(queues)} in use; wherever a job waits for one, there is a worker")


def _workers(app: Headway) -> Iterator[Finding]:
    workers = app.workers()
    now = app.store.run(app.store.ops.now())
    stale = [worker for worker in workers if worker.lease_expires_at <= now]
    live = len(workers) - len(stale)
    for worker in stale:
        ended = worker.lease_expires_at.isoformat(timespec="seconds")
        detail = f"{worker.hostname} pid {worker.pid} is stale: its lease ended {ended}"
        if live and now - worker.lease_expires_at > _LONG_GONE:
            yield problem(
                "workers",
                f"{detail}, and live workers could not end all its jobs",
                'look for "cannot be ended" in the log of a worker',
            )
        elif live:
            yield note("workers", f"{detail}; a live worker will take its jobs over")
        else:
            yield problem("workers", detail, "start a worker: it takes its jobs over")
    if live or not stale:
        yield ok("workers", f"{live} live") if live else note("workers", "none is running")
    known = {worker.id for worker in workers}
    lost = [job for job in app.jobs(status="running", limit=_LOOKED_AT) if job.worker_id not in known]
    if lost:
        some = ", ".join(f"{job.kind} {job.id}" for job in lost[:_FEW])
        yield problem(
            "jobs",
            f"{many(len(lost))} running under no worker: {printable(some)}",
            "start a worker: it ends them within its reap_every, or says in its log why it cannot",
        )


def _trains(app: Headway, tenant: str) -> Iterator[Finding]:
    """Trains on hold, the first few by name. `tenant` is the default one of commands."""
    held = app.trains(blocked=True, limit=_FEW + 1)
    for train in held[:_FEW]:
        assert train.hold is not None
        of = None if train.tenant == tenant else train.tenant
        why = f": {train.hold.reason}" if train.hold.reason else ""
        detail = f"{train.train} was put on hold {ago(train.hold.since)}{why}; {many(train.length)} waiting"
        if train.length:
            yield problem("trains", detail, command("trains show", train.train, tenant=of))
        else:
            yield note("trains", f"{detail}: {command('trains resume', train.train, tenant=of)}")
    if len(held) > _FEW:
        yield problem("trains", "more are on hold", "headway trains list --blocked")
    if not held:
        yield ok("trains", "none is on hold")


def _schedules(app: Headway, tenant: str) -> Iterator[Finding]:
    """Schedules whose last fire failed, or that nobody fires; the first few by name."""
    now = app.store.run(app.store.ops.now())
    found = [schedule for schedule in app.schedules(limit=_LOOKED_AT) if schedule.enabled]
    failed = [schedule for schedule in found if schedule.error]
    late = [schedule for schedule in found if overdue(schedule, now)]
    for schedule in failed[:_FEW]:
        why = first_line(schedule.error)
        yield problem("schedules", f"{schedule.name} failed to fire: {why}", _show(schedule, tenant))
    for schedule in late[:_FEW]:
        whose = "a worker of the app that declares it" if schedule.origin == "code" else "a worker"
        yield problem(
            "schedules",
            f"{schedule.name} is overdue: its time was {ago(schedule.next_fire_at, now)}, and no worker fired it",
            f"start {whose}; {_show(schedule, tenant)}",
        )
    if len(failed) > _FEW or len(late) > _FEW:
        yield problem("schedules", "more are in need", "headway schedules list")
    if not failed and not late:
        yield ok("schedules", f"{len(found)} enabled, none overdue" if found else "none is enabled")


def _show(schedule: Trigger, tenant: str) -> str:
    return command("schedules show", schedule.name, tenant=None if schedule.tenant == tenant else schedule.tenant)


def _events(app: Headway) -> Iterator[Finding]:
    failed = app.events(status="failed", limit=_LOOKED_AT)
    pending = app.events(status="pending", limit=_LOOKED_AT)
    now = app.store.run(app.store.ops.now())
    old = [event for event in pending if now - event.emitted_at > _SLOW]
    if failed:
        count = f"{'at least ' if len(failed) == _LOOKED_AT else ''}{many(len(failed), 'event')}"
        yield problem("events", f"{count} made a trigger fail", "headway events list --failed")
    if old:
        age = ago(old[-1].emitted_at, now).removesuffix(" ago")
        yield problem(
            "events",
            f"{many(len(old), 'event')} not handled yet, the oldest for {age}",
            "start a worker: any one handles them",
        )
    if not failed and not old:
        yield ok("events", "none failed, none waits for long")


def _waiting(counts: Mapping[Status, int]) -> int:
    return counts.get("queued", 0) + counts.get("scheduled", 0)


def many(count: int, noun: str = "job") -> str:
    """`1 job`, `2,000 jobs`, `at least 10,000 jobs`."""
    return f"{'at least ' if count >= _COUNTED else ''}{count:,} {noun}{'' if count == 1 else 's'}"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """A moment's distance from now: `3m 20s ago`, `in 2h 5m`."""
    if moment is None:
        return "–"
    ms = ((now or datetime.now(UTC)) - moment).total_seconds() * 1_000
    return f"{show_ms(ms)} ago" if ms >= 0 else f"in {show_ms(-ms)}"


def first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""
