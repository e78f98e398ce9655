"""Command: what a `[commands.NAME]` section of headway.toml declares, read strictly."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from headway.commands.argument import BUILT_IN, Argument, read_argument
from headway.commands.param import Param, read_param
from headway.commands.scripts import field_in_script, language_of
from headway.define.toml_table import Table

DEFAULT_TIMEOUT = "3600s"
DEFAULT_GRACE = "10s"
DEFAULT_TAIL = "64KB"
SAFE_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
"""The PATH and LANG of a program whose command does not set them."""
KIND_OPTIONS = (
    *("queue", "priority", "max_attempts", "max_losses", "backoff", "delivery"),
    *("train", "partition", "concurrency", "concurrency_key", "rate", "rate_key", "burst", "enqueuer_may", "tags"),
    *("unique_key", "unique_by", "unique_scope", "unique_group", "unique_for", "on_conflict", "replace"),
    *("debounce", "debounce_max", "tenants"),
)
"""The options that the kind gets unchanged, as in `@app.job(…)`."""
KEYS = (
    *("argv", "params", "description", "timeout", "kill_grace", "cwd", "env", "set_env", "stdin", "result"),
    *("success_codes", "retry_codes", "stdout_tail", "stderr_tail", "max_output"),
    *("cpu_seconds", "memory", "files", "file_size"),
    *KIND_OPTIONS,
)
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TAIL_LIMIT = 1 << 20
_OWN_ENV = ("HEADWAY_JOB_ID", "HEADWAY_ATTEMPT", "HEADWAY_TRACE_ID", "TRACEPARENT", "TRACESTATE")


class Secret(msgspec.Struct, frozen=True):
    """The name of a secret, in place of its value."""

    name: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of the program may use; None: as much as the worker."""

    cpu: int | None = None  # seconds
    memory: int | None = None  # bytes of address space
    files: int | None = None
    file_size: int | None = None

    def given(self) -> dict[str, int]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """An allow-listed program with the shape of its arguments."""

    name: str
    where: str  # the file that declares it
    program: str
    arguments: tuple[Argument, ...]  # after the program
    params: dict[str, Param]
    description: str
    options: dict[str, Any]  # the kind's
    timeout_given: bool
    kill_grace_ms: int
    cwd: str | None
    env: tuple[str, ...]
    set_env: dict[str, str | Secret]
    stdin: Literal["none", "payload"]
    result: Literal["none", "json"]
    success_codes: frozenset[int]
    retry_codes: frozenset[int] | None
    stdout_tail: int
    stderr_tail: int
    max_output: int | None
    limits: Limits


def read_commands(values: Mapping[str, Any], where: str) -> list[Command]:
    """Every command of the section `commands`; raises `ConfigError`."""
    section = Table(values, where, "commands")
    return [read_command(name, Table(values[name], where, f"commands.{name}")) for name in section]


def read_command(name: str, table: Table) -> Command:
    """One section, checked; raises `ConfigError` with the file, the command and the key."""
    table.only(KEYS)
    program, arguments = _argv(table)
    options = {key: table.get(key) for key in KIND_OPTIONS if key in table}
    if isinstance(options.get("backoff"), list):
        options["backoff"] = tuple(options["backoff"])
    options["timeout"] = table.duration("timeout", DEFAULT_TIMEOUT) / 1_000
    codes = table.codes("success_codes")
    command = Command(
        name=name,
        where=table.where,
        program=program,
        arguments=arguments,
        params=_params(table, arguments),
        description=table.text("description", ""),
        options=options,
        timeout_given="timeout" in table,
        kill_grace_ms=table.duration("kill_grace", DEFAULT_GRACE),
        cwd=table.folder("cwd"),
        env=_env(table),
        set_env=_set_env(table),
        stdin=table.one_of("stdin", ("none", "payload"), "none"),  # type: ignore[arg-type]
        result=table.one_of("result", ("none", "json"), "none"),  # type: ignore[arg-type]
        success_codes=frozenset({0}) if codes is None else codes,
        retry_codes=table.codes("retry_codes"),
        stdout_tail=_tail(table, "stdout_tail"),
        stderr_tail=_tail(table, "stderr_tail"),
        max_output=table.size("max_output", least=1),
        limits=Limits(
            cpu=table.optional_integer("cpu_seconds", 1, 1 << 31),
            memory=table.size("memory", least=4 << 20),
            files=table.optional_integer("files", 3, 1 << 20),
            file_size=table.size("file_size"),
        ),
    )
    _check(command, table)
    return command


def _argv(table: Table) -> tuple[str, tuple[Argument, ...]]:
    items = table.texts("argv")
    if not items:
        raise table.fault(
            "argv", "is missing: give the program and its arguments, argv = ['/usr/bin/rsync', '{source}']"
        )
    try:
        arguments = [read_argument(item) for item in items]
    except ValueError as error:
        raise table.fault("argv", str(error)) from error
    program = arguments[0]
    if program.field is not None:
        raise table.fault("argv", f"has a placeholder in the program, {items[0]!r}: a payload never names the program")
    if not os.path.isabs(program.before):
        raise table.fault("argv", f"starts with {items[0]!r}: name the program by its absolute path")
    return program.before, tuple(arguments[1:])


def _params(table: Table, arguments: tuple[Argument, ...]) -> dict[str, Param]:
    declared = table.table("params")
    params: dict[str, Param] = {}
    for name in declared:
        if not _FIELD.match(name):
            raise declared.fault(name, "is not a name for a param: use letters, digits and '_', starting with a letter")
        if name in BUILT_IN:
            raise declared.fault(name, f"is built in, as are {', '.join(BUILT_IN)}: give it another name")
        params[name] = read_param(name, declared.table(name))
    for argument in arguments:
        if argument.field is not None and argument.field not in BUILT_IN and argument.field not in params:
            params[argument.field] = Param(name=argument.field, declared=False)
    return params


def _check(command: Command, table: Table) -> None:
    """Checks of several keys together."""
    field = field_in_script(command.program, command.arguments)
    if field is not None:
        raise table.fault(
            "argv",
            f"has {{{field}}} in a script of {language_of(command.program, command.arguments)}: the payload would be "
            "run as code. Keep the script fixed, and give the value as an argument after it",
        )
    used = {argument.field for argument in command.arguments}
    for name, param in command.params.items():
        place = table.table("params").table(name) if name in table.table("params") else table
        if name not in used and command.stdin != "payload":
            raise place.fault(
                None, f'is never used: put {{{name}}} into argv, or give the payload to it, stdin = "payload"'
            )
        if name in used and param.type == "json":
            raise place.fault("type", '= "json" cannot be an argument: it is for stdin = "payload"')
        if name in used and not param.required and param.default is None:
            raise place.fault("required", f"= false leaves {{{name}}} in argv empty: give it a default")
    if command.retry_codes is not None and command.success_codes & command.retry_codes:
        raise table.fault("retry_codes", "and success_codes share a code: an execution either succeeded or not")


def _env(table: Table) -> tuple[str, ...]:
    names = table.texts("env")
    for name in names:
        _check_env_name(table, "env", name)
    return names


def _set_env(table: Table) -> dict[str, str | Secret]:
    given = table.table("set_env")
    values: dict[str, str | Secret] = {}
    for name in given:
        _check_env_name(table, "set_env", name)
        match given.get(name):
            case str() as text if "\0" not in text:
                values[name] = text
            case {"$secret": str() as secret, **others} if secret and not others:
                values[name] = Secret(secret)
            case other:
                raise given.fault(name, f"is {other!r}: give a text, or {{ '$secret' = 'NAME' }}")
    return values


def _check_env_name(table: Table, key: str, name: str) -> None:
    if not _ENV_NAME.match(name):
        raise table.fault(key, f"has {name!r}, which is not the name of an environment variable")
    if name in _OWN_ENV:
        raise table.fault(key, f"has {name!r}, which the worker sets itself")


def _tail(table: Table, key: str) -> int:
    size = table.size(key, DEFAULT_TAIL)
    assert size is not None
    if size > _TAIL_LIMIT:
        raise table.fault(key, f"is over the limit of {_TAIL_LIMIT:,} bytes: let the program write a file")
    return size
