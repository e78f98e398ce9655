"""Tables under a prefix, for a file that an application shares with tables of its own.

Statements are written for tables without a prefix. If a store has one, each text is renamed once, here, on its way to a
connection; a table keeps its plain name as an alias, so that the rest of the statement stays valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from headway.errors import ConfigError
from headway.store.ops import Batch, Rows, Statement
from headway.store.sqlite.engine.connection import Connection
from headway.store.sqlite.engine.statements import ROOT

R = TypeVar("R")
Request = Statement | Batch

_ENGINE = ROOT / "engine"
_PREFIX = re.compile("(?!sqlite)[a-z_][a-z0-9_]{0,31}")
_MADE = re.compile(r"^create (?:unique )?(table|index|trigger) (?:if not exists )?(\w+)", re.MULTILINE)
_TEXT = r"'(?:[^']|'')*'"
_USED = r"from|join|into|update(?: or [a-z]+)?|indexed by"
_DEFINED = r"table if not exists|(?:table|index|trigger)(?: if exists)?|rename to|on|from|into|update"


def check_prefix(prefix: str) -> str:
    """The prefix, if it is valid; raises `ConfigError`."""
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"prefix={prefix!r} cannot begin the name of a table: use up to 32 lower case letters, digits and _, "
            "such as headway_"
        )
    return prefix


@cache
def _made() -> dict[str, str]:
    """What the schema creates: tables, indexes and triggers, by name."""
    texts = [path.read_text("utf-8") for path in (*(_ENGINE / "migrations").rglob("*.up.sql"), _ENGINE / "migrate.sql")]
    return {name: what for text in texts for what, name in _MADE.findall(text)}


@cache
def _mentions(words: str) -> re.Pattern[str]:
    """Finds string literals, and names of the schema behind one of these words."""
    names = "|".join(_made())
    return re.compile(rf"(?P<text>{_TEXT})|\b(?P<word>{words}) (?P<name>{names})\b(?!\.)(?P<alias> as\b)?")


@cache
def renamed(sql: str, prefix: str) -> str:
    """The statement with the prefix on its tables, indexes and triggers."""
    defines = sql.startswith(("create ", "drop ", "alter "))

    def rename(found: re.Match[str]) -> str:
        text, word, name, alias = found.group("text", "word", "name", "alias")
        if text is not None:  # it may be the name of a table, looked up in sqlite_master
            return f"'{prefix}{text[1:-1]}'" if text[1:-1] in _made() else str(text)
        if alias is None:
            alias = "" if defines or word == "indexed by" else f" as {name}"
        return f"{word} {prefix}{name}{alias}"

    return _mentions(_DEFINED if defines else _USED).sub(rename, sql)


def under(prefix: str, execute: Callable[[Request], R]) -> Callable[[Request], R]:
    """An `execute`, blocking or async, that runs statements on the tables with this prefix."""
    if not prefix:
        return execute

    def run(request: Request) -> R:
        sql = renamed(request.sql, prefix)
        return execute(Statement(sql, request.params) if isinstance(request, Statement) else Batch(sql, request.rows))

    return run


def prefixed(conn: Connection, prefix: str) -> Connection:
    """The connection for a store with this prefix; itself without one."""
    return _Prefixed(conn, prefix) if prefix else conn


class _Prefixed:
    def __init__(self, conn: Connection, prefix: str) -> None:
        self._conn = conn
        self._run = under(prefix, conn.run)
        self.execute = conn.execute  # only for pragmas, begin, commit and rollback, which name no table
        self.copy_into = conn.copy_into
        self.close = conn.close

    def run(self, request: Request) -> Rows:
        return self._run(request)

    @property
    def in_transaction(self) -> bool:
        return self._conn.in_transaction
