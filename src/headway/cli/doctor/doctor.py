"""`headway doctor`: checks everything that can stop work, and says how to fix it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from headway.cli.doctor.finding import Finding, note, ok, problem
from headway.cli.program.click_classes import Command
from headway.cli.program.failure import FAILED, diagnose
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import ago, clean, console, emit, first_line, many

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.fleet import Queue
    from headway.model.status import Status
    from headway.model.trigger import Trigger
    from headway.store.run import Store

_FEW = 5
_LOOKED_AT = 1_000
"""How many schedules and events it checks."""
_SLOW = timedelta(minutes=1)
_LONG_GONE = timedelta(minutes=10)
_MARKS = {"ok": ("✓", "green"), "note": ("–", "dim"), "problem": ("✗", "bold red")}


@click.command(cls=Command, short_help="Find what is wrong, and its fix.")
@pass_invocation
def doctor(cli: Invocation) -> None:
    """Check settings, database, schema and everything else that work needs; exits with 1 if something is wrong.

    ✓ is fine, – is worth knowing, ✗ is wrong and comes with its fix.

    \b
    headway doctor
    headway --url postgresql:///work doctor --json
    """
    checks: list[Finding] = []
    for check in examine(cli):
        checks.append(check)
        if not cli.json:
            _print(check)
    problems = sum(check.status == "problem" for check in checks)
    if cli.json:
        emit({"ok": not problems, "checks": checks})
    else:
        console().print()
        console().print(many(problems, "problem") if problems else "all is well")
    if problems:
        raise click.exceptions.Exit(FAILED)


def examine(cli: Invocation) -> Iterator[Finding]:
    """The findings, in order of dependency; stops early if nothing further can be checked."""
    from headway.config import path
    from headway.errors import HeadwayError
    from headway.secrets import read

    try:
        found = sorted(cli.settings)
        yield ok("settings", f"readable ({', '.join(found) if found else 'none given: defaults'})")
        app = cli.app
        app.settings  # noqa: B018 - reads and checks them
        declared = read(cli.settings.get("secrets", {}), str(path()))
        store = app.store
    except HeadwayError as error:
        yield problem("settings", str(error), "correct the flag, the HEADWAY_* variable or headway.toml")
        return
    if declared:
        yield _secrets(declared)
    yield ok("database", f"{store.dialect} at {store.describe()}")
    try:
        if store.dialect == "postgres":
            from headway.cli.doctor.postgres import examine as of_store
        else:
            from headway.cli.doctor.sqlite import examine as of_store
        yield from of_store(store)
        usable = yield from _schema(store)
        if usable:
            yield from _work(app, cli.tenant)
    except HeadwayError as error:
        what, fix = diagnose(error)
        yield problem("reach", what, fix or "fix that, then run headway doctor again")


def _secrets(declared: Iterable[str]) -> Finding:
    unset = sorted(name for name in declared if name.isidentifier() and name not in os.environ)
    if not unset:
        return ok("secrets", "those that are declared by name are set here")
    return note("secrets", f"declared, and not set here (a worker may have them): {', '.join(unset)}")


def _schema(store: Store) -> Generator[Finding, None, bool]:
    """Returns whether the schema can be used."""
    from headway.store import migrate
    from headway.store.versions import UNRELEASED

    found, latest = migrate.current(store), migrate.latest(store)
    if found in UNRELEASED:
        fix = "headway migrate, which adopts the tables if they are the same"
        yield problem("schema", f"version {found} of an unreleased Headway", fix)
    elif found > latest:
        yield problem(
            "schema",
            f"version {found}, newer than this library's {latest}",
            "upgrade here: pip install --upgrade headway",
        )
    elif found < latest:
        have = f"version {found}" if found else "none"
        yield problem("schema", f"{have}, this library needs {latest}", "headway migrate")
    elif migrate.plan(store):
        yield problem("schema", f"version {found}, but its functions are another release's", "headway migrate")
    else:
        yield ok("schema", f"version {found}")
        return True
    return False


def _work(app: Headway, tenant: str) -> Iterator[Finding]:
    queues, counts = app.queues(), app.counts()
    yield from _queues(queues)
    yield from _workers(app)
    yield from _trains(app, tenant)
    yield from _schedules(app, tenant)
    yield from _events(app)
    if counts.get("dead"):
        yield note("jobs", f"{counts['dead']:,} are dead: headway jobs list --status dead")


def _queues(queues: Sequence[Queue]) -> Iterator[Finding]:
    stuck = [queue for queue in queues if queue.paused and _waiting(queue.counts)]
    for queue in stuck:
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        yield problem(
            "queues",
            f"{queue.name} is paused{by}: {many(_waiting(queue.counts))} waiting",
            f"headway queues resume {queue.name}",
        )
    shut = [queue for queue in queues if queue.max_running == 0 and not queue.paused and _waiting(queue.counts)]
    for queue in shut:
        yield problem(
            "queues",
            f"{queue.name} may run no job at all (max running 0): {many(_waiting(queue.counts))} waiting",
            f"headway queues set {queue.name} --max-running none",
        )
    alone = [queue for queue in queues if not queue.workers and not queue.paused and queue.counts.get("queued")]
    for queue in alone:
        yield problem(
            "queues",
            f"{queue.name} has {many(queue.counts['queued'], 'queued job')} and no worker",
            f"headway worker module:app --queues {queue.name}",
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
    from headway.cli.fleet.workers import is_stale

    workers = app.workers()
    now = app.store.run(app.store.ops.now())
    stale = [worker for worker in workers if is_stale(worker, now)]
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
            f"{many(len(lost))} running under no worker: {clean(some)}",
            "start a worker: it ends them within its reap_every, or says in its log why it cannot",
        )


def _trains(app: Headway, tenant: str) -> Iterator[Finding]:
    """Trains on hold, the first few by name. `tenant` is the default one of commands."""
    held = app.trains(blocked=True, limit=_FEW + 1)
    for train in held[:_FEW]:
        assert train.hold is not None
        of = "" if train.tenant == tenant else f" --tenant {train.tenant}"
        why = f": {train.hold.reason}" if train.hold.reason else ""
        name = shlex.quote(train.train)
        detail = f"{train.train} was put on hold {ago(train.hold.since)}{why}; {many(train.length)} waiting"
        if train.length:
            yield problem("trains", detail, f"headway trains show {name}{of}")
        else:
            yield note("trains", f"{detail}: headway trains resume {name}{of}")
    if len(held) > _FEW:
        yield problem("trains", "more are on hold", "headway trains list --blocked")
    if not held:
        yield ok("trains", "none is on hold")


def _schedules(app: Headway, tenant: str) -> Iterator[Finding]:
    """Schedules whose last fire failed, or that nobody fires; the first few by name."""
    from headway.cli.triggers.schedule_page import overdue

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
    of = "" if schedule.tenant == tenant else f" --tenant {shlex.quote(schedule.tenant)}"
    return f"headway schedules show {shlex.quote(schedule.name)}{of}"


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


def _print(check: Finding) -> None:
    from rich.text import Text

    mark, style = _MARKS[check.status]
    out = console()
    out.print(Text.assemble((mark, style), f" {check.name:<12}", clean(check.detail)))
    if check.fix:
        out.print(Text.assemble("  " + " " * 12, ("fix: ", "bold"), clean(check.fix)))
