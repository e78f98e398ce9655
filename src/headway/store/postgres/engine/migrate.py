"""Migrations on PostgreSQL: numbered scripts for tables, and the functions, reinstalled when they change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine import catalogue
from headway.store.postgres.engine.catalogue import script
from headway.store.steps import Header, Part, Step, read_steps, route, unknown, version_before
from headway.store.versions import UNRELEASED, damaged, differs, newer, newer_functions, newer_steps

_FOLDER = files("headway.store.postgres")
_STEPS = read_steps(_FOLDER / "engine/migrations")
VERSION = max(step.version for step in _STEPS)
GENERATION_FILE = Path(str(_FOLDER / "engine/functions.generation"))
GENERATION = int(GENERATION_FILE.read_text("utf-8").split()[0])
"""Grows whenever a function changes (tools/functions_generation.py): an older build never replaces newer functions."""
FIRST_OF_STEPS = min(step.version for step in _STEPS if step.name)
_ADOPTED = 1  # whose tables an unreleased version may have
# PostgreSQL checks the body of a `language sql` function when it is created, so what such a body calls comes first
_CHAPTERS = ("stats", "access", "fleet", "machines", "flows", "jobs", "order", "triggers")
_REPAIR = f"make the tables of version {_ADOPTED} whole"
_LOCK = "lock table headway.install in exclusive mode"  # one migration at a time; only the owner can take this lock
_STATE = """
select current_setting('default_transaction_isolation'),
       (select i.id::text from headway.install i),
       array(select s.name from headway.schema_steps s where s.version = $1)
"""
_STATE_ELSEWHERE = "select current_setting('default_transaction_isolation'), null, null"
_NEEDS = "select max(needs) from headway.schema_steps having max(version) = $1"
_ALONE = "select pg_try_advisory_lock(i.secret) from headway.install i"
_NOT_ALONE = "select pg_advisory_unlock(i.secret) from headway.install i"
_DONE = "insert into headway.schema_steps (version, name, needs) values ({}, '{}', {})"
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
    """The schema's version, kept as a comment on the jobs table; 0 where there is none. It is this library's where a
    newer one says that this library works on it."""
    found = yield from _comment()
    if found.version > VERSION:
        has_steps = yield Statement("select 1 where to_regclass('headway.schema_steps') is not null")
        rows = (yield Statement(_NEEDS, (found.version,))) if has_steps else []
        return VERSION if rows and rows[0][0] <= VERSION else found.version
    return found.version


def installed() -> Steps[int]:
    """The version that was installed, whoever works on it."""
    return (yield from _comment()).version


class MigrateVerbs:
    def version(self) -> Op[int]:
        return Op(version, writes=False)


class State(NamedTuple):
    """What a session needs to know of a database before it works on it."""

    version: int
    isolation: str
    install_id: str | None
    lacks: list[str]  # the steps of this library's version that were not done


def state() -> Steps[State]:
    """The version, and how transactions begin."""
    found = yield from version()
    asked = Statement(_STATE, (VERSION,)) if found == VERSION else Statement(_STATE_ELSEWHERE)
    ((isolation, install_id, done),) = yield asked
    lacks = [step.name for step in _STEPS if step.version == VERSION and done is not None and step.name not in done]
    return State(found, isolation, install_id, lacks)


def migrate(to: int | None = None) -> Steps[list[str]]:
    """Bring the schema to a version (default: this library's), up or down, in the caller's transaction.

    Gives what was done, a line each; none if there was nothing to do.
    """
    parts = yield from _planned_alone(to)
    for part in parts:
        yield from _run(part)
    return [part.title for part in parts]


class Advance(NamedTuple):
    """What one transaction of a migration did, and what it left."""

    done: list[Part]
    left: Part | None  # to run by `batch` or outside of a transaction, and then to `record`
    over: bool


def advance(to: int | None = None) -> Steps[Advance]:
    """One transaction of a migration that commits part by part. What goes down, or makes a new schema, is one."""
    found = yield from _recorded_alone()
    parts = yield from _planned(found, to)
    if found.version == 0 or (to is not None and to < found.version):
        for part in parts:
            yield from _run(part)
        return Advance(parts, None, over=True)
    if parts and (parts[0].outside or parts[0].batches):
        return Advance([], parts[0], over=False)
    for part in parts[:1]:
        yield from _run(part)
    return Advance(parts[:1], None, over=len(parts) < 2)


def batch(part: Part) -> Steps[int]:
    """One more batch of it: how many rows it changed, in a transaction of its own."""
    return len((yield Statement(part.statements[0])))


def record(part: Part, to: int | None) -> Steps[None]:
    """Write down that it was done, unless another migration has."""
    found = yield from _recorded_alone()
    if part in (yield from _planned(found, to)):
        for sql in part.record:
            yield Statement(sql)


def alone() -> Steps[bool]:
    """Try to be the only one that runs a part outside of a transaction, until `not_alone` or the session's end."""
    return bool((yield Statement(_ALONE))[0][0])


def not_alone() -> Steps[None]:
    yield Statement(_NOT_ALONE)


def plan(to: int | None = None) -> Steps[list[Part]]:
    """What `migrate` would do now."""
    return (yield from _planned((yield from _recorded()), to))


def _planned_alone(to: int | None) -> Steps[list[Part]]:
    return (yield from _planned((yield from _recorded_alone()), to))


def _planned(found: _Recorded, to: int | None) -> Steps[list[Part]]:
    _refuse_newer(found, to)
    repairs = yield from _check_tables(found)
    return list(_plan(found, to, repairs))


def _refuse_newer(found: _Recorded, to: int | None) -> None:
    steps = unknown(_STEPS, found.steps)
    if found.version > VERSION:
        raise newer("the database", found.version, VERSION)
    if to is None and (steps or found.generation > GENERATION):
        raise newer_functions("the database", found.version)
    if to is not None and to < found.version and steps:
        raise newer_steps("the database", found.version, steps)


def _run(part: Part) -> Steps[None]:
    """All of it in the open transaction."""
    for sql in part.statements:
        while (yield Statement(sql.replace(" concurrently ", " ") if part.outside else sql)) and part.batches:
            pass
    for sql in part.record:
        yield Statement(sql)
    if part.title == _REPAIR and catalogue.without(catalogue.version_1(), (yield from catalogue.found())):
        raise differs("the database", 1, _ADOPTED)


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
    generation: int
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
    found = yield from _comment()
    if (yield Statement("select 1 where to_regclass('headway.schema_steps') is not null")) and found.version:
        rows = yield Statement("select version, name from headway.schema_steps")
        return found._replace(steps=frozenset(Step(version, name) for version, name in rows))
    return found


def _comment() -> Steps[_Recorded]:
    """What is recorded, without its steps."""
    rows = yield Statement("select obj_description(to_regclass('headway.jobs'), 'pg_class')")
    said = r"headway schema version (\d+)(?: functions (\w+))?(?: generation (\d+))?"
    match = re.match(said, (rows[0][0] or "") if rows else "")
    if not match:
        return _Recorded(0, "", 0, frozenset())
    return _Recorded(int(match[1]), match[2] or "", int(match[3] or 0), frozenset())


def _check_tables(found: _Recorded) -> Steps[list[str]]:
    """What makes the tables of version 1 whole, before any step; raises `SchemaOutdated` where nothing does."""
    if found.version == 0 or unknown(_STEPS, found.steps):
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


def _plan(found: _Recorded, to: int | None, repairs: list[str]) -> Iterator[Part]:
    # who names this library's version wants its functions, whatever was there
    at, target = found.version, VERSION if to is None else to
    if at in UNRELEASED:
        yield Part(f"adopt the tables of unreleased version {at} as version {_ADOPTED}", (), (_record(_ADOPTED),))
        at = _ADOPTED
    if repairs:
        yield Part(_REPAIR, tuple(repairs), locks="every table, for as long as an index takes that it lacks")
    steps = [_part(step, way, found) for step, way in route(_STEPS, at, found.steps, target)]
    if at == 0 and steps:
        texts = tuple(sql for part in steps for sql in _in_transaction(part))
        steps = [Part(f"migrate up to version {target}", texts, locks="nothing: there are no jobs yet")]
    yield from steps
    if target == VERSION and (steps or (at, found.functions) != (target, functions_hash())):
        record = _record(target, f" functions {functions_hash()} generation {GENERATION}")
        functions = (_DROP_FUNCTIONS, *_functions(), *script("engine/grants.sql"))
        yield Part("install the functions", functions, (record,), locks="calls of functions, for about a second")
    elif 0 < target < VERSION and at != target:
        yield Part(f"record version {target}", (), (_record(target),))


def _part(step: Step, way: str, found: _Recorded) -> Part:
    """A step's statements, with its record."""
    name = f"engine/migrations/{step.file(way)}"
    header = Header.of((_FOLDER / name).read_text("utf-8"))
    record: tuple[str, ...] = ()
    if step.name and way == "up":
        needs = version_before(_STEPS, step.version) if header.needs is None else header.needs
        # the grants of what it makes come with the functions
        again = (_record(found.version),) if found.version == step.version else ()
        record = (_DONE.format(step.version, step.name, needs), *again)
    statements = tuple(script(name))
    if step.name and way == "down":
        statements = (_UNDONE.format(step.version, step.name), *statements)
    return Part(step.title(way), statements, record, header.locks, header.outside, header.batches)


def _in_transaction(part: Part) -> Iterator[str]:
    for sql in part.statements:
        yield sql.replace(" concurrently ", " ") if part.outside else sql
    yield from part.record


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
def functions_hash() -> str:
    return hashlib.sha256("\n".join([*_functions(), *script("engine/grants.sql")]).encode()).hexdigest()[:16]
