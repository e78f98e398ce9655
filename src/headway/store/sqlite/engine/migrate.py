"""The schema's numbered migrations: which there are, which would run, and running them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headway.errors import SchemaOutdated, StoreError
from headway.store.ops import Op, Statement, Steps
from headway.store.run import drive
from headway.store.sqlite.engine import catalogue
from headway.store.sqlite.engine.connection import Connection
from headway.store.sqlite.engine.prefix import renamed
from headway.store.sqlite.engine.statements import ROOT, statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.steps import Step, read_steps, route
from headway.store.versions import UNRELEASED, damaged, differs, newer, unreleased

_SQL = statements("engine/migrate")
_FOLDER = ROOT / "engine/migrations"
_STEPS = read_steps(_FOLDER)
VERSION = max(step.version for step in _STEPS)
FIRST_OF_STEPS = min(step.version for step in _STEPS if step.name)
_ADOPTED = 1  # whose tables an unreleased version may have
_REPAIR = f"make the tables of version {_ADOPTED} whole"


class MigrateVerbs(Verbs):
    def version(self) -> Op[int]:
        return SqliteOp(read_version, writes=False, absent=0)


def read_version() -> Steps[int]:
    """The schema's version; 0 where there is none."""
    ((tables,),) = yield Statement(_SQL["schema_tables"])
    if not tables:
        return 0
    ((version,),) = yield Statement(_SQL["version"])
    return int(version)


class Recorded(NamedTuple):
    version: int
    steps: frozenset[Step]  # of versions above 1


def read_recorded() -> Steps[Recorded]:
    """What the schema's tables say that was done."""
    version = yield from read_version()
    if not version:
        return Recorded(0, frozenset())
    ((has_steps,),) = yield Statement(_SQL["has_steps"])
    rows = (yield Statement(_SQL["steps"])) if has_steps else []
    return Recorded(version, frozenset(Step(version, name) for version, name in rows))


@dataclass(frozen=True, slots=True)
class Migration:
    """One part of a migration: a title, and the statements that it runs."""

    title: str
    parts: tuple[Statement, ...]

    def script(self, prefix: str = "") -> str:
        """Its SQL text, for people and other tools."""
        texts = (_inline(statement) for statement in self.parts)
        return "\n\n".join(f"{renamed(text, prefix) if prefix else text};" for text in texts) + "\n"

    def statements(self) -> Steps[None]:
        yield from (statement for statement in self.parts)  # a generator: it is sent rows


def plan(found: Recorded, to: int | None = None) -> list[Migration]:
    """What leads from what is there to a version (default: this library's), up or down."""
    at, target = found.version, VERSION if to is None else to
    if at > VERSION:
        raise newer("the file", at, VERSION)
    parts = []
    if at in UNRELEASED:
        title = f"adopt the tables of unreleased version {at} as version {_ADOPTED}"
        parts.append(Migration(title, (Statement(_SQL["adopt"], (_ADOPTED,)),)))
        at = _ADOPTED
    steps = [
        Migration(step.title(way), tuple(_statements(step, way)))
        for step, way in route(_STEPS, at, found.steps, target)
    ]
    if at == 0 and steps:
        whole = tuple(statement for step in steps for statement in step.parts)
        steps = [Migration(f"migrate up to version {target}", whole)]
    return parts + steps


def _statements(step: Step, way: str) -> Iterator[Statement]:
    """A step's statements, with its record."""
    ours = [each for each in _STEPS if each.version == step.version]
    script = [Statement(sql) for sql in catalogue.script(step.file(way))]
    if way == "up":
        if step == _STEPS[0]:
            yield Statement(_SQL["table"])
        yield from script
        if step.name:
            yield Statement(_SQL["done"], (step.version, step.name))
        if step == ours[-1]:
            yield Statement(_SQL["record"], (step.version,))
    else:
        if step.name:
            yield Statement(_SQL["undone"], (step.version, step.name))
        yield from script
        if step == _STEPS[0]:
            yield Statement(_SQL["drop"])
        elif step == ours[0]:
            yield Statement(_SQL["forget"], (step.version,))


def planned(to: int | None = None) -> Steps[list[Migration]]:
    """What `migration` would do to this file now."""
    found = yield from read_recorded()
    parts = plan(found, to)
    if not 0 < found.version <= VERSION:
        return parts
    prefix, have = yield from catalogue.found()
    if found.version < FIRST_OF_STEPS and not found.steps:
        if repair := (yield from _repair(found, prefix, have)):
            parts.insert(1 if found.version in UNRELEASED else 0, repair)
    elif wrong := catalogue.differences(prefix, have, _made(found)):
        raise damaged("the file", found.version, wrong)
    return parts


def _repair(found: Recorded, prefix: str, have: dict[str, str]) -> Steps[Migration | None]:
    """What makes the tables of version 1 whole; None if they are. Raises `SchemaOutdated` where nothing does."""
    statements = []
    try:
        for each in catalogue.repair(prefix, have):
            if isinstance(each, str):
                statements.append(Statement(each))
            else:
                table, column = each
                some = f"select 1 from {table} where {column} is not null limit 1"  # noqa: S608 - names of ours
                if (yield Statement(some)):
                    raise LookupError(column)
    except LookupError:
        raise differs("the file", found.version, _ADOPTED) from None
    return Migration(_REPAIR, tuple(statements)) if statements else None


def _made(found: Recorded) -> list[str]:
    """The statements that made the tables of what is recorded."""
    steps = [step for step in _STEPS if not step.name or step in found.steps]
    return [_SQL["table"], *(sql for step in steps for sql in catalogue.script(step.file("up")))]


def migration(to: int | None = None) -> Steps[list[str]]:
    """Bring the schema to a version inside the open transaction; gives what was done, a line for each step."""
    # read under the lock: another process may have migrated since
    steps = yield from planned(to)
    if steps and (yield from read_version()) == 0:
        yield from _refuse_strangers()
    for step in steps:
        yield from step.statements()
        if step.title == _REPAIR:
            before = yield from read_version()
            prefix, have = yield from catalogue.found()
            if catalogue.differences(prefix, have, [_SQL["table"], *catalogue.script("0001.up.sql")]):
                raise differs("the file", before, _ADOPTED)
    return [step.title for step in steps]


def migrate(conn: Connection, to: int | None = None) -> list[str]:
    """The same in a transaction of its own."""
    conn.execute("begin immediate", ())
    try:
        done = drive(migration(to), conn.run)
        conn.execute("commit", ())
    except BaseException:
        if conn.in_transaction:
            conn.execute("rollback")
        raise
    return done


def ensure(conn: Connection, path: str, prefix: str = "") -> None:
    """Create the schema in a new file; raises `SchemaOutdated` if it has another version."""
    found = drive(read_version(), conn.run)
    if found == 0:
        migrate(conn)
    else:
        _refuse_other(found, path, prefix)


def prepare(path: str, prefix: str = "") -> Steps[bool]:
    """The same inside a caller's transaction; True if the schema was committed before."""
    found = yield from read_version()
    if found == 0:
        yield from migration()
        return False
    _refuse_other(found, path, prefix)
    return True


def _refuse_other(found: int, path: str, prefix: str) -> None:
    """Raises `SchemaOutdated` for any version but this library's."""
    if found == VERSION:
        return
    url = f"'sqlite:///{path}?prefix={prefix}'" if prefix else f"sqlite:///{path}"
    if found in UNRELEASED:
        raise unreleased(path, found, f"stop its workers, then run: headway --url {url} migrate")
    if found > VERSION:
        raise newer(path, found, VERSION)
    raise SchemaOutdated(
        f"{path} has schema version {found}, and this library needs {VERSION}: "
        f"stop the workers, then run: headway --url {url} migrate"
    )


def _inline(statement: Statement) -> str:
    """A statement as text: the parameters here are version numbers and the names of steps."""
    params = [f"'{each}'" if isinstance(each, str) else str(each) for each in statement.params]
    return re.sub(r"\?(\d+)", lambda match: params[int(match[1]) - 1], statement.sql)


def _refuse_strangers() -> Steps[None]:
    rows = yield Statement(_SQL["strangers"])
    if rows:
        names = ", ".join(sorted(row[0] for row in rows))
        raise StoreError(
            f"this database already has tables of Headway's names that Headway did not make ({names}): "
            "give Headway a file of its own, or its tables a prefix with sqlite:///file.db?prefix=headway_"
        )
