"""`headway trains`: list, show, hold, resume, skip, clear."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import Cell, Column, ago, emit, many, merged, note, say, status, table
from headway.cli.program.params import Tenant
from headway.shell import arguments

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.app.verbs import Verbs
    from headway.model.train import Train

_MOST = 10_000

_tenant = click.option("--tenant", type=Tenant(), help="The tenant it belongs to. Default: that of the settings.")


@click.group(cls=Group, invoke_without_command=True, short_help="Look at trains, hold and resume them.")
@click.pass_context
def trains(ctx: click.Context) -> None:
    """Look at trains and operate on them: jobs that run one after another, in order.

    The cars of a train are jobs: headway jobs move changes their order, headway jobs retry runs a dead one again.

    \b
    headway trains list --blocked
    headway trains show dest_42
    headway trains resume dest_42
    headway trains skip ID
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@trains.command("list")
@click.option("--blocked", is_flag=True, help="Only those on hold.")
@click.option("--tenant", type=Tenant(), help="Only trains of this tenant. Default: of all.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many at most.")
@click.option("--after", metavar="NAME", help="Continue after the page that ended with this train.")
@pass_invocation
def list_(cli: Invocation, /, blocked: bool, tenant: str | None, limit: int, after: str | None) -> None:
    """List the trains that have unfinished jobs or are on hold, by name.

    The head of a train is the job that runs or may run now, or else the first that waits.

    \b
    headway trains list --blocked
    headway trains list --blocked --json | jq -r '.[].train' | xargs -d '\\n' headway trains resume
    """
    app = cli.existing
    found, more = _page(app, blocked, tenant, limit, after)
    if cli.json:
        emit([merged(train, blocked=train.blocked) for train in found])
        return
    if not found:
        which = " on hold" if blocked else ""
        of = f" of tenant {tenant}" if tenant else ""
        note(f"no train{of}{which}{f' after {after}' if after else ''} in {app.store.describe()}")
        return
    table(_columns(cli, found), [_row(train) for train in found])
    standing = next((train for train in found if train.blocked), None)
    if standing is not None:
        note(f"to see why, and what to do: {cli.typed(*_command(cli, 'show', standing))}")
    if more:
        flags = ["--blocked"] if blocked else []
        flags += ["--tenant", str(tenant)] if tenant else []
        flags += ["--limit", str(limit)] if limit != 50 else []
        note(f"next page: {cli.typed('trains', 'list', *flags, '--after', found[-1].train)}")


def _page(app: Headway, blocked: bool, tenant: str | None, limit: int, after: str | None) -> tuple[list[Train], bool]:
    """A page, and whether there is a next. It includes all trains of its last name, because `after` skips that name."""
    found = app.trains(blocked=blocked or None, tenant=tenant, limit=min(limit + 1, _MOST), after=after)
    if len(found) <= limit:
        return found, len(found) == _MOST
    last, rest = found[limit - 1].train, found[limit].train
    if last != rest:
        return found[:limit], True
    namesakes = named(app, last, blocked=blocked or None)
    return [train for train in found if train.train != last] + namesakes, True


def _columns(cli: Invocation, found: list[Train]) -> list[Column]:
    # commands on another tenant's train must name that tenant
    foreign = any(train.tenant != cli.tenant for train in found)
    return [
        Column("TRAIN", shrink=True),
        Column("TENANT", shrink=True, wide=0 if foreign else 130),
        Column("JOBS", right=True),
        Column("HEAD", wide=120),
        Column("STATUS"),
        Column("KIND", shrink=True),
        Column("AGE", right=True),
        Column("NOTE", shrink=True),
    ]


def _row(train: Train) -> list[Cell]:
    return [
        train.train,
        train.tenant,
        f"{train.length:,}",
        train.head_id or "–",
        status(train.head_status) if train.head_status else "–",
        train.head_kind or "–",
        ago(train.head_since).removesuffix(" ago"),
        _remark(train),
    ]


def _remark(train: Train) -> Cell:
    hold = train.hold
    if hold is None:
        return "waits for other jobs" if train.head_pending else ""
    reason = hold.reason or (f"by {hold.actor}" if hold.actor else "")
    if hold.job_id is not None:
        # the id is too long for a cell, and `show` has it
        reason = reason.replace(f"job {hold.job_id}", "a job")
    since = ago(hold.since).removesuffix(" ago")
    return f"on hold {since}" + (f": {reason}" if reason else ""), "bold yellow"


@trains.command()
@click.argument("name")
@_tenant
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True, help="How many jobs at most.")
@pass_invocation
def show(cli: Invocation, /, name: str, tenant: str | None, limit: int) -> None:
    """Show a train: whether it is on hold and why, and its jobs in their order.

    \b
    headway trains show dest_42
    headway trains show dest_42 --tenant acme --json | jq -r '.cars[].id'
    """
    app, verbs = _whose(cli, tenant)
    cars = verbs.train(name, limit=limit)
    train = _one(cli, app, name, tenant)
    if train is None:
        raise Refused(_missing(cli, app, name, tenant, "show"))
    if cli.json:
        emit(merged(train, blocked=train.blocked, cars=cars))
        return
    from headway.cli.order.train_page import show_train

    show_train(cli, train, cars, partial(_command, cli))


@trains.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_tenant
@click.option("--reason", help="The reason, for people who look at it.")
@pass_invocation
def hold(cli: Invocation, /, names: tuple[str, ...], tenant: str | None, reason: str | None) -> None:
    """Put trains on hold: a running job continues to its end, and no further one starts.

    \b
    headway trains hold dest_42 --reason "moving the disk"
    """
    app, verbs = _whose(cli, tenant)
    for name in names:
        before = _one(cli, app, name, tenant)
        verbs.hold_train(name, reason=reason, actor=actor())
        if cli.json:
            continue
        if before is None:
            say(f"{name}: on hold")
            note(f"nothing of it waits yet: {_missing(cli, app, name, tenant, 'hold')}")
        elif before.hold is not None:
            say(f"{name}: was on hold already, since {ago(before.hold.since)}")
        else:
            under_way = before.head_status not in (None, "held")
            say(f"{name}: on hold" + (f"; job {before.head_id} ({before.head_status}) may finish" if under_way else ""))
    _answer(cli, app, names, tenant)


@trains.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_tenant
@pass_invocation
def resume(cli: Invocation, /, names: tuple[str, ...], tenant: str | None) -> None:
    """Resume trains on hold with their next job. To run the dead one again: headway jobs retry.

    \b
    headway trains resume dest_42
    """
    app, verbs = _whose(cli, tenant)
    for name in names:
        resumed = verbs.resume_train(name, actor=actor())
        if cli.json:
            continue
        train = _one(cli, app, name, tenant)
        if resumed:
            say(f"{name}: resumed" + (f", next is job {train.head_id}" if train else ", and empty"))
        else:
            say(f"{name}: was not on hold")
            if train is None:
                note(_missing(cli, app, name, tenant, "resume"))
    _answer(cli, app, names, tenant)


@trains.command()
@click.argument("job_id", metavar="JOB_ID")
@pass_invocation
def skip(cli: Invocation, job_id: str) -> None:
    """Take a job out of its train, which then continues.

    A waiting job is canceled; a finished one that put its train on hold stays as it is.

    \b
    headway trains skip 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10
    """
    app = cli.existing
    now = app.skip(job_id, actor=actor())
    job = app.get(job_id)
    assert job.train is not None
    train = next(iter(named(app, job.train, tenant_id=job.tenant_id)), None)
    blocked = train is not None and train.blocked
    if cli.json:
        emit({"id": job.id, "status": now, "train": job.train, "tenant": job.tenant, "blocked": blocked})
    else:
        say(f"job {job.id} is {now}, train {job.train} " + ("is still on hold" if blocked else "continues without it"))


@trains.command()
@click.argument("name")
@_tenant
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@pass_invocation
def clear(cli: Invocation, /, name: str, tenant: str | None, yes: bool) -> None:
    """Cancel every job of a train but the running one, and end its hold.

    \b
    headway trains clear dest_42
    headway trains clear dest_42 --tenant acme --yes
    """
    app, verbs = _whose(cli, tenant)
    train = _one(cli, app, name, tenant)
    if train is None:
        raise Refused(_missing(cli, app, name, tenant, "clear"))
    waiting = train.length - (train.head_status == "running")
    if waiting and not yes:
        confirm(f"cancel {many(waiting)} of train {name}")
    ids = verbs.clear_train(name, actor=actor())
    if cli.json:
        emit({"train": name, "tenant": train.tenant, "canceled": ids})
        return
    ends = "; its hold is over" if train.hold is not None else ""
    runs = f"; job {train.head_id} is running and continues" if train.head_status == "running" else ""
    say(f"{name}: {many(len(ids))} canceled{ends}{runs}")


def named(app: Headway, name: str, *, tenant_id: str | None = None, blocked: bool | None = None) -> list[Train]:
    """The trains of this name: one tenant's, or all."""
    op = app.store.ops.trains(tenant_id=tenant_id, train=name, blocked=blocked, limit=_MOST, after=None)
    return app.store.run(op)


def _whose(cli: Invocation, tenant: str | None) -> tuple[Headway, Verbs]:
    app = cli.existing
    return app, app if tenant is None else app.tenant(tenant)


def _one(cli: Invocation, app: Headway, name: str, tenant: str | None) -> Train | None:
    from headway.define.keys import literal

    literal(name, "train")
    return next(iter(named(app, name, tenant_id=app._id_of(str(tenant or cli.tenant)))), None)


def _missing(cli: Invocation, app: Headway, name: str, tenant: str | None, verb: str) -> str:
    """That there is no such train, and which similar one there is."""
    others = named(app, name)
    what = f"tenant {tenant or cli.tenant} has no train {name} with unfinished jobs, or on hold"
    if others:
        return f"{what}; tenant {others[0].tenant} has: {cli.typed(*_command(cli, verb, others[0]))}"
    return f"{what}: {cli.typed('trains', 'list')} shows which there are"


def _command(cli: Invocation, verb: str, train: Train) -> list[str]:
    """The words of a command about this train."""
    of = None if train.tenant == cli.tenant else train.tenant
    return ["trains", verb, *arguments([train.train], {"tenant": of})]


def _answer(cli: Invocation, app: Headway, names: tuple[str, ...], tenant: str | None) -> None:
    if cli.json:
        answers: list[Any] = []
        for name in names:
            train = _one(cli, app, name, tenant)
            empty = {"train": name, "tenant": tenant or cli.tenant, "length": 0, "hold": None, "blocked": False}
            answers.append(empty if train is None else merged(train, blocked=train.blocked))
        emit(answers)
