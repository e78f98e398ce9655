"""What tables a database has, compared with what its steps make; and what makes tables of version 1 whole.

Differs from SQLite: the server keeps no text of a table, so its catalogue is compared part by part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from headway.store.ops import Statement, Steps

_FOLDER = files("headway.store.postgres")
_KINDS = r"(table|sequence|index|trigger|function) (?:concurrently )?"
_MADE = re.compile(rf"^create (?:or replace )?(?:unique )?{_KINDS}(?:headway\.)?(\w+)", re.M)
_UNMADE = re.compile(rf"^\s*drop {_KINDS}(?:if exists )?(?:headway\.)?(\w+)", re.M)
_POLICY = re.compile(r"^create policy (\w+) on headway\.(\w+)", re.M)
_OF = re.compile(
    r"^(?:alter table|insert into|create (?:unique )?index \w+ on|create policy \w+ on) headway\.(\w+)", re.M
)
_COLUMN = re.compile(r"\"?(?!(?:constraint|primary|unique|check|foreign)\b)(\w+)\"? (.*)", re.S)
_ADDED = re.compile(r"\badd column (?:if not exists )?(\w+)")
_DROPPED = re.compile(r"\bdrop column (?:if exists )?(\w+)")
_GONE = {("attempts", "artifacts"), ("jobs", "artifact_ref")}
"""Columns that version 1 had for hours, and that nothing wrote."""


@cache
def script(name: str) -> list[str]:
    """The statements of a script of the store: each ends with a semicolon at a line's end, outside of $$ … $$."""
    statements: list[str] = []
    lines: list[str] = []
    quoted = False
    for line in (_FOLDER / name).read_text("utf-8").splitlines():
        lines.append(line)
        if line.startswith("--"):
            continue
        quoted ^= line.count("$$") % 2 == 1
        if line.endswith(";") and not quoted:
            statements.append("\n".join(lines).strip().removesuffix(";"))
            lines = []
    return statements


def found() -> Steps[frozenset[str]]:
    """What there is, part by part."""
    rows = yield Statement(script("engine/migrations/catalogue.sql")[0])
    return frozenset(row[0] for row in rows)


@cache
def version_1() -> frozenset[str]:
    """The same of a new database at version 1."""
    return frozenset(_lines((_FOLDER / "engine/migrations/0001.catalogue").read_text("utf-8")))


def without(some: Iterable[str], others: Iterable[str]) -> frozenset[str]:
    """The parts that the others lack. A dump writes conditions with other parentheses than the server had."""
    there = {re.sub("[()]", "", part) for part in others}
    return frozenset(part for part in some if re.sub("[()]", "", part) not in there)


def write(parts: Iterable[str]) -> str:
    """The text of such a file."""
    return "".join(part.replace("\\", "\\\\").replace("\n", "\\n") + "\n" for part in sorted(parts))


def _lines(text: str) -> list[str]:
    return [line.replace("\\n", "\n").replace("\\\\", "\\") for line in text.splitlines()]


def differences(have: Iterable[str], made: Iterable[str]) -> list[str]:
    """What these statements made and is not there, in words: `signals lacks created_by`. Only names are compared."""
    there = {name_of(part) for part in have}
    said = []
    for kind, table, name in sorted(names(made)):
        if (kind, table, name) not in there:
            if kind == "column" and ("table", "", table) in there:
                said.append(f"{table} lacks {name}")
            elif kind != "column":
                said.append(f"there is no {kind} {name}" + (f" on {table}" if table else ""))
    return said


def name_of(part: str) -> tuple[str, str, str]:
    """Kind, table and name of a part; the table only where the name is one's within a table."""
    kind, first, second, *_ = [*part.split(" ", 3), "", ""]
    if kind in ("column", "constraint", "policy"):
        return kind, first, second
    if kind in ("index", "trigger"):
        match = re.match(r"(?:index|trigger) CREATE (?:UNIQUE )?(?:INDEX|TRIGGER) (\w+)", part)
        return kind, "", match[1] if match else ""
    return kind, "", first


def names(made: Iterable[str]) -> set[tuple[str, str, str]]:
    """The names that statements made, those of constraints apart."""
    known: set[tuple[str, str, str]] = set()
    for sql in made:
        text = re.sub(r"--[^\n]*", "", sql)
        for kind, name in _MADE.findall(text):
            if kind == "table":
                known |= {("column", name, column) for column in _columns(text)}
            if kind in ("table", "index", "trigger"):
                known.add((kind, "", name))
        for name, table in _POLICY.findall(text):
            known.add(("policy", table, name))
        if match := re.match(r"\s*alter table headway\.(\w+)", text):
            known |= {("column", match[1], column) for column in _ADDED.findall(text)}
            known -= {("column", match[1], column) for column in _DROPPED.findall(text)}
        for kind, name in _UNMADE.findall(text):
            known.discard((kind, "", name))
        for name, table in re.findall(r"^\s*drop policy (\w+) on headway\.(\w+)", text, re.M):
            known.discard(("policy", table, name))
    return known


def repair(have: frozenset[str]) -> Iterator[str | tuple[str, str]]:
    """Statements that make the tables of any landed version 1 those of 0001.up.sql, with all rows; none if they are.

    Also gives (table, column), or (table, "") of what goes: it has to be empty. Raises `LookupError` for unknown parts.
    """
    want, made = version_1(), script("engine/migrations/0001.up.sql")
    lacks, extra = without(want, have), without(have, want)
    lacking = {name_of(part) for part in lacks}
    tables = {name_of(part)[2] for part in have if part.startswith("table ")}
    new = {name for kind, _, name in lacking if kind == "table"} - tables
    for kind, table, name in sorted(map(name_of, extra)):
        if (kind, name) == ("table", "transfers"):
            yield name, ""
            yield f"drop table headway.{name}"
        elif kind == "column" and (table, name) in _GONE:
            yield table, name
            yield f"alter table headway.{table} drop column {name}"
        elif (
            kind == "column"
            and (kind, table, name) in lacking
            and any(_is_generated(part) and name_of(part) == (kind, table, name) for part in lacks)
        ):
            yield f"alter table headway.{table} drop column {name}"
            lacks |= {part for part in want if part.startswith("index ") and name in part}  # they go with it
        elif kind == "column" and any(each[:2] == (kind, table) for each in lacking):
            raise LookupError(f"{table}.{name}")  # it may be the one that lacks, under another name
        elif kind == "constraint" and (kind, table, name) in lacking:
            yield f"alter table headway.{table} drop constraint {name}"
        elif kind == "index" and (kind, "", name) in lacking:
            yield f"drop index headway.{name}"
        elif kind == "trigger" and (kind, "", name) in lacking:
            yield f"drop trigger {name} on headway.{_on(made, name)}"
    for kind, _, name in sorted(lacking):
        if kind == "table" and name in tables:
            yield f"alter table headway.{name} enable row level security"
    for sql in made:
        if (match := _OF.search(sql) or _MADE.search(sql)) and match[match.lastindex or 0] in new:
            yield sql
        elif (match := _MADE.match(_bare(sql))) and match[1] == "function" and _lacks(lacks, "function", match[2]):
            yield sql.replace("create function", "create or replace function", 1)
    for part in sorted(lacks, key=lambda part: (_is_generated(part), part)):
        kind, table, name = name_of(part)
        if kind == "column" and table not in new:
            text = _column(made, table, name)
            if re.search(r"\bnot null(?!.*\b(default|generated)\b)", text, re.S):
                yield table, ""
            yield f"alter table headway.{table} add column {name} {text}"
    for part in sorted(lacks):
        kind, table, name = name_of(part)
        if kind == "constraint" and table not in new:
            _, _, _, text = part.split(" ", 3)
            yield f"alter table headway.{table} add constraint {name} {text}"
    for sql in made:
        if (match := _POLICY.search(sql)) and ("policy", match[2], match[1]) in lacking and match[2] not in new:
            yield sql
        match = _MADE.match(_bare(sql))
        if match and match[1] in ("index", "trigger") and _lacks(lacks, match[1], match[2]):
            of = _OF.search(sql)
            if not (of and of[1] in new):
                yield sql


def _is_generated(part: str) -> bool:
    return part.startswith("column ") and "  s " in part


def _lacks(lacks: frozenset[str], kind: str, name: str) -> bool:
    return (kind, "", name) in {name_of(part) for part in lacks}


def _bare(sql: str) -> str:
    return re.sub(r"\A(?:\s*--[^\n]*\n|\s*\n)*", "", sql)


def _on(made: list[str], trigger: str) -> str:
    (sql,) = (sql for sql in made if re.search(rf"^create trigger {trigger}\b", sql, re.M))
    match = re.search(r"\bon headway\.(\w+)", sql)
    assert match
    return match[1]


def _column(made: list[str], table: str, name: str) -> str:
    """The definition of a column, as its table's statement has it."""
    (sql,) = (sql for sql in made if re.search(rf"^create table headway\.{table}\b", sql, re.M))
    return _columns(re.sub(r"--[^\n]*", "", sql))[name]


def _columns(sql: str) -> dict[str, str]:
    """A table's columns with their definitions, of a statement without comments."""
    parts, depth = [""], 0
    for letter in sql:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 1:
            parts.append("")
        elif depth and (letter, depth) != ("(", 1):
            parts[-1] += letter
        elif parts[-1]:
            break  # what follows is the table's storage
    return {match[1]: match[2] for part in parts if (match := _COLUMN.match(part.strip()))}
