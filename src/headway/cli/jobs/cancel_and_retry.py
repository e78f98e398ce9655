"""`headway jobs cancel` and `headway jobs retry`: by id, or everything that matches a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from headway.cli.jobs.several_jobs import Done, by_filter, by_id, each_by_id, is_wanted, told
from headway.cli.program.click_classes import Command
from headway.cli.program.failure import FAILED, WRONG, Refused, describe
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import console, emit, many, note, say
from headway.cli.program.params import Duration, JobId, JsonObject, Moment, bulk_options, filter_options, given

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.define.option_types import RetryChanges
    from headway.model.job import Job

_PAGE = 500

Act = Callable[["Headway", Sequence[str]], list[Done]]


@click.command(cls=Command)
@click.argument("ids", type=JobId(), metavar="[ID]...", nargs=-1)
@filter_options
@click.option("--reason", help="Why, for the job's error and the audit trail.")
@click.option("--now", is_flag=True, help="End flows that have begun without letting them undo what they did.")
@bulk_options
@pass_invocation
def cancel(
    cli: Invocation,
    /,
    ids: tuple[str, ...],
    reason: str | None,
    now: bool,
    limit: int | None,
    dry_run: bool,
    yes: bool,
    **filters: Any,
) -> None:
    """Cancel jobs at once; running ones, and flows that have begun, are asked to stop.

    A flow that is asked may undo what it did; a second cancel, or --now, ends it without that.

    \b
    headway jobs cancel ID ID --reason "sent by hand"
    headway jobs cancel --status queued --kind newsletter --dry-run
    """

    def act(app: Headway, some: Sequence[str]) -> list[Done]:
        from headway.app.bulk import in_words

        matching = None if ids else in_words(filters)
        op = app.store.ops.cancel(some, tenant_id=None, reason=reason, actor=actor(), matching=matching, at_once=now)
        return [{"id": job_id, "status": status} for job_id, status in app.store.run(op).items()]

    if ids:
        app = by_id(cli, filters)
        each_by_id(cli, ids, dry_run, lambda job_id: {
            "id": job_id, "status": app.cancel(job_id, reason=reason, at_once=now, actor=actor())
        })  # fmt: skip
    else:
        from headway.model.status import FINISHED

        _bulk(cli, "cancel", filters, limit, dry_run, yes, lambda job: job.status not in FINISHED, act)


@click.command(cls=Command)
@click.argument("ids", type=JobId(), metavar="[ID]...", nargs=-1)
@filter_options
@click.option("--keep-place", is_flag=True, help="Give each its old place in the line, ahead of what waits now.")
@click.option("--scheduled-for", type=Moment(), help="One job: run it no sooner than this time.")
@click.option("--delay", type=Duration(), help="One job: run it no sooner than in this time.")
@click.option("--max-attempts", type=int, help="One job: how many failures it may have.")
@click.option("--payload", type=JsonObject(), help="One job: new arguments; not for a machine.")
@bulk_options
@pass_invocation
def retry(
    cli: Invocation,
    /,
    ids: tuple[str, ...],
    keep_place: bool,
    limit: int | None,
    dry_run: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Run finished jobs again, with a full budget; an at_most_once job is retried by a new job.

    One job gets its old place in the line back, several go to the end; jobs that waited for others wait again.

    \b
    headway jobs retry ID
    headway jobs retry ID --delay 10m --max-attempts 3
    headway jobs retry --status dead --kind welcome --created-after 1d --yes
    """
    changes: Any = given({name: options.pop(name) for name in ("scheduled_for", "delay", "max_attempts", "payload")})
    filters = options
    if changes and len(ids) != 1:
        raise Refused("a time, a budget or a payload is for one job: give its id", WRONG)

    def act(app: Headway, some: Sequence[str]) -> list[Done]:
        from headway.app.bulk import in_words
        from headway.errors import Duplicate

        try:
            keeps = keep_place or len(ids) == 1
            matching = None if ids else in_words(filters)
            op = app.store.ops.retry(some, tenant_id=None, actor=actor(), keep_place=keeps, matching=matching)
            return [{"id": job_id, "runs_as": runs_as} for job_id, runs_as in app.store.run(op).items()]
        except Duplicate as error:
            if len(some) == 1:
                return [{"id": some[0], "error": str(error)}]
            # one job whose key is taken makes the store refuse the whole batch: halve it to find that job
            half = len(some) // 2
            return act(app, some[:half]) + act(app, some[half:])

    if len(ids) == 1 or (ids and dry_run):
        app = by_id(cli, filters)
        each_by_id(cli, ids, dry_run, lambda job_id: _retried(app, job_id, changes))
    elif ids:
        app = by_id(cli, filters)
        # in one batch, so that those that wait for each other do so again
        done = _together(app, ids, act)
        each_by_id(cli, ids, dry_run, lambda job_id: done[job_id])
    else:
        from headway.model.status import FINISHED

        _bulk(cli, "retry", filters, limit, dry_run, yes, lambda job: job.status in FINISHED, act)


def _retried(app: Headway, job_id: str, changes: RetryChanges) -> Done:
    runs_as = app.retry(job_id, actor=actor(), **changes)
    # a car may have to wait for its train
    return {"id": job_id, "runs_as": runs_as, "status": app.get(runs_as).status}


def _together(app: Headway, ids: Sequence[str], act: Act) -> dict[str, Done]:
    """The result for each of them that is a finished job."""
    from headway.errors import HeadwayError
    from headway.model.status import FINISHED

    done: dict[str, Done] = {}
    finished: list[str] = []
    for job_id in ids:
        try:
            job = app.get(job_id)
        except HeadwayError as error:
            done[job_id] = {"id": job_id, "error": describe(error)}
            continue
        if job.status in FINISHED:
            finished.append(job_id)
        else:
            done[job_id] = {"id": job_id, "error": f"job {job_id} is {job.status}: only a finished job can be retried"}
    for each in act(app, sorted(set(finished))) if finished else []:
        done[each["id"]] = each if "error" in each else {**each, "status": app.get(each["runs_as"]).status}
    return done


def _bulk(
    cli: Invocation,
    verb: str,
    filters: dict[str, Any],
    limit: int | None,
    dry_run: bool,
    yes: bool,
    wanted: Callable[[Job], bool],
    act: Act,
) -> None:
    """Count the matching jobs, ask, and go through them page by page."""
    app = by_filter(cli, verb, filters)
    matching = sum(1 for _ in _first(app, filters, limit, wanted))
    if not is_wanted(cli, verb, matching, dry_run=dry_run, yes=yes):
        return
    # the oldest first: what waits for another comes after it
    ids = sorted(_first(app, filters, limit, wanted))
    done: list[Done] = []
    with _progress(len(ids), quiet=cli.json) as advance:
        for at in range(0, len(ids), _PAGE):
            some = ids[at : at + _PAGE]
            done += act(app, some)
            advance(len(some))
    refused = [each for each in done if "error" in each]
    if cli.json:
        emit({"dry_run": False, "jobs": len(done) - len(refused), "refused": refused})
    else:
        past = {"cancel": "canceled or asked to stop", "retry": "will run again"}[verb]
        count = len(done) - len(refused)
        say(f"{many(count)} {past}")
        for each in refused[:20]:
            note(told(each))
        if len(refused) > 20:
            note(f"… and {len(refused) - 20:,} more were refused")
    if refused:
        raise click.exceptions.Exit(FAILED)


def _first(app: Headway, filters: dict[str, Any], limit: int | None, wanted: Callable[[Job], bool]) -> Iterator[str]:
    """The ids of all jobs that match, or of the oldest of them. An empty page is the end: a page may end early."""
    last: Job | None = None
    while page := app.jobs(limit=_PAGE, order="newest" if limit is None else "oldest", after=last, **filters):
        last = page[-1]
        for job in filter(wanted, page):
            yield job.id
            if limit is not None:
                limit -= 1
                if not limit:
                    return


class _progress:  # noqa: N801 - used like a function
    """A progress bar on stderr, if that is a terminal; entering it returns the function that advances it."""

    def __init__(self, total: int, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        out = console(stderr=True)
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=out,
            transient=True,
            disable=quiet or not out.is_terminal,
        )
        self._total = total

    def __enter__(self) -> Callable[[int], None]:
        self._bar.start()
        task = self._bar.add_task("", total=self._total)
        return lambda by: self._bar.advance(task, by)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
