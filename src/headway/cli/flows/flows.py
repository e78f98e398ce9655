"""`headway flows`: list, show, export, fork, accept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headway.cli.jobs.job_summary import awaits
from headway.cli.jobs.lists import LOOKED_AT, jobs_that, since_when
from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Cell, Column, ago, emit, many, merged, note, say, status, table
from headway.cli.program.params import JobId, Json, Tenant, as_flags
from headway.model.journal import FLOW
from headway.model.status import FINISHED, STATUSES
from headway.shell import quoted

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.job import Job

_MOST = 10_000


@click.group(cls=Group, invoke_without_command=True, short_help="Look at flows, fork them, let them go on.")
@click.pass_context
def flows(ctx: click.Context) -> None:
    """Look at flows and operate on them: durable work written as one function.

    A flow is a job: headway jobs why, cancel, retry and change work on it too, and headway machines signal sends it a
    signal.

    \b
    headway flows list --status waiting
    headway flows show ID
    headway flows fork ID --before charge
    headway flows accept ID
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@flows.command("list")
@click.option("--status", "status_", type=click.Choice(STATUSES), help="Only flows of this status.")
@click.option("--kind", help="Only flows of this kind.")
@click.option("--queue", help="Only flows of this queue.")
@click.option("--tenant", type=Tenant(), help="Only flows of this tenant.")
@click.option("--unique-key", help="Only flows with this unique key.")
@click.option("--awaits", "awaited", metavar="SIGNAL", help="Only flows that wait for this signal.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many at most.")
@click.option("--before", type=JobId(), metavar="ID", help="Continue after the page that ended with this flow.")
@pass_invocation
def list_(
    cli: Invocation, /, status_: Any, awaited: str | None, limit: int, before: str | None, **filters: str | None
) -> None:
    """List the newest flows that match, newest first, and what each waits for.

    \b
    headway flows list --status waiting --awaits payment
    headway flows list --kind checkout --json | jq -r '.[].status' | sort | uniq -c
    """
    app = cli.existing
    given = {"status": status_ or ("waiting" if awaited else None), **filters}
    found, last = jobs_that(
        app, given, limit, before, lambda job: job.step == FLOW and (awaited is None or awaited in job.awaiting)
    )
    if cli.json:
        emit(found)
    elif found:
        rows = zip(found, since_when(app, found), strict=True)
        table(_COLUMNS, [[*_row(job), ago(since).removesuffix(" ago")] for job, since in rows])
    else:
        narrowed = quoted(as_flags({**given, "awaits": awaited}))
        note(f"no flows{' for ' + narrowed if narrowed else ''} in {app.store.describe()}")
    if last is not None and not cli.json:
        flags = as_flags({**given, "awaits": awaited, "limit": limit if limit != 50 else None, "before": last})
        few = f"looked at {LOOKED_AT:,} jobs (--kind finds flows faster); " if len(found) < limit else ""
        note(f"{few}next page: {cli.typed('flows', 'list', *flags)}")


_COLUMNS = (
    Column("ID"),
    Column("STATUS"),
    Column("FLOW", shrink=True),
    Column("VERSION", right=True, wide=100),
    Column("WAITS FOR", shrink=True, spare=True),
    Column("UNTIL", right=True, wide=110, spare=True),
    Column("QUEUE", shrink=True, wide=120),
    Column("KEY", shrink=True, wide=120, spare=True),
    Column("TENANT", shrink=True, wide=150),
    Column("SINCE", right=True),
)


def _row(job: Job) -> list[Cell]:
    return [
        job.id,
        status(job.status),
        job.kind,
        "–" if job.version is None else str(job.version),
        awaits(job),
        ago(job.deadline_at) if job.status == "waiting" and job.deadline_at else "",
        job.queue,
        job.unique_key or "",
        job.tenant,
    ]


@flows.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Include notes, and what does not count any more (dimmed).")
@click.option("--limit", type=click.IntRange(1, _MOST), default=100, show_default=True, help="How many rows.")
@pass_invocation
def show(cli: Invocation, /, job_id: str, everything: bool, limit: int) -> None:
    """Show a flow: what it has recorded, the latest last, and what it waits for now.

    Each line has the number of the row, the operation's place, how it ended, how often a step was tried and how long it
    took, and its value or error. --before of headway flows fork takes a place or a number.

    \b
    headway flows show 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    headway flows show ID --json | jq '.journal[] | [.seq, .place, .kind]'
    """
    from headway.cli.flows.flow_page import show_flow

    app = cli.existing
    job = app.get(job_id)
    rows = app.journal(job_id, everything=everything)
    # a table is of answers; what has none yet is said below
    rows = rows if everything or cli.json else [row for row in rows if row.is_answer]
    reasons = app.why(job_id).reasons
    shown = rows[-limit:]
    if cli.json:
        emit(merged(job, journal=shown, why=reasons))
        return
    show_flow(job, shown, reasons, earlier=len(rows) - len(shown))
    if job.status in ("dead", "failed", "canceled"):
        note(f"to run it again: {cli.typed('jobs', 'retry', job.id)}")


@flows.command()
@click.argument("ids", type=JobId(), metavar="[ID]...", nargs=-1)
@click.option("--kind", help="The unfinished flows of this kind, oldest first, instead of ids.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=1_000, show_default=True, help="With --kind: how many.")
@pass_invocation
def export(cli: Invocation, /, ids: tuple[str, ...], kind: str | None, limit: int) -> None:
    """Print flows with their journals as JSON lines, one flow a line: to replay them elsewhere.

    Values are as they are stored: secrets in them are not masked.

    \b
    headway flows export ID > flow.jsonl
    headway flows export --kind checkout > flows.jsonl
    """
    if bool(ids) == bool(kind):
        raise Refused("which flows? Give their ids, or --kind KIND", WRONG)
    app = cli.existing
    if kind is not None:
        ids = tuple(_unfinished(app, kind, limit))
        if not ids:
            note(f"no flow of kind {kind} is unfinished in {app.store.describe()}")
    for job_id in ids:
        _export(app, job_id)


def _unfinished(app: Headway, kind: str, limit: int) -> Iterator[str]:
    wanted = [name for name in STATUSES if name not in FINISHED]
    found, _ = jobs_that(app, {"kind": kind, "status": wanted}, limit, None, lambda job: job.step == FLOW)
    return (job.id for job in reversed(found))


def _export(app: Headway, job_id: str) -> None:
    import msgspec

    from headway.app.journal_rows import all_rows
    from headway.errors import NotAllowed

    job = app.get(job_id, raw=True)
    if job.step != FLOW:
        raise NotAllowed(f"job {job_id} ({job.kind}) is not a flow: it has no journal")
    rows = app.store.run(all_rows(app.store.ops, job.id))
    line = {
        "headway_flow": 1,  # the version of this format
        "id": job.id,
        "kind": job.kind,
        "version": job.version,
        "tenant": job.tenant,
        "status": job.status,
        "meta": job.meta,
        "payload": job.payload,
        "rows": [
            {name: value for name, value in msgspec.structs.asdict(row).items() if name != "job_id"} for row in rows
        ],
    }
    click.echo(msgspec.json.encode(line))


@flows.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option(
    "--before", metavar="PLACE|NUMBER|last-failure", required=True, help="The operation that the fork goes on with."
)
@click.option(
    "--result",
    "results",
    multiple=True,
    metavar="PLACE=JSON",
    help="What an earlier operation gave, instead of what it did.",
)
@pass_invocation
def fork(cli: Invocation, /, job_id: str, before: str, results: tuple[str, ...]) -> None:
    """Start a new flow that goes on before an operation of another one, and print its id; the other is not affected.

    What the other has recorded before that operation holds for the new one, too: these steps do not run again. It has
    no unique key, train or group. headway flows show lists places and numbers.

    \b
    headway flows fork ID --before charge
    headway flows fork ID --before last-failure
    headway flows fork ID --before 12 --result 'charge="ch_7"'
    """
    app = cli.existing
    made = app.fork(
        job_id, before=int(before) if before.isdecimal() else before, results=_given(results), actor=actor()
    )
    if cli.json:
        emit(made)
        return
    say(made.id)
    note(f"what it does: {cli.typed('flows', 'show', made.id)}")


def _given(results: tuple[str, ...]) -> dict[str, Any] | None:
    given: dict[str, Any] = {}
    for each in results:
        place, equals, text = each.partition("=")
        if not equals or not place:
            raise Refused(f"--result {each!r} is not PLACE=JSON, such as charge='\"ch_7\"'", WRONG)
        given[place] = Json().convert(text, None, click.get_current_context())
    return given or None


@flows.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option(
    "--from",
    "from_seq",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="The first row to take back. Default: where the code differs.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def accept(cli: Invocation, /, job_id: str, from_seq: int | None, yes: bool) -> None:
    """Let a flow go on with changed code, where it is set aside because that does not fit what it has recorded.

    What it has recorded from there on is taken back, and its signals are unread again: these operations run again.
    headway flows show --all lists what was taken back.

    \b
    headway flows accept ID
    headway flows accept ID --from 12 --yes
    """
    app = cli.existing
    if not yes:
        start = f"row {from_seq}" if from_seq is not None else "where its code differs"
        confirm(f"take back what flow {job_id} has recorded from {start} on, and run that again")
    start_seq = app.accept(job_id, from_seq, actor=actor())
    back = [
        row for row in app.journal(job_id, everything=True) if row.seq >= start_seq and row.is_answer and not row.counts
    ]
    if cli.json:
        emit({"id": job_id, "from_seq": start_seq, "status": app.get(job_id).status})
        return
    say(f"flow {job_id} goes on from row {start_seq}: {many(len(back), 'answer')} taken back")
    note(f"what it does: {cli.typed('flows', 'show', job_id)}")
