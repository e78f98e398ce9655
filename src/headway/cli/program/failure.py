"""Every way to fail: one message on stderr (a JSON object with --json), and the exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise

import click

from headway.printable import printable, printable_json

FAILED = 1
"""The command was right, but it did not work."""
WRONG = 2
"""A flag, an argument or a setting is wrong."""
INTERRUPTED = 130
BROKEN_PIPE = 141

# what PostgreSQL and its driver say, and what to do about it
_FIXES = (
    ("password authentication failed", "the user name or the password of the URL is wrong"),
    ("no password supplied", "the server asks for a password: put it into the URL, or into $PGPASSWORD"),
    ("no pg_hba.conf entry", "the server does not accept this user or host: add it to its pg_hba.conf"),
    ("connection refused", "no server listens there: start it, or correct host and port in the URL"),
    ("no such file or directory", "no server runs with that socket: start it, or correct the host in the URL"),
    ("failed to resolve host", "that host name does not exist: correct it in the URL"),
    ("name or service not known", "that host name does not exist: correct it in the URL"),
    ("could not translate host name", "that host name does not exist: correct it in the URL"),
    ("timeout", "nothing answers there: check host, port and firewall"),
    ("starting up", "the server is starting: try again in a moment"),
    ("too many clients", "the server has no connection left: raise max_connections, or use a pooler"),
)


class Refused(click.ClickException):
    """A failure that the command line itself reports."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def report(error: BaseException, args: Sequence[str]) -> int:
    """Print what went wrong, once; returns the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.ctx.get_help())
        return WRONG
    code, kind, message, hint = _judge(error)
    if _debugging(args) and not isinstance(error, click.UsageError | click.Abort):
        import traceback

        traceback.print_exception(error)
    if "--json" in args:
        import json

        failure = {"error": kind, "message": message, "exit_code": code}
        click.echo(printable_json(json.dumps(failure, ensure_ascii=False)), err=True)
    elif message:
        click.echo(click.style("error: ", fg="red", bold=True) + printable(message), err=True, color=_colors())
        if hint:
            click.echo(printable(hint), err=True)
    return code


def describe(error: BaseException) -> str:
    """An error's message; for an unreachable database, with the cause and what to do."""
    what, fix = diagnose(error)
    return f"{what}: {fix}" if fix else what


def diagnose(error: BaseException) -> tuple[str, str | None]:
    """What happened and, for an unreachable database, what to do about it."""
    cause = error.__cause__
    unreachable = type(cause).__name__ in ("CannotConnect", "OperationalError")
    if type(error).__name__ != "StoreUnavailable" or not unreachable:
        # the URL in it has its password masked, so nobody could run it
        return re.sub(r"headway --url \S*…\S* ", "headway ", str(error)), None
    text = str(cause).strip()
    where = str(error).partition(" cannot be used right now")[0]
    # psycopg lists the addresses it tried first; the reason comes last
    reason = text.splitlines()[0].rpartition("failed: ")[2].removeprefix("FATAL:").strip()
    fix = next((fix for sign, fix in _FIXES if sign in text.lower()), "check the URL and the server")
    if 'database "' in reason and "does not exist" in reason:
        fix = f"create it with: createdb {reason.partition(chr(34))[2].partition(chr(34))[0]}"
    return f"{where} cannot be reached: {reason}", fix


def _judge(error: BaseException) -> tuple[int, str, str, str]:
    from headway.errors import ConfigError, HeadwayError, InvalidJob, InvalidPayload, UnknownKind

    match error:
        case click.Abort():
            if isinstance(error.__cause__, KeyboardInterrupt):
                return INTERRUPTED, "Interrupted", "", ""
            return FAILED, "Aborted", "nothing was done", ""
        case click.UsageError():
            help_of = error.ctx.command_path if error.ctx else "headway"
            message = error.format_message()
            return WRONG, "UsageError", message[:1].lower() + message[1:], f"help: {help_of} --help"
        case Refused():
            return error.code, "Refused", error.message, ""
        case ConfigError() | InvalidJob() | InvalidPayload() | UnknownKind():
            return WRONG, type(error).__name__, str(error), ""
        case HeadwayError():
            return FAILED, type(error).__name__, describe(error), ""
        case _:
            first = str(error).strip().splitlines()[:1]
            message = f"unexpected {type(error).__name__}{': ' + first[0] if first else ''}"
            return FAILED, type(error).__name__, message, "for the stack trace add: --log-level debug"


def _debugging(args: Sequence[str]) -> bool:
    if "--log-level=debug" in args or os.environ.get("HEADWAY_LOG_LEVEL", "").lower() == "debug":
        return True
    return any(pair == ("--log-level", "debug") for pair in pairwise(args))


def _colors() -> bool | None:
    return False if os.environ.get("NO_COLOR") or not sys.stderr.isatty() else None
