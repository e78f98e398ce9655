"""`headway doctor`: checks everything that can stop work, and says how to fix it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.failure import FAILED, diagnose
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import clean, console, emit, many

if TYPE_CHECKING:
    from headway.app.doctor.finding import Finding

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
    from headway.app.doctor.database import examine_database
    from headway.app.doctor.finding import ok, problem
    from headway.config import path
    from headway.errors import HeadwayError
    from headway.secrets import read

    try:
        found = sorted(cli.settings)
        yield ok("settings", f"readable ({', '.join(found) if found else 'none given: defaults'})")
        app = cli.app
        app.settings  # noqa: B018 - reads and checks them
        declared = read(cli.settings.get("secrets", {}), str(path()))
        app.store  # noqa: B018 - checks the URL
    except HeadwayError as error:
        yield problem("settings", str(error), "correct the flag, the HEADWAY_* variable or headway.toml")
        return
    if declared:
        yield _secrets(declared)
    try:
        yield from examine_database(app, cli.tenant)
    except HeadwayError as error:
        what, fix = diagnose(error)
        yield problem("reach", what, fix or "fix that, then run headway doctor again")


def _secrets(declared: Iterable[str]) -> Finding:
    from headway.app.doctor.finding import note, ok

    unset = sorted(name for name in declared if name.isidentifier() and name not in os.environ)
    if not unset:
        return ok("secrets", "those that are declared by name are set here")
    return note("secrets", f"declared, and not set here (a worker may have them): {', '.join(unset)}")


def _print(check: Finding) -> None:
    from rich.text import Text

    mark, style = _MARKS[check.status]
    out = console()
    out.print(Text.assemble((mark, style), f" {check.name:<12}", clean(check.detail)))
    if check.fix:
        out.print(Text.assemble("  " + " " * 12, ("fix: ", "bold"), clean(check.fix)))
