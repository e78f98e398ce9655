"""check: what is or may be wrong with the commands of headway.toml, on this host and in general."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from headway import secrets
from headway.commands.argument import BUILT_IN, Argument
from headway.commands.command import DEFAULT_TIMEOUT, Command, Secret, read_command
from headway.commands.kind import CommandKind
from headway.commands.scripts import is_shell, language_of
from headway.define.toml_table import Table
from headway.errors import ConfigError

Level = Literal["error", "warning", "info"]


class Finding(msgspec.Struct, frozen=True):
    """One finding; with an error the command cannot work, or is not safe."""

    level: Level
    command: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: [commands.{self.command}] {self.key}: {self.message}"


def check(values: Mapping[str, Any], path: str, *, env: Mapping[str, str] | None = None) -> list[Finding]:
    """All findings on these commands, errors first; raises `ConfigError` only if the section is not a table. `env` is
    the worker's environment, if it is not this process's."""
    section = Table(values, path, "commands")
    findings = list(_of_file(path))
    for name in section:
        try:
            command = read_command(name, Table(values[name], path, f"commands.{name}"))
            CommandKind(command)
        except ConfigError as error:
            findings.append(Finding("error", name, "", str(error).removeprefix(f"{path}: [commands.{name}]").strip()))
        else:
            findings += (Finding(level, name, key, message) for level, key, message in _of(command, env or os.environ))
    order = ("error", "warning", "info")
    return sorted(findings, key=lambda finding: order.index(finding.level))


Said = tuple[Level, str, str]


def _of_file(path: str) -> Iterator[Finding]:
    if os.path.isfile(path) and os.stat(path).st_mode & stat.S_IWOTH:
        yield Finding("error", "*", "", f"{path} can be changed by everybody, and so can what runs: chmod o-w {path}")


def _of(command: Command, env: Mapping[str, str]) -> Iterator[Said]:
    yield from _program(command.program)
    yield from _scripts(command)
    yield from _placeholders(command)
    if command.cwd is not None and not os.path.isdir(command.cwd):
        yield "error", "cwd", f"{command.cwd} is not a folder on this host"
    if not command.timeout_given:
        yield (
            "warning",
            "timeout",
            f"is not given: a program that hangs is killed after the default of {DEFAULT_TIMEOUT}",
        )
    for name in command.env:
        if name not in env:
            yield "warning", "env", f"{name} is not set here: the program will not have it"
        if name.startswith("HEADWAY_"):
            yield "warning", "env", f"{name} is a setting of the worker: does the program need it?"
    for name, value in command.set_env.items():
        if isinstance(value, Secret):
            if value.name not in env:
                yield (
                    "warning",
                    "set_env",
                    f"the secret {value.name} is not set here: a worker without it fails the job",
                )
        elif secrets.is_secret_name(name):
            yield "warning", "set_env", f"{name} looks like a secret: write {{ '$secret' = 'NAME' }} and set NAME"


def _program(program: str) -> Iterator[Said]:
    real = os.path.realpath(program)
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        yield "error", "argv", f"the program {program} cannot be found on this host: {error.strerror}"
        return
    if not stat.S_ISREG(mode):
        yield "error", "argv", f"the program {program} is not a file"
    elif not os.access(real, os.X_OK):
        yield "error", "argv", f"the program {program} is not executable: chmod +x {real}"
    if real != program:
        yield "info", "argv", f"{program} leads to {real}: a worker refuses to run it once that changes"
    for place in _places(program, real):
        mode = os.stat(place).st_mode
        # in a sticky folder, like /tmp, only the owner can replace a file
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            yield "error", "argv", f"{place} can be changed by everybody, and so can what runs: chmod o-w {place}"


def _places(*paths: str) -> list[str]:
    """The files and every folder above them, each once."""
    found: dict[str, None] = {}
    for path in paths:
        while True:
            if os.path.exists(path):
                found[path] = None
            if path == os.path.dirname(path):
                break
            path = os.path.dirname(path)
    return list(found)


def _scripts(command: Command) -> Iterator[Said]:
    language = language_of(command.program, command.arguments)
    if language is not None and is_shell(language):
        yield (
            "warning",
            "argv",
            f"runs the shell {language}: prefer the program itself, or a script file with a #! line",
        )
    if os.path.basename(command.program) == "ssh" and any(argument.field for argument in command.arguments):
        yield "warning", "argv", "ssh joins its arguments for a shell on the other side: a value can be code there"


def _placeholders(command: Command) -> Iterator[Said]:
    guarded = False
    for argument in command.arguments:
        guarded = guarded or argument == Argument("--")
        if argument.field is None or argument.field in BUILT_IN:
            continue
        param = command.params[argument.field]
        if param.allow_dash and not argument.before and not guarded:
            yield (
                "warning",
                f"params.{param.name}",
                "allow_dash lets a value be an option of the program: put '--' before it in argv, if the program can",
            )
        if param.secret:
            yield (
                "warning",
                f"params.{param.name}",
                "is a secret among the arguments, which every user of the host can see: use set_env or stdin",
            )
        if param.type == "path" and param.under is None:
            yield "warning", f"params.{param.name}", "may be any path: set under = '/some/folder'"
    declared = [name for name, param in command.params.items() if param.declared]
    for name, param in command.params.items():
        close = difflib.get_close_matches(name, [*declared, *BUILT_IN], 1)
        if not param.declared and (declared or close):
            hint = f": did you mean {{{close[0]}}}?" if close else ""
            yield "warning", "argv", f"{{{name}}} is not in params, and so a required text{hint}"
