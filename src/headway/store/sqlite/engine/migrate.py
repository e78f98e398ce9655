"""The schema's numbered migrations: which there are, which would run, and running them."""

from __future__ import annotations

import re
from typing import NamedTuple

from headway.errors import SchemaOutdated, StoreError
from headway.store.ops import Op, Statement, Steps
from headway.store.run import drive
from headway.store.sqlite.engine import catalogue
from headway.store.sqlite.engine.connection import Connection
from headway.store.sqlite.engine.statements import ROOT, statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.steps import Header, Part, Step, read_steps, route, unknown, version_before
from headway.store.versions import UNRELEASED, damaged, differs, incomplete, newer, newer_build, newer_steps, unreleased

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
    """The schema's version; 0 where there is none. It is this library's where a newer one says that this library works
    on it."""
    found = yield from installed()
    if found <= VERSION:
        return found
    ((has_steps,),) = yield Statement(_SQL["has_steps"])
    rows = (yield Statement(_SQL["needs"], (found,))) if has_steps else []
    return VERSION if rows and rows[0][0] <= VERSION else found


def installed() -> Steps[int]:
    """The version that was installed, whoever works on it."""
    ((tables,),) = yield Statement(_SQL["schema_tables"])
    if not tables:
        return 0
    ((version,),) = yield Statement(_SQL["version"])
    return int(version)


class Recorded(NamedTuple):
    version: int
    steps: frozenset[Step]  # of versions above 1


NOTHING = Recorded(0, frozenset())


def read_recorded() -> Steps[Recorded]:
    """What the schema's tables say that was done."""
    version = yield from installed()
    if not version:
        return NOTHING
    ((has_steps,),) = yield Statement(_SQL["has_steps"])
    rows = (yield Statement(_SQL["steps"])) if has_steps else []
    return Recorded(version, frozenset(Step(version, name) for version, name in rows))


def plan(found: Recorded, to: int | None = None) -> list[Part]:
    """What leads from what is there to a version (default: this library's), up or down."""
    at, target = found.version, VERSION if to is None else to
    strange = unknown(_STEPS, found.steps)
    if at > VERSION:
        raise newer("the file", at, VERSION)
    if strange and to is None:
        raise newer_build("the file", at)
    if strange and target < at:
        raise newer_steps("the file", at, strange)
    parts = []
    if at in UNRELEASED:
        title = f"adopt the tables of unreleased version {at} as version {_ADOPTED}"
        parts.append(Part(title, (), (_filled("adopt", _ADOPTED),)))
        at = _ADOPTED
    steps = [_part(step, way) for step, way in route(_STEPS, at, found.steps, target)]
    if at == 0 and steps:
        whole = tuple(sql for part in steps for sql in (*part.statements, *part.record))
        steps = [Part(f"migrate up to version {target}", whole, locks="nothing: there are no jobs yet")]
    return parts + steps


def _part(step: Step, way: str) -> Part:
    """A step's statements, with its record."""
    ours = [each for each in _STEPS if each.version == step.version]
    header = Header.of((_FOLDER / step.file(way)).read_text("utf-8"))
    statements, record = catalogue.script(step.file(way)), []
    if way == "up":
        if step == _STEPS[0]:
            statements = [_SQL["table"], *statements]
        if step.name:
            needs = version_before(_STEPS, step.version) if header.needs is None else header.needs
            record.append(_filled("done", step.version, step.name, needs))
        if step == ours[-1]:
            record.append(_filled("record", step.version))
    else:
        if step.name:
            statements = [_filled("undone", step.version, step.name), *statements]
        if step == _STEPS[0]:
            record.append(_SQL["drop"])
        elif step == ours[0]:
            record.append(_filled("forget", step.version))
    # no transaction reads or writes beside it, and what is outside of one elsewhere is not needed here
    return Part(step.title(way), tuple(statements), tuple(record), header.locks, batches=header.batches)


def planned(to: int | None = None) -> Steps[list[Part]]:
    """What `migration` would do to this file now."""
    found = yield from read_recorded()
    parts = plan(found, to)
    if found.version == 0 or unknown(_STEPS, found.steps):
        return parts
    prefix, have = yield from catalogue.found()
    if found.version < FIRST_OF_STEPS and not found.steps:
        if repair := (yield from _repair(found, prefix, have)):
            parts.insert(1 if found.version in UNRELEASED else 0, repair)
    elif wrong := catalogue.differences(prefix, have, _made(found)):
        raise damaged("the file", found.version, wrong)
    return parts


def _repair(found: Recorded, prefix: str, have: dict[str, str]) -> Steps[Part | None]:
    """What makes the tables of version 1 whole; None if they are. Raises `SchemaOutdated` where nothing does."""
    statements = []
    try:
        for each in catalogue.repair(prefix, have):
            if isinstance(each, str):
                statements.append(each)
            else:
                table, column = each
                some = f"select 1 from {table} where {column} is not null limit 1"  # noqa: S608 - names of ours
                if (yield Statement(some)):
                    raise LookupError(column)
    except LookupError:
        raise differs("the file", found.version, _ADOPTED) from None
    locks = "the file, for as long as a copy of the tables takes"
    return Part(_REPAIR, tuple(statements), locks=locks) if statements else None


def _made(found: Recorded) -> list[str]:
    """The statements that made the tables of what is recorded."""
    steps = [step for step in _STEPS if not step.name or step in found.steps]
    return [_SQL["table"], *(sql for step in steps for sql in catalogue.script(step.file("up")))]


def migration(to: int | None = None) -> Steps[list[str]]:
    """Bring the schema to a version inside the open transaction; gives what was done, a line for each part."""
    # read under the lock: another process may have migrated since
    parts = yield from planned(to)
    for part in parts:
        yield from _run(part)
    return [part.title for part in parts]


def _run(part: Part) -> Steps[None]:
    before = yield from installed()
    if before == 0:
        yield from _refuse_strangers()
    for sql in part.statements:
        while (yield Statement(sql)) and part.batches:
            pass
    for sql in part.record:
        yield Statement(sql)
    if part.title == _REPAIR:
        prefix, have = yield from catalogue.found()
        if catalogue.differences(prefix, have, [_SQL["table"], *catalogue.script("0001.up.sql")]):
            raise differs("the file", before, _ADOPTED)


def _advance(to: int | None) -> Steps[tuple[list[Part], bool]]:
    """The next transaction of a migration: what it did, and whether there is more. What goes down is one."""
    parts = yield from planned(to)
    if to is not None and to < (yield from installed()):
        now = parts
    elif parts and parts[0].batches and (yield Statement(parts[0].statements[0])):
        return [], True
    else:
        now = parts[:1]
    for part in now:
        yield from _run(part)
    return now, len(now) < len(parts)


def migrate(conn: Connection, to: int | None = None) -> list[str]:
    """The same in transactions of its own, one for each part: one that was ended goes on where it was."""
    done: list[str] = []
    more = True
    while more:
        conn.execute("begin immediate", ())
        try:
            parts, more = drive(_advance(to), conn.run)
            conn.execute("commit", ())
        except BaseException:
            if conn.in_transaction:
                conn.execute("rollback")
            raise
        done += [part.title for part in parts]
    return done


def ensure(conn: Connection, path: str, prefix: str = "") -> None:
    """Create the schema in a new file; raises `SchemaOutdated` if it has another version."""
    found = drive(read_version(), conn.run)
    if found == 0:
        migrate(conn)
    else:
        _refuse_other(found, path, prefix, drive(_missing(), conn.run) if found == VERSION else [])


def prepare(path: str, prefix: str = "") -> Steps[bool]:
    """The same inside a caller's transaction; True if the schema was committed before."""
    found = yield from read_version()
    if found == 0:
        yield from migration()
        return False
    _refuse_other(found, path, prefix, (yield from _missing()) if found == VERSION else [])
    return True


def _missing() -> Steps[list[str]]:
    """The steps of this library's version that were not done."""
    found = yield from read_recorded()
    return [step.name for step in _STEPS if step.version == VERSION and step not in found.steps]


def _refuse_other(found: int, path: str, prefix: str, missing: list[str]) -> None:
    """Raises `SchemaOutdated` for any version but this library's, with all its steps."""
    url = f"'sqlite:///{path}?prefix={prefix}'" if prefix else f"sqlite:///{path}"
    if missing:
        raise incomplete(path, found, missing, f"stop the workers, then run: headway --url {url} migrate")
    if found == VERSION:
        return
    if found in UNRELEASED:
        raise unreleased(path, found, f"stop its workers, then run: headway --url {url} migrate")
    if found > VERSION:
        raise newer(path, found, VERSION)
    raise SchemaOutdated(
        f"{path} has schema version {found}, and this library needs {VERSION}: "
        f"stop the workers, then run: headway --url {url} migrate"
    )


def _filled(name: str, *params: int | str) -> str:
    """A statement with its parameters, which are version numbers and the names of steps."""
    texts = [f"'{each}'" if isinstance(each, str) else str(each) for each in params]
    return re.sub(r"\?(\d+)", lambda match: texts[int(match[1]) - 1], _SQL[name])


def _refuse_strangers() -> Steps[None]:
    rows = yield Statement(_SQL["strangers"])
    if rows:
        names = ", ".join(sorted(row[0] for row in rows))
        raise StoreError(
            f"this database already has tables of Headway's names that Headway did not make ({names}): "
            "give Headway a file of its own, or its tables a prefix with sqlite:///file.db?prefix=headway_"
        )
