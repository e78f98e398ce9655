"""What cancel, retry and delete share: jobs are given by id or by filters, and each gets its own answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.confirm import confirm
from headway.cli.program.failure import FAILED, WRONG, Refused, describe
from headway.cli.program.invocation import Invocation
from headway.cli.program.output import emit, many, say
from headway.cli.program.params import given

if TYPE_CHECKING:
    from headway.app import Headway

Done = dict[str, Any]  # the result for one job, as in the JSON


def by_id(cli: Invocation, filters: Mapping[str, Any]) -> Headway:
    """The app, for jobs given by id."""
    if given(filters):
        raise Refused("ids and filters exclude each other: give ids, or filters such as --status", WRONG)
    return cli.existing


def by_filter(cli: Invocation, verb: str, filters: Mapping[str, Any]) -> Headway:
    """The app, for jobs given by filters."""
    if not given(filters):
        raise Refused(f"which jobs? Give their ids, or filters such as: headway jobs {verb} --status dead", WRONG)
    return cli.existing


def each_by_id(cli: Invocation, ids: tuple[str, ...], dry_run: bool, act: Callable[[str], Done]) -> None:
    """One by one, so that each gets its own answer; exits with 1 if one failed."""
    from headway.errors import HeadwayError

    done: list[Done] = []
    for job_id in ids:
        try:
            done.append({"id": job_id, "status": cli.app.get(job_id).status} if dry_run else act(job_id))
        except HeadwayError as error:
            if len(ids) == 1:
                raise
            done.append({"id": job_id, "error": describe(error)})
    if cli.json:
        emit(done)
    else:
        for each in done:
            say(("would touch: " if dry_run else "") + told(each))
    if any("error" in each for each in done):
        raise click.exceptions.Exit(FAILED)


def is_wanted(cli: Invocation, verb: str, matching: int, *, dry_run: bool, yes: bool) -> bool:
    """Whether to do it to this many jobs: asks, unless `yes`; a dry run only says how many."""
    if not dry_run:
        if matching and not yes:
            confirm(f"{verb} {many(matching)}", ", or look with --dry-run")
        return True
    if cli.json:
        emit({"dry_run": True, "jobs": matching})
    else:
        say(f"would {verb} {many(matching)}")
    return False


def told(each: Done) -> str:
    """The result for one job, for people."""
    if "error" in each:
        return f"{each['id']}  not done: {each['error']}"
    if "deleted" in each:
        return f"{each['id']}  deleted"
    if each.get("runs_as", each["id"]) != each["id"]:
        return f"{each['id']}  is retried by the new job {each['runs_as']}"
    now = each["status"]
    if "runs_as" in each:
        return f"{each['id']}  {'held until its turn comes' if now == 'held' else now}"
    return f"{each['id']}  {'running, asked to stop' if now == 'running' else now}"
