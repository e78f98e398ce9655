"""Migrations on PostgreSQL: numbered scripts for tables, and the functions, installed anew when they change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from headway.errors import ConfigError, SchemaOutdated
from headway.store.ops import Op, Statement, Steps

VERSION = 1

_FOLDER = files("headway.store.postgres")
# PostgreSQL checks the body of a `language sql` function when it is created, so what such a body calls comes first
_CHAPTERS = ("fleet", "machines", "order", "triggers", "jobs")
_LOCK = "lock table headway.install in exclusive mode"  # whoever migrates waits here; only the owner can lock it
_STATE = "select current_setting('default_transaction_isolation'), (select i.id::text from headway.install i)"
_STATE_ELSEWHERE = "select current_setting('default_transaction_isolation'), null"
_DROP_FUNCTIONS = """
do $$
declare
  f regprocedure;
begin
  for f in
    select p.oid::regprocedure
      from pg_proc p
     where p.pronamespace = 'headway'::regnamespace
       and p.proname not in ('tenant', 'refuse_move', 'refuse_value', 'check_new', 'refuse_update', 'keep_slugs')
  loop
    execute format('drop function %s', f);
  end loop;
end
$$
"""


def version() -> Steps[int]:
    """The schema's version, kept as a comment on the jobs table; 0 where there is none."""
    return (yield from _recorded())[0]


class VersionVerbs:
    def version(self) -> Op[int]:
        return Op(version, writes=False)


class State(NamedTuple):
    """What a session needs to know of a database before it works on it."""

    version: int
    isolation: str
    install_id: str | None


def state() -> Steps[State]:
    """The version, and how transactions begin."""
    found = yield from version()
    sql = _STATE if found == VERSION else _STATE_ELSEWHERE
    ((isolation, install_id),) = yield Statement(sql)
    return State(found, isolation, install_id)


def migrate(to: int | None = None) -> Steps[list[str]]:
    """Bring the schema to a version (default: this library's), up or down, in the caller's transaction.

    Gives what was done, a line each; nothing where nothing was to do.
    """
    found, fingerprint = yield from _recorded_alone()
    done = []
    for title, statements in _plan(found, fingerprint, VERSION if to is None else to):
        for sql in statements:
            yield Statement(sql)
        done.append(title)
    return done


def plan(to: int | None = None) -> Steps[list[tuple[str, str]]]:
    """What `migrate` would do now: a title and its SQL text for each part."""
    found, fingerprint = yield from _recorded()
    return [
        (title, ";\n\n".join(statements) + ";\n")
        for title, statements in _plan(found, fingerprint, VERSION if to is None else to)
    ]


def roles() -> Steps[list[str]]:
    """Create this database's roles, for workers and for applications, with their grants; needs CREATEROLE.

    Gives their names."""
    yield Statement(_LOCK)
    for sql in (*_statements("engine/roles.sql"), *_statements("engine/grants.sql")):
        yield Statement(sql)
    rows = yield Statement("select headway.role_name('worker')::text, headway.role_name('app')::text")
    return list(rows[0])


def roles_sql() -> str:
    """The SQL text of `roles`."""
    return ";\n\n".join((*_statements("engine/roles.sql"), *_statements("engine/grants.sql"))) + ";\n"


def _recorded_alone() -> Steps[tuple[int, str]]:
    """What is installed, with nobody else migrating until this transaction ends."""
    if (yield from _recorded())[0] == 0:
        # waits for a transaction that installs the schema for the first time, and then finds what it did
        yield Statement(_statements("engine/migrations/0001.up.sql")[0])
    if (yield Statement("select 1 where to_regclass('headway.install') is not null")):
        yield Statement(_LOCK)
    return (yield from _recorded())


def _recorded() -> Steps[tuple[int, str]]:
    rows = yield Statement("select obj_description(to_regclass('headway.jobs'), 'pg_class')")
    match = re.match(r"headway schema version (\d+)(?: functions (\w+))?", (rows[0][0] or "") if rows else "")
    return (int(match[1]), match[2] or "") if match else (0, "")


def _plan(found: int, fingerprint: str, to: int) -> Iterator[tuple[str, list[str]]]:
    if not 0 <= to <= VERSION:
        raise ConfigError(f"there is no schema version {to}: this library knows 0 (nothing) to {VERSION}")
    if found > VERSION:
        raise SchemaOutdated(
            f"the database has schema version {found}, newer than this library's {VERSION}: upgrade the library, "
            "or let the newer one take the schema down with headway migrate --to"
        )
    for number in range(found + 1, to + 1):
        yield f"migrate up to version {number}", _statements(f"engine/migrations/{number:04}.up.sql")
    for number in range(found, to, -1):
        yield f"migrate down from version {number}", _statements(f"engine/migrations/{number:04}.down.sql")
    if to == VERSION and (found != to or fingerprint != _fingerprint()):
        record = f"comment on table headway.jobs is 'headway schema version {to} functions {_fingerprint()}'"
        yield "install the functions", [_DROP_FUNCTIONS, *_functions(), *_statements("engine/grants.sql"), record]
    elif 0 < to < VERSION:
        yield f"record version {to}", [f"comment on table headway.jobs is 'headway schema version {to}'"]


@cache
def _functions() -> list[str]:
    names = ["engine/base.sql", "engine/keys.sql", "engine/logins.sql"]
    for chapter in _CHAPTERS:
        found = sorted(entry.name for entry in (_FOLDER / chapter).iterdir() if entry.name.endswith(".sql"))
        names += [f"{chapter}/{name}" for name in found]
    return [sql for name in names for sql in _statements(name)]


@cache
def _fingerprint() -> str:
    return hashlib.sha256("\n".join([*_functions(), *_statements("engine/grants.sql")]).encode()).hexdigest()[:16]


@cache
def _statements(name: str) -> list[str]:
    """The statements of a script: each ends with a semicolon at a line's end, outside of $$ … $$."""
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
