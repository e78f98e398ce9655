"""Migrations on PostgreSQL: numbered scripts for tables, and the functions, reinstalled when they change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine import catalogue
from headway.store.postgres.engine.catalogue import script
from headway.store.steps import Step, read_steps, route
from headway.store.versions import UNRELEASED, damaged, differs, newer

_FOLDER = files("headway.store.postgres")
_STEPS = read_steps(_FOLDER / "engine/migrations")
VERSION = max(step.version for step in _STEPS)
FIRST_OF_STEPS = min(step.version for step in _STEPS if step.name)
_ADOPTED = 1  # whose tables an unreleased version may have
# PostgreSQL checks the body of a `language sql` function when it is created, so what such a body calls comes first
_CHAPTERS = ("stats", "access", "fleet", "machines", "jobs", "order", "triggers")
_REPAIR = f"make the tables of version {_ADOPTED} whole"
_LOCK = "lock table headway.install in exclusive mode"  # one migration at a time; only the owner can take this lock
_STATE = "select current_setting('default_transaction_isolation'), (select i.id::text from headway.install i)"
_STATE_ELSEWHERE = "select current_setting('default_transaction_isolation'), null"
_DONE = "insert into headway.schema_steps (version, name) values ({}, '{}')"
_UNDONE = "delete from headway.schema_steps where version = {} and name = '{}'"
_DROP_FUNCTIONS = """
do $$
declare
  f regprocedure;
  t regtype;
begin
  for f in
    select p.oid::regprocedure
      from pg_proc p
     where p.pronamespace = 'headway'::regnamespace
       -- those of triggers and policies belong to a migration
       and not exists (select
                         from pg_depend d
                        where d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
                          and d.classid in ('pg_trigger'::regclass, 'pg_policy'::regclass))
  loop
    execute format('drop function %s', f);
  end loop;
  for t in
    select c.reltype::regtype from pg_class c where c.relnamespace = 'headway'::regnamespace and c.relkind = 'c'
  loop
    execute format('drop type %s', t);
  end loop;
end
$$
"""


def version() -> Steps[int]:
    """The schema's version, kept as a comment on the jobs table; 0 where there is none."""
    return (yield from _recorded()).version


class MigrateVerbs:
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

    Gives what was done, a line each; none if there was nothing to do.
    """
    found = yield from _recorded_alone()
    repairs = yield from _check_tables(found)
    done = []
    for title, statements in _plan(found, VERSION if to is None else to, repairs):
        for sql in statements:
            yield Statement(sql)
        if title == _REPAIR and catalogue.version_1() - (yield from catalogue.found()):
            raise differs("the database", found.version, _ADOPTED)
        done.append(title)
    return done


def plan(to: int | None = None) -> Steps[list[tuple[str, str]]]:
    """What `migrate` would do now: a title and its SQL text for each part."""
    found = yield from _recorded()
    repairs = yield from _check_tables(found)
    parts = _plan(found, VERSION if to is None else to, repairs)
    return [(title, ";\n\n".join(statements) + ";\n") for title, statements in parts]


def roles() -> Steps[list[str]]:
    """Create this database's roles, for workers and for applications, with their grants; needs CREATEROLE.

    Gives their names."""
    yield Statement(_LOCK)
    for sql in (*script("engine/roles.sql"), *script("engine/grants.sql")):
        yield Statement(sql)
    rows = yield Statement("select headway.role_name('worker')::text, headway.role_name('app')::text")
    return list(rows[0])


def roles_sql() -> str:
    """The SQL text of `roles`."""
    return ";\n\n".join((*script("engine/roles.sql"), *script("engine/grants.sql"))) + ";\n"


class _Recorded(NamedTuple):
    version: int
    functions: str  # the hash of their texts
    steps: frozenset[Step]  # of versions above 1


def _recorded_alone() -> Steps[_Recorded]:
    """What is installed, with nobody else migrating until this transaction ends."""
    if (yield from _recorded()).version == 0:
        # waits for a transaction that installs the schema for the first time, and then finds what it did
        yield Statement(script("engine/migrations/0001.up.sql")[0])
    if (yield Statement("select 1 where to_regclass('headway.install') is not null")):
        yield Statement(_LOCK)
    return (yield from _recorded())


def _recorded() -> Steps[_Recorded]:
    ((text, has_steps),) = yield Statement(
        "select obj_description(to_regclass('headway.jobs'), 'pg_class'), "
        "to_regclass('headway.schema_steps') is not null"
    )
    match = re.match(r"headway schema version (\d+)(?: functions (\w+))?", text or "")
    if not match:
        return _Recorded(0, "", frozenset())
    rows = (yield Statement("select version, name from headway.schema_steps")) if has_steps else []
    return _Recorded(int(match[1]), match[2] or "", frozenset(Step(version, name) for version, name in rows))


def _check_tables(found: _Recorded) -> Steps[list[str]]:
    """What makes the tables of version 1 whole, before any step; raises `SchemaOutdated` where nothing does."""
    if not 0 < found.version <= VERSION:
        return []
    have = yield from catalogue.found()
    if found.version >= FIRST_OF_STEPS or found.steps:
        if wrong := catalogue.differences(have, _made(found)):
            raise damaged("the database", found.version, wrong)
        return []
    statements = []
    try:
        for each in catalogue.repair(have):
            if isinstance(each, str):
                statements.append(each)
                continue
            table, column = each
            some = f"where {column} is not null" if column else ""
            if (yield Statement(f"select 1 from headway.{table} {some} limit 1")):  # noqa: S608 - names of ours
                raise LookupError(column)
    except LookupError:
        raise differs("the database", found.version, _ADOPTED) from None
    return statements


def _made(found: _Recorded) -> list[str]:
    """The statements that made the tables of what is recorded."""
    steps = [step for step in _STEPS if not step.name or step in found.steps]
    return [sql for step in steps for sql in script(f"engine/migrations/{step.file('up')}")]


def _plan(found: _Recorded, to: int, repairs: list[str]) -> Iterator[tuple[str, list[str]]]:
    at = found.version
    if at > VERSION:
        raise newer("the database", at, VERSION)
    if at in UNRELEASED:
        yield f"adopt the tables of unreleased version {at} as version {_ADOPTED}", [_record(_ADOPTED)]
        at = _ADOPTED
    if repairs:
        yield _REPAIR, repairs
    steps = [(step.title(way), _step(step, way)) for step, way in route(_STEPS, at, found.steps, to)]
    if at == 0 and steps:
        steps = [(f"migrate up to version {to}", [sql for _, statements in steps for sql in statements])]
    yield from steps
    if to == VERSION and (steps or (at, found.functions) != (to, _functions_hash())):
        record = _record(to, f" functions {_functions_hash()}")
        yield "install the functions", [_DROP_FUNCTIONS, *_functions(), *script("engine/grants.sql"), record]
    elif 0 < to < VERSION:
        yield f"record version {to}", [_record(to)]


def _step(step: Step, way: str) -> list[str]:
    """A step's statements, with its record."""
    statements = script(f"engine/migrations/{step.file(way)}")
    if not step.name:
        return statements
    if way == "up":
        return [*statements, _DONE.format(step.version, step.name)]
    return [_UNDONE.format(step.version, step.name), *statements]


def _record(version: int, functions: str = "") -> str:
    return f"comment on table headway.jobs is 'headway schema version {version}{functions}'"


@cache
def _functions() -> list[str]:
    names = [f"engine/{name}.sql" for name in ("types", "base", "callers", "keys", "logins", "transfers")]
    for chapter in _CHAPTERS:
        found = sorted(entry.name for entry in (_FOLDER / chapter).iterdir() if entry.name.endswith(".sql"))
        names += [f"{chapter}/{name}" for name in found]
    return [sql for name in names for sql in script(name)]


@cache
def _functions_hash() -> str:
    return hashlib.sha256("\n".join([*_functions(), *script("engine/grants.sql")]).encode()).hexdigest()[:16]
