"""What tables a file has, compared with what its steps make; and what makes tables of version 1 whole.

Differs from PostgreSQL: `sqlite_master` has the text of each definition, so two catalogues are compared as texts.
"""

from __future__ import annotations

import re
import sqlite3  # only to split scripts: it opens nothing here
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from headway.errors import StoreError
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.prefix import renamed
from headway.store.sqlite.engine.statements import ROOT, statements

_SQL = statements("engine/migrate")
_FOLDER = ROOT / "engine/migrations"
_MADE = re.compile(r"create (?:unique )?(table|index|trigger) (?:if not exists )?\"?(\w+)", re.IGNORECASE)
_UNMADE = re.compile(r"drop (?:table|index|trigger) (?:if exists )?(\w+)", re.IGNORECASE)
_RENAMED = re.compile(r"alter table (\w+)\s+rename to (\w+)", re.IGNORECASE)
_ALTERED = re.compile(r"alter table (\w+)\s+(add|drop) column (\w+)", re.IGNORECASE)
_GONE = {("attempts", "artifacts")}
"""Columns that version 1 had for hours, and that nothing wrote."""


def script(file: str) -> list[str]:
    """The statements of a script of the migrations."""
    return list(split((_FOLDER / file).read_text("utf-8")))


def found() -> Steps[tuple[str, dict[str, str]]]:
    """The prefix of our tables, and their definitions with those of their indexes and triggers, by name."""
    rows = yield Statement(_SQL["catalogue"])
    name = next(name for name, _ in rows if name.endswith("schema_version"))
    return name.removesuffix("schema_version"), dict(rows)


def differences(prefix: str, have: Mapping[str, str], made: Iterable[str]) -> list[str]:
    """What is not as these statements made it, in words: `signals lacks created_by`. More than that makes none."""
    said = []
    texts = [renamed(sql, prefix) if prefix else sql for sql in made]
    altered = _altered(texts)
    for name, sql in _by_name(texts).items():
        plain = name.removeprefix(prefix)
        if name not in have:
            said.append(f"there is no {_kind(sql)} {plain}")
        elif _kind(sql) != "table" and definition(have[name]) != definition(sql):
            said.append(f"the {_kind(sql)} {plain} is another one")
        elif _kind(sql) == "table":
            there = {_column(part) for part in _columns(have[name])}
            lacks = [_column(part) or part for part in _lacks(have[name], sql)]
            lacks = [column for column in lacks if altered.get((name, column)) != "drop"]
            added = [column for (table, column), how in altered.items() if (table, how) == (name, "add")]
            if lacks := [*lacks, *(column for column in added if column not in there)]:
                said.append(f"{plain} lacks {', '.join(lacks)}")
    return said


def repair(prefix: str, have: Mapping[str, str]) -> Iterator[str | tuple[str, str]]:
    """Statements that make the tables of any landed version 1 those of 0001.up.sql, with all rows; none if they are.

    Also gives (table, column) of columns that go: they have to be empty. Raises `LookupError` for unknown ones.
    """
    made = [_SQL["table"], *script("0001.up.sql")]
    want = _by_name([renamed(sql, prefix) if prefix else sql for sql in made])
    tables = [name for name, sql in want.items() if _kind(sql) == "table" and name in have]
    other = {
        name
        for name, sql in want.items()
        if name in have and _kind(sql) != "table" and definition(have[name]) != definition(sql)
    }
    rebuilt = {name for name in tables if not _is_addable(have[name], want[name])}
    dropped = {
        name
        for name, sql in have.items()
        if _kind(sql) != "table" and (name in other or (_kind(sql) == "trigger" and rebuilt) or _on(sql) in rebuilt)
    }
    for name in sorted(dropped):
        yield f"drop {_kind(have[name])} {name}"
    for name, sql in want.items():
        if _kind(sql) == "table" and name not in have:
            yield sql
    for name in tables:
        yield from _mend(name, have[name], want[name], prefix, rebuild=name in rebuilt)
    for name, sql in want.items():
        if _kind(sql) != "table" and (name not in have or name in dropped):
            yield sql
    for name in sorted(dropped - set(want)):  # of the application
        yield have[name]


def _mend(name: str, have: str, want: str, prefix: str, *, rebuild: bool) -> Iterator[str | tuple[str, str]]:
    plain, ours = name.removeprefix(prefix), [_column(part) for part in _columns(want)]
    theirs = [_column(part) for part in _columns(have)]
    lacks = [part for part in _columns(want) if _column(part) not in theirs]
    for column in theirs:
        if column in ours:
            continue
        if (plain, column) in _GONE:
            yield name, column
            yield f"alter table {name} drop column {column}"
        elif lacks or rebuild:  # it may be the one that lacks, under another name
            raise LookupError(f"{plain}.{column}")
    if not all(_takes_old_rows(part) for part in lacks):
        raise LookupError(f"{plain}: {lacks}")
    if not rebuild:
        for part in lacks:
            yield f"alter table {name} add column {part}"
        return
    kept = ", ".join(f'"{column}"' for column in ours if column in theirs)
    yield re.sub(rf"^create table {name}\b", f"create table {name}_rebuilt", want)
    yield f"insert into {name}_rebuilt ({kept}) select {kept} from {name}"  # noqa: S608 - names of ours
    yield f"drop table {name}"
    yield f"alter table {name}_rebuilt rename to {name}"


def _is_addable(have: str, want: str) -> bool:
    """Whether the table lacks nothing but columns, and none of its columns and constraints is another one."""
    extra = {_column(part) for part in _parts(have) if part not in _parts(want)}
    lacks = {_column(part) for part in _lacks(have, want)}
    return "" not in lacks | extra and not lacks & extra and definition(have)[-1] == definition(want)[-1]


def _lacks(have: str, want: str) -> list[str]:
    return [part for part in _parts(want) if part not in _parts(have)]


def _takes_old_rows(part: str) -> bool:
    return "not null" not in part or " default " in part


@cache
def definition(sql: str) -> tuple[str, ...]:
    """What a `create` statement defines, regardless of comments, spaces and the order of a table's columns."""
    text = re.sub(r'--[^\n]*|"|\bif not exists\b', "", sql.lower())
    text = re.sub(r"\s*([(),])\s*", r"\1", " ".join(text.split()))
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += letter
    if not text.startswith("create table"):
        return tuple(parts)
    head, _, first = parts[0].partition("(")
    last, _, tail = parts[-1].rpartition(")")
    columns = [first, *parts[1:-1], last] if len(parts) > 1 else [first.rpartition(")")[0]]
    return (head, *sorted(columns), tail)


def _parts(sql: str) -> tuple[str, ...]:
    """Columns and constraints of a table."""
    return definition(sql)[1:-1]


def _columns(sql: str) -> list[str]:
    return [part for part in _parts(sql) if _column(part)]


def _column(part: str) -> str:
    """The name of a column; empty for a constraint."""
    word = re.match(r"\w+", part)
    return word[0] if word and word[0] not in ("check", "constraint", "primary", "unique", "foreign") else ""


def _by_name(made: Iterable[str]) -> dict[str, str]:
    """What is there after these statements, each with the one that made it."""
    there: dict[str, str] = {}
    for sql in made:
        if match := _MADE.match(sql):
            there[match[2]] = sql
        elif match := _RENAMED.match(sql):
            there[match[2]] = there.pop(match[1])
        elif match := _UNMADE.match(sql):
            there = {name: each for name, each in there.items() if match[1] not in (name, _on(each))}
    return there


def _altered(made: Iterable[str]) -> dict[tuple[str, str], str]:
    """The columns that these statements add or drop, by table and name."""
    found: dict[tuple[str, str], str] = {}
    for sql in made:
        if match := _ALTERED.match(sql):
            found[match[1], match[3]] = match[2].lower()
        elif match := _RENAMED.match(sql):  # a table that was made anew has them in its own statement
            found = {key: how for key, how in found.items() if key[0] != match[2]}
    return found


def _kind(sql: str) -> str:
    match = _MADE.match(sql)
    return match[1].lower() if match else ""


def _on(sql: str) -> str:
    """The table of an index or trigger."""
    match = re.search(r"\bon \"?(\w+)", sql, re.IGNORECASE)
    return match[1] if match else ""


def split(text: str) -> Iterator[str]:
    """The statements of a script, without the comments around them."""
    statement = ""
    for line in text.splitlines():
        if not statement and (not line.strip() or line.startswith("--")):
            continue
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement.strip().removesuffix(";")
            statement = ""
    if statement.strip():
        raise StoreError(f"a migration ends inside a statement: {statement.strip()[:80]}")
