"""`headway machines`: list, steps, show, signal, inbox, fork, graph."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headway.cli.jobs.job_summary import awaits
from headway.cli.jobs.lists import LOOKED_AT, jobs_that, since_when
from headway.cli.program.click_classes import Group
from headway.cli.program.failure import Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Cell, Column, ago, emit, many, merged, note, say, status, table
from headway.cli.program.params import JobId, Json, Tenant, as_flags
from headway.model.journal import FLOW
from headway.model.status import STATUSES
from headway.shell import quoted

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.define.machine import MachineKind
    from headway.model.job import Job
    from headway.model.signal import Signal

_MOST = 10_000


@click.group(cls=Group, invoke_without_command=True, short_help="Look at machines, send them signals, fork them.")
@click.pass_context
def machines(ctx: click.Context) -> None:
    """Look at machines and operate on them: jobs of many steps.

    A machine is a job: headway jobs why, cancel, retry and change work on it too.

    \b
    headway machines list --status waiting
    headway machines show ID
    headway machines signal ID payment --payload '{"amount": 100}'
    headway machines graph myapp:app checkout
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@machines.command("list")
@click.option("--status", "status_", type=click.Choice(STATUSES), help="Only machines of this status.")
@click.option("--kind", help="Only machines of this kind.")
@click.option("--queue", help="Only machines of this queue.")
@click.option("--tenant", type=Tenant(), help="Only machines of this tenant.")
@click.option("--unique-key", help="Only machines with this unique key.")
@click.option("--parent", "parent_id", type=JobId(), metavar="ID", help="Only machines that this one spawned.")
@click.option("--awaits", "awaited", metavar="SIGNAL", help="Only machines that wait for this signal.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many at most.")
@click.option("--before", type=JobId(), metavar="ID", help="Continue after the page that ended with this machine.")
@pass_invocation
def list_(
    cli: Invocation, /, status_: Any, awaited: str | None, limit: int, before: str | None, **filters: str | None
) -> None:
    """List the newest machines that match, newest first: the step of each, and what it waits for.

    \b
    headway machines list --status waiting --awaits payment
    headway machines list --kind checkout --json | jq -r '.[].step' | sort | uniq -c
    """
    app = cli.existing
    given = {"status": status_ or ("waiting" if awaited else None), **filters}
    named = {kind.partition("@")[0] for worker in app.workers() for kind in worker.kinds if "@" in kind}

    def is_wanted(job: Job) -> bool:
        # a machine enqueued by name only has no step until it runs
        is_machine = job.step != FLOW if job.step is not None else job.kind in named
        return is_machine and (awaited is None or awaited in job.awaiting)

    found, last = jobs_that(app, given, limit, before, is_wanted)
    if cli.json:
        emit(found)
    elif found:
        table(_COLUMNS, [_row(job, since) for job, since in zip(found, since_when(app, found), strict=True)])
    else:
        narrowed = quoted(as_flags({**given, "awaits": awaited}))
        note(f"no machines{' for ' + narrowed if narrowed else ''} in {app.store.describe()}")
    if last is not None and not cli.json:
        flags = as_flags({**given, "awaits": awaited, "limit": limit if limit != 50 else None, "before": last})
        few = f"looked at {LOOKED_AT:,} jobs (--kind finds machines faster); " if len(found) < limit else ""
        note(f"{few}next page: {cli.typed('machines', 'list', *flags)}")


_COLUMNS = (
    Column("ID"),
    Column("STATUS"),
    Column("MACHINE", shrink=True),
    Column("VERSION", right=True, wide=100),
    Column("STEP", shrink=True),
    Column("AWAITS", shrink=True, spare=True),
    Column("UNTIL", right=True, wide=110, spare=True),
    Column("QUEUE", shrink=True, wide=120),
    Column("KEY", shrink=True, wide=120, spare=True),
    Column("TENANT", shrink=True, wide=150),
    Column("SINCE", right=True),
)


def _row(job: Job, since: datetime | None) -> list[Cell]:
    return [
        job.id,
        status(job.status),
        job.kind,
        "–" if job.version is None else str(job.version),
        job.step or "start",
        awaits(job),
        ago(job.deadline_at) if job.status == "waiting" and job.deadline_at else "",
        job.queue,
        job.unique_key or "",
        job.tenant,
        ago(since).removesuffix(" ago"),
    ]


@machines.command()
@click.option("--tenant", type=Tenant(), help="Only machines of this tenant.")
@pass_invocation
def steps(cli: Invocation, /, tenant: Any) -> None:
    """Count the unfinished machines at each step, by kind.

    \b
    headway machines steps
    """
    app = cli.existing
    found = (app if tenant is None else app.tenant(tenant)).step_counts()
    if cli.json:
        emit(found)
    elif not found:
        note(f"no machine is unfinished in {app.store.describe()}")
    else:
        columns = (Column("KIND", shrink=True), Column("STEP", shrink=True), Column("MACHINES", right=True))
        table(columns, [[each.kind, each.step, f"{each.count:,}"] for each in found])
        if found[0].more:
            note("there are more: of each status, 10,000 jobs were counted")


@machines.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many executions.")
@pass_invocation
def show(cli: Invocation, /, job_id: str, limit: int) -> None:
    """Show a machine: its step and state, and its executions as a timeline, the latest last.

    Each line has the fence, the step, how it ended and how long it ran; below it, for how long the machine then
    waited or slept, the signals that came, and the children. To fork it from one of them: headway machines fork.

    \b
    headway machines show 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    headway machines show ID --json | jq '.history[] | [.fence, .step, .outcome]'
    """
    app = cli.existing
    job = app.get(job_id)
    executions, signals = app.history(job_id), app.signals(job_id)
    shown = executions[-limit:]
    children = {each.fence: app.children(job_id, fence=each.fence) for each in shown if each.children}
    if cli.json:
        spawned = [
            {"fence": fence, "id": child.id, "kind": child.kind, "status": child.status, "error": child.error}
            for fence, those in children.items()
            for child in those
        ]
        emit(merged(job, history=shown, signals=signals, children=spawned))
        return
    if job.step == FLOW:
        note(f"it is a flow: {cli.typed('flows', 'show', job.id)}")
    if job.step is None:
        note(f"it has no step; if it is a plain job: {cli.typed('jobs', 'show', job.id)}")
    from headway.cli.jobs.job_page import result_file
    from headway.cli.machines.machine_page import show_machine

    attempts = app.attempts(job_id) if job.result is not None else []
    show_machine(job, shown, children, earlier=len(executions) - len(shown), result_file=result_file(job, attempts))
    _notes(cli, job, signals)


def _notes(cli: Invocation, job: Job, signals: list[Signal]) -> None:
    """What to do next."""
    if job.status == "waiting" and job.awaiting:
        note(f"to send it: {cli.typed('machines', 'signal', job.id, job.awaiting[0])}")
    left = [signal for signal in signals if signal.status != "consumed"]
    if left:
        note(f"{many(len(left), 'signal')} in its inbox: {cli.typed('machines', 'inbox', job.id)}")
    if job.status in ("dead", "failed", "canceled"):
        aim = "to continue it" if job.status == "canceled" else "to run its step again"
        note(f"{aim}: {cli.typed('jobs', 'retry', job.id)}")


@machines.command()
@click.argument("words", metavar="[ID] NAME", nargs=-1, required=True)
@click.option("--key", metavar="UNIQUE_KEY", help="The machine that has this unique key, instead of an ID.")
@click.option("--kind", help="With --key: its kind.")
@click.option("--tenant", type=Tenant(), help="With --key: whose machine it is. Default: the tenant of the settings.")
@click.option("--payload", type=Json(), metavar="JSON|@FILE", help="What comes with it. Default: null.")
@click.option("--dedup-key", metavar="KEY", help="The machine gets only one signal with this key.")
@pass_invocation
def signal(
    cli: Invocation,
    /,
    words: tuple[str, ...],
    key: str | None,
    kind: str | None,
    tenant: str | None,
    payload: Any,
    dedup_key: str | None,
) -> None:
    """Send a signal to a machine; it is durable when this returns, even if the machine does not await it yet.

    \b
    headway machines signal ID payment --payload '{"amount": 100}' --dedup-key evt-7
    headway machines signal ID report --payload @report.json
    headway machines signal --kind checkout --key order:42 payment
    """
    app = cli.existing
    if key is None:
        if len(words) != 2 or kind or tenant:
            raise click.UsageError("which machine? Give ID NAME, or NAME with --kind KIND --key UNIQUE_KEY")
        job_id = JobId().convert(words[0], None, click.get_current_context())
        sent = app.signal(job_id, words[1], payload, dedup_key=dedup_key)
    else:
        if len(words) != 1 or not kind:
            raise click.UsageError("with --key give the machine's --kind, and only the signal's NAME besides")
        from headway.define.signals import signal_to_key

        new = signal_to_key(kind, key, words[0], payload, dedup_key=dedup_key, tenant=tenant, limit=app.payload_limit)
        sent = app.signal_new(new, None)
    if cli.json:
        emit(sent)
        return
    if not sent.created:
        say(f"machine {sent.job_id} has had this dedup key already: nothing was sent")
        return
    say(f"signal {words[-1]} sent to machine {sent.job_id}")
    _tell(cli, app.get(sent.job_id), words[-1])


def _tell(cli: Invocation, job: Job, name: str) -> None:
    """What happens with a signal that the machine does not await now."""
    awaited = f"it waits for {awaits(job)} now" if job.status == "waiting" else f"it is {job.status} now"
    if name not in job.awaiting:
        note(f"{awaited}, and gets the signal when a step awaits it: {cli.typed('machines', 'inbox', job.id)}")


@machines.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Include consumed signals.")
@pass_invocation
def inbox(cli: Invocation, /, job_id: str, everything: bool) -> None:
    """List a machine's signals in order of arrival: pending ones, and undelivered ones, which no step had consumed when
    the machine ended.

    \b
    headway machines inbox ID --all
    headway machines inbox ID --json | jq '.[] | select(.name == "payment") | .payload'
    """
    app = cli.existing
    signals = app.signals(job_id)
    shown = [each for each in signals if everything or each.status != "consumed"]
    if cli.json:
        emit(shown)
        return
    if shown:
        table(_SIGNALS, [_signal(each) for each in shown])
    consumed = len(signals) - len(shown)
    if not signals:
        note("no signal was ever sent to it")
    elif consumed:
        empty = "" if shown else "its inbox is empty; "
        note(f"{empty}{many(consumed, 'signal')} consumed: {cli.typed('machines', 'inbox', job_id, '--all')}")


_SIGNALS = (
    Column("NAME", shrink=True),
    Column("STATUS"),
    Column("SENT", right=True),
    Column("FENCE", right=True),
    Column("DEDUP KEY", shrink=True, spare=True),
    Column("PAYLOAD", shrink=True),
)
_SIGNAL_COLORS = {"pending": "yellow", "consumed": "green", "undelivered": "red"}


def _signal(signal: Signal) -> list[Cell]:
    import json

    return [
        signal.name,
        (signal.status, _SIGNAL_COLORS[signal.status]),
        ago(signal.sent_at),
        "–" if signal.fence is None else str(signal.fence),
        signal.dedup_key or "",
        json.dumps(signal.payload, ensure_ascii=False),
    ]


@machines.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--at", "fence", type=int, metavar="FENCE", help="The execution to begin with. Default: the last one.")
@click.option(
    "--state", "new_state", type=Json(), metavar="JSON|@FILE", help="The state to begin with, instead of its own."
)
@click.option("--step", help="The step to begin with, instead of the one that the execution ran.")
@pass_invocation
def fork(cli: Invocation, /, job_id: str, fence: int | None, new_state: Any, step: str | None) -> None:
    """Start a new machine from a step of another one, and print its id; the other is not affected.

    It begins with the step that the execution with that fence ran, the state it began with, and the signals and
    children it saw; at another --step it sees neither. It has no unique key, train or group. headway machines show
    lists the fences.

    \b
    headway machines fork ID --at 3
    headway machines fork ID --at 3 --state '{"order": 42, "paid": true}'
    """
    from headway.errors import NotAllowed

    app = cli.existing
    try:
        made = app.fork(job_id, fence, new_state, step=step, actor=actor())
    except NotAllowed as error:
        if app.get(job_id).step is not None:
            raise
        again = cli.typed("jobs", "retry", job_id)
        raise NotAllowed(f"job {job_id} is a plain job, not a machine; to run it again: {again}") from error
    if cli.json:
        emit(made)
        return
    new = app.get(made.id)
    say(made.id)
    note(f"begins with step {new.step} of {new.kind} version {new.version}: {cli.typed('machines', 'show', made.id)}")


@machines.command()
@click.argument("spec", metavar="MODULE:APP")
@click.argument("name")
@click.option("--version", type=int, help="Which version. Default: the newest.")
@pass_invocation
def graph(cli: Invocation, /, spec: str, name: str, version: int | None) -> None:
    """Print a machine's steps and transitions as a Mermaid state diagram.

    They are read from the source of the steps, so a step that the code computes is not known. NAME is the machine's
    kind, or its class.

    \b
    headway machines graph myapp:app checkout
    headway machines graph myapp:app Checkout --version 1 > checkout.mmd
    """
    from headway.cli.program.load_app import load
    from headway.define.machine_graph import graph_of, mermaid

    kind = _machine(load(spec, cli.app_dir), spec, name)
    edition = kind.editions.get(version or max(kind.editions))
    if edition is None:
        known = ", ".join(map(str, sorted(kind.editions)))
        raise Refused(f"machine {kind.name} of {spec} has no version {version}: it has {known}")
    found = graph_of(edition, kind.name)
    if cli.json:
        emit(found)
        return
    click.echo(mermaid(found))
    if found.unread:
        note(f"the source of {', '.join(found.unread)} cannot be read: its transitions are missing")


def _machine(app: Headway, spec: str, name: str) -> MachineKind:
    import difflib

    from headway.define.machine import MachineKind

    found = [kind for kind in app.kinds if isinstance(kind, MachineKind)]
    for kind in found:
        if name == kind.name or name in {edition.machine.__name__ for edition in kind.editions.values()}:
            return kind
    known = [kind.name for kind in found]
    if not known:
        raise Refused(f"{spec} defines no machine: decorate a subclass of Machine with @app.machine")
    close = difflib.get_close_matches(name, known, 1)
    raise Refused(
        f"{spec} defines no machine {name}: "
        + (f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(known))}")
    )
