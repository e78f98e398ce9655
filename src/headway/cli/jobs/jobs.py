"""`headway jobs`: list, show, why, change, move; see the other files here for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headway.cli.jobs.cancel_and_retry import cancel, retry
from headway.cli.jobs.delete import delete
from headway.cli.jobs.job_summary import remark, when
from headway.cli.jobs.logs import logs
from headway.cli.jobs.wait import wait
from headway.cli.program.click_classes import Group
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Cell, Column, ago, emit, many, merged, note, say, status, table
from headway.cli.program.params import FILTERS, Duration, JobId, JsonObject, Moment, as_flags, filter_options, given
from headway.model.journal import FLOW
from headway.model.listing import ORDERS
from headway.shell import quoted

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.job import Job

_MOST = 10_000


@click.group(cls=Group)
def jobs() -> None:
    """Look at jobs and operate on them.

    \b
    headway jobs list --status dead --kind welcome
    headway jobs show ID
    headway jobs why ID
    headway jobs logs -f ID
    headway jobs wait ID --status waiting --timeout 30s
    headway jobs move ID --first
    headway jobs retry --status dead --kind welcome --dry-run
    headway jobs delete ID
    """


jobs.add_command(cancel)
jobs.add_command(retry)
jobs.add_command(delete)
jobs.add_command(logs)
jobs.add_command(wait)


@jobs.command("list")
@filter_options
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many at most.")
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="newest",
    show_default=True,
    help="By time, by priority, or as one queue runs its queued jobs.",
)
@click.option("--before", type=JobId(), metavar="ID", help="Continue after the page that ended with this job.")
@click.option("--after", metavar="CURSOR", help="The same in any order, with the cursor that the page before it named.")
@pass_invocation
def list_(cli: Invocation, /, limit: int, order: Any, before: str | None, after: str | None, **filters: Any) -> None:
    """List jobs that match, newest first.

    \b
    headway jobs list --status dead --created-after 2h
    headway jobs list --status dead --tag vip --meta customer.id=7
    headway jobs list --queue mail --order run
    headway jobs list --queue mail --json | jq -r '.[].id'
    """
    # one more than needed shows whether there is a next page
    found = cli.existing.jobs(limit=min(limit + 1, _MOST), before=before, after=after, order=order, **filters)
    more = len(found) > limit or len(found) == _MOST
    if found and not more:  # a page of large jobs ends early
        more = bool(cli.existing.jobs(limit=1, after=found[-1], order=order, **filters))
    found = found[:limit]
    if cli.json:
        emit(found)
        return
    if not found:
        narrowed = quoted(as_flags({name: filters[name] for name in FILTERS}))
        note(f"no jobs{' for ' + narrowed if narrowed else ''} in {cli.app.store.describe()}")
        return
    table(_COLUMNS, [_row(job) for job in found])
    if more:
        page = ["--before", found[-1].id] if order == "newest" else ["--order", order, "--after", found[-1].cursor]
        flags = [*as_flags(filters), *(["--limit", str(limit)] if limit != 50 else []), *page]
        note(f"next page: {cli.typed('jobs', 'list', *flags)}")


_COLUMNS = (
    Column("ID"),
    Column("STATUS"),
    Column("KIND", shrink=True),
    Column("QUEUE", shrink=True, wide=90),
    Column("TENANT", shrink=True, wide=150),
    Column("TAGS", shrink=True, wide=90, spare=True),
    Column("FAILED", right=True, wide=76),
    Column("WHEN", right=True),
    Column("NOTE", shrink=True, wide=110),
)


def _row(job: Job) -> list[Cell]:
    return [
        job.id,
        status(job.status),
        job.kind,
        job.queue,
        job.tenant,
        " ".join(job.tags),
        f"{job.tries}/{job.max_attempts}" if job.fence else "–",
        ago(when(job)),
        remark(job),
    ]


@jobs.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@pass_invocation
def show(cli: Invocation, job_id: str) -> None:
    """Show everything about one job: its values, its executions, what people did to it, and its log.

    \b
    headway jobs show 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    """
    app = cli.existing
    job, attempts, audit = app.get(job_id), app.attempts(job_id), app.audit(job_id)
    ahead = _ahead(app, job) if job.train is not None and job.status == "held" else None
    awaited = app.store.run(app.store.ops.awaited(job.id, tenant_id=None)) if job.pending else []
    waiters = app.waiters(job_id)
    if cli.json:
        awaits = [{"id": id_, "status": status_} for id_, status_ in awaited]
        emit(merged(job, attempts=attempts, audit=audit, awaits=awaits, waiters=waiters))
        return
    from headway.cli.jobs.job_page import show_job

    made_by, template = _made_by(app, job), _made_of(app, job)
    payload = app.store.run(app.store.ops.payload_artifact(job.id, tenant_id=None))
    show_job(
        job,
        attempts,
        audit,
        ahead=ahead,
        awaited=awaited,
        waiters=waiters,
        made_by=made_by,
        template=template,
        payload=payload,
    )
    if job.step is not None:
        chapter = "flows" if job.step == FLOW else "machines"
        note(f"its {'journal' if job.step == FLOW else 'timeline'}: {cli.typed(chapter, 'show', job.id)}")


@jobs.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@pass_invocation
def why(cli: Invocation, job_id: str) -> None:
    """Say why a job is not running, and what to do about it.

    \b
    headway jobs why 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    """
    answer = cli.existing.why(job_id)
    if cli.json:
        emit(answer)
    else:
        say(str(answer))


_TAKEN_BACK = (
    *(("timeout", "none"), ("scheduled_for", "now"), ("expires_at", "never")),
    *(("meta", "none"), ("tags", "none")),
)


@jobs.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--priority", type=int, help="Lower runs first; new jobs have 100.")
@click.option("--queue", help="Move it to another queue.")
@click.option("--max-attempts", type=int, help="How many failures it may have.")
@click.option("--max-losses", type=int, help="How often it may be lost with its worker.")
@click.option("--timeout", type=Duration(none=True), help="How long an execution may take, or none.")
@click.option("--scheduled-for", type=Moment("now"), help="Run it no sooner than this time, or now.")
@click.option("--delay", type=Duration(), help="Run it no sooner than in this time.")
@click.option("--expires-at", type=Moment("never"), help="Cancel it if it is not done by then, or never.")
@click.option("--payload", type=JsonObject(), help="New arguments; only for a job that never ran.")
@click.option("--meta", type=JsonObject("none"), help="What is kept with it instead, or none; also of a finished job.")
@click.option("--tags", metavar="TAGS", help="Its tags instead, as vip,eu, or none; also of a finished job.")
@pass_invocation
def change(cli: Invocation, /, job_id: str, **options: Any) -> None:
    """Change a job that has not started; of a finished one only meta and tags, of a running one nothing.

    \b
    headway jobs change ID --priority 1 --scheduled-for now
    headway jobs change ID --queue slow --delay 2h
    """
    changes = given(options)
    if not changes:
        raise Refused("there is nothing to change: give some of --priority --queue --delay …", WRONG)
    for name, word in _TAKEN_BACK:
        if changes.get(name) == word:
            changes[name] = None
    if changes.get("tags") is not None:
        changes["tags"] = changes["tags"].split(",")
    app = cli.existing
    now = app.change(job_id, actor=actor(), **changes)
    if cli.json:
        emit(app.get(job_id))
    else:
        say(f"job {job_id} changed: it is {now}")


@jobs.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--before", type=JobId(), metavar="ID", help="Directly before this waiting job.")
@click.option("--after", type=JobId(), metavar="ID", help="Directly after this waiting job.")
@click.option("--first", is_flag=True, help="Before all that wait.")
@click.option("--last", is_flag=True, help="After all that wait.")
@pass_invocation
def move(cli: Invocation, /, job_id: str, before: str | None, after: str | None, first: bool, last: bool) -> None:
    """Move a waiting job to another place in its line.

    A car moves among the waiting cars of its train; any other job among the queued jobs of its queue, where it takes
    its new neighbor's priority.

    \b
    headway jobs move ID --first
    headway jobs move ID --before OTHER_ID
    """
    if (before is not None) + (after is not None) + first + last != 1:
        raise click.UsageError("where to? Give one of --before ID, --after ID, --first and --last")
    app = cli.existing
    moved = app.move(job_id, before=before, after=after, first=first, last=last, actor=actor())
    job = app.get(moved.job_id)
    ahead = _ahead(app, job)
    if cli.json:
        emit(merged(moved, queue=job.queue, train=job.train, ahead=ahead))
    else:
        line = f"queue {job.queue}, with priority {job.priority}" if job.train is None else f"train {job.train}"
        before_it = f"{'at least ' if ahead >= _MOST else ''}{many(ahead)} before it in" if ahead else "it is next in"
        say(f"job {job.id} moved: {before_it} {line}")


def _ahead(app: Headway, job: Job) -> int:
    """How many jobs come before it in its line, up to 10,000."""
    if job.train is None:
        return app.store.run(app.store.ops.ahead(job.id))
    ahead, _ = app.store.run(app.store.ops.train_place(job.id))
    return ahead


def _made_by(app: Headway, job: Job) -> str | None:
    """The schedule or trigger that enqueued it."""
    if job.trigger_id is None:
        return None
    from headway.cli.triggers.trigger_rows import with_id

    noun = "trigger" if job.source == "event" else "schedule"
    rule = with_id(app, "event" if job.source == "event" else "schedule", job.trigger_id, job.tenant_id)
    return f"{noun} {rule.name}" if rule is not None else f"{noun} {job.trigger_id} (deleted)"


def _made_of(app: Headway, job: Job) -> str | None:
    """The template that it was made from."""
    if job.template_id is None:
        return None
    from headway.cli.triggers.trigger_rows import template_with_id

    template = template_with_id(app, job.template_id, job.tenant_id)
    name = template.name if template is not None else f"{job.template_id} (deleted)"
    return f"{name}, revision {job.template_revision}"
