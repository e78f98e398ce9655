"""`headway commands`: the programs that headway.toml allows to run as jobs; list, show, check."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.failure import FAILED, Refused
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import Cell, Column, clean, console, emit, many, note, say, span, table
from headway.cli.program.page_parts import heading, title, values
from headway.shell import quoted

if TYPE_CHECKING:
    from headway.commands import Command, CommandKind, Finding
    from headway.commands.param import Param

_COLORS = {"error": "bold red", "warning": "yellow", "info": "dim"}


@click.group(cls=Group, invoke_without_command=True, short_help="See and check the programs of headway.toml.")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Look at the commands that headway.toml declares: programs that run as jobs, each a kind of that name.

    Only the worker's own file says what may run; a job's payload only fills in single arguments.

    \b
    headway commands check
    headway commands show backup
    headway enqueue backup '{"database": "shop"}'
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@commands.command("list")
@pass_invocation
def list_(cli: Invocation) -> None:
    """List the commands of headway.toml.

    \b
    headway commands list
    headway --config /etc/headway.toml commands list
    """
    found = _load(cli)
    if cli.json:
        emit([_as_json(kind) for kind in found])
    elif not found:
        note(f"{_path()} declares no commands: a section [commands.NAME] with an argv does")
    else:
        table(_COLUMNS, [_row(kind) for kind in found])


_COLUMNS = (
    Column("COMMAND", shrink=True),
    Column("QUEUE", shrink=True, wide=90),
    Column("TIMEOUT", right=True),
    Column("ARGV", shrink=True),
    Column("FOR", shrink=True, wide=110, spare=True),
)


def _row(kind: CommandKind) -> list[Cell]:
    command = kind.command
    return [command.name, kind.options.queue, _timeout(kind), quoted(_argv(command)), command.description]


@commands.command()
@click.argument("name")
@pass_invocation
def show(cli: Invocation, name: str) -> None:
    """Show everything about one command: what it runs, with which params, in which environment and limits.

    \b
    headway commands show backup
    headway commands show backup --json | jq .schema
    """
    found = {kind.name: kind for kind in _load(cli)}
    if name not in found:
        known = f"it has {', '.join(found)}" if found else "it has none"
        raise Refused(f"{_path()} declares no command {name}: {known}")
    if cli.json:
        emit(_as_json(found[name]))
        return
    _page(found[name])


def _page(kind: CommandKind) -> None:
    command = kind.command
    title(command.name, command.program)
    limits = command.limits
    values(
        [
            ("for", command.description),
            ("file", command.where),
            ("argv", quoted(_argv(command))),
            ("folder", command.cwd or "/"),
            ("queue", f"{kind.options.queue}, priority {kind.options.priority}"),
            ("attempts", f"at most {kind.options.max_attempts}"),
            ("timeout", f"{_timeout(kind)}, then {span(command.kill_grace_ms)} between SIGTERM and SIGKILL"),
            ("stdin", "the payload, as JSON" if command.stdin == "payload" else None),
            ("result", "its stdout, as JSON" if command.result == "json" else None),
            ("success", f"exit code {_codes(command.success_codes)}"),
            ("retried", None if command.retry_codes is None else f"exit code {_codes(command.retry_codes)} only"),
            ("kept", f"the last {_size(command.stdout_tail)} of stdout, {_size(command.stderr_tail)} of stderr"),
            ("output", f"killed after {_size(command.max_output)}" if command.max_output is not None else None),
            ("cpu", f"{limits.cpu:,} s for each process" if limits.cpu is not None else None),
            ("memory", f"{_size(limits.memory)} for each process" if limits.memory is not None else None),
            ("open files", f"{limits.files:,}" if limits.files is not None else None),
            ("file size", _size(limits.file_size) if limits.file_size is not None else None),
            ("environment", ", ".join([*command.env, *_set_env(command)]) or "PATH and LANG only"),
        ]
    )
    if command.params:
        heading("params")
        table(
            (Column("NAME"), Column("TYPE"), Column("NEEDED"), Column("RULES", shrink=True), Column("FOR", spare=True)),
            [
                [param.name, param.type, "yes" if param.required else "no", _rules(param), param.description]
                for param in command.params.values()
            ],
        )


@commands.command()
@pass_invocation
def check(cli: Invocation) -> None:
    """Check the commands of headway.toml on this host; exits with 1 if there are errors.

    An error keeps a command from working, or makes it unsafe; a warning may be intended.

    \b
    headway commands check
    headway --config /etc/headway.toml commands check --json | jq -r '.findings[].message'
    """
    from headway import commands as of_file

    declared = cli.settings.get("commands", {})
    if not os.path.exists(_path()):
        raise Refused(f"there is no file {_path()}: name another with --config or $HEADWAY_CONFIG")
    findings = of_file.check(declared, _path())
    errors = sum(finding.level == "error" for finding in findings)
    if cli.json:
        emit({"ok": not errors, "file": _path(), "commands": list(declared), "findings": findings})
    else:
        for finding in findings:
            _print(finding)
        summary = ", ".join(
            many(count, level)
            for level in ("error", "warning")
            if (count := sum(finding.level == level for finding in findings))
        )
        say(f"{many(len(declared), 'command')} in {_path()}: {summary or 'all is well'}")
    if errors:
        raise click.exceptions.Exit(FAILED)


def _print(finding: Finding) -> None:
    from rich.text import Text

    key = f" {finding.key}:" if finding.key else ""
    level = (f"{finding.level}: ", _COLORS[finding.level])
    console().print(Text.assemble(level, (f"[commands.{finding.command}]", "bold"), clean(f"{key} {finding.message}")))


def _load(cli: Invocation) -> list[CommandKind]:
    from headway import commands as of_file

    return of_file.load(cli.settings.get("commands", {}), _path())


def _path() -> str:
    from headway import config

    return str(config.path())


def _argv(command: Command) -> list[str]:
    """The argv as in the file, with its placeholders."""
    return [command.program, *(_argument(each) for each in command.arguments)]


def _argument(argument: Any) -> str:
    before, after = (text.replace("{", "{{").replace("}", "}}") for text in (argument.before, argument.after))
    return f"{before}{{{argument.field}}}{after}" if argument.field is not None else before


def _as_json(kind: CommandKind) -> dict[str, Any]:
    """What a command declares; of secrets only the names."""
    command, options = kind.command, kind.options
    return {
        "name": command.name,
        "description": command.description,
        "file": command.where,
        "argv": _argv(command),
        "schema": None if options.schema is None else options.schema.source,
        "queue": options.queue,
        "max_attempts": options.max_attempts,
        "timeout_ms": options.timeout_ms,
        "kill_grace_ms": command.kill_grace_ms,
        "cwd": command.cwd,
        "env": list(command.env),
        "set_env": _environment(command),
        "stdin": command.stdin,
        "result": command.result,
        "success_codes": sorted(command.success_codes),
        "retry_codes": None if command.retry_codes is None else sorted(command.retry_codes),
        "stdout_tail": command.stdout_tail,
        "stderr_tail": command.stderr_tail,
        "max_output": command.max_output,
        "limits": command.limits.given(),
    }


def _set_env(command: Command) -> list[str]:
    return [
        f"{name} from secret {value['$secret']}" if isinstance(value, dict) else f"{name}={quoted([value])}"
        for name, value in _environment(command).items()
    ]


def _environment(command: Command) -> dict[str, Any]:
    """The variables it sets, as in the file; values that look secret are masked even if they are plain text there."""
    from headway import secrets

    plain = {
        name: value if isinstance(value, str) else {"$secret": value.name} for name, value in command.set_env.items()
    }
    masked: dict[str, Any] = secrets.mask(plain)
    return masked


def _rules(param: Param) -> str:
    """What a value must satisfy besides its type."""
    rules = [
        ("one of " + ", ".join(map(str, param.choices))) if param.choices else "",
        f"matches {param.pattern}" if param.pattern is not None else "",
        f"in {param.under}" if param.under is not None else "",
        f"from {param.min}" if param.min is not None else "",
        f"to {param.max}" if param.max is not None else "",
        f"default {param.default}" if param.default is not None else "",
        "opened before it starts" if param.descriptor else "",
        "may begin with -" if param.allow_dash else "",
        "a secret, by reference" if param.secret else "",
    ]
    return ", ".join(rule for rule in rules if rule)


def _codes(codes: frozenset[int]) -> str:
    return ", ".join(f"{code}" for code in sorted(codes)) or "none"


def _timeout(kind: CommandKind) -> str:
    return span(kind.options.timeout_ms) if kind.options.timeout_ms else "none"


def _size(count: int | None) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count is not None and count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count:,} bytes"
