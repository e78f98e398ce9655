"""The steps that make a schema: files of a store's `engine/migrations`, in order.

Version 1 is one script, `0001.up.sql`. A later version is a folder of steps, `0010/NN_words.up.sql` with
`NN_words.down.sql` beside it, done in order of NN and undone in reverse. A step begins with comments that say how it
runs:

    -- locks: what it locks, and for how long
    -- outside a transaction        such as for `create index concurrently`, after a `drop index … if exists`
    -- batches                      one statement, `returning` rows, repeated until it returns none
    -- needs version 20             libraries that know no schema newer than the one before stop working
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from headway.errors import ConfigError

_HEADER = re.compile(r"(?:--[^\n]*\n)*")
_NEEDS = re.compile(r"^-- needs version (\d+)$", re.MULTILINE)
_LOCKS = re.compile(r"^-- locks: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One script up and one down: the whole of version 1, or a step of a later version."""

    version: int
    name: str

    @property
    def words(self) -> str:
        return self.name[3:].replace("_", " ")

    def file(self, way: str) -> str:
        """Its script, relative to the folder of migrations; the way is up or down."""
        return f"{self.version:04}/{self.name}.{way}.sql" if self.name else f"{self.version:04}.{way}.sql"

    def title(self, way: str) -> str:
        whole = f"migrate {way} {'to' if way == 'up' else 'from'} version {self.version}"
        return f"{whole}: {self.words}" if self.name else whole


@dataclass(frozen=True, slots=True)
class Part:
    """What a migration commits as one: statements, and those that record them."""

    title: str
    statements: tuple[str, ...]
    record: tuple[str, ...] = ()
    locks: str = ""
    outside: bool = False
    batches: bool = False

    def script(self) -> str:
        """Its SQL text, for people and other tools."""
        how = "-- outside a transaction\n" * self.outside + "-- repeat until it returns no row\n" * self.batches
        return how + ";\n\n".join((*self.statements, *self.record)) + ";\n"


@dataclass(frozen=True, slots=True)
class Header:
    """What a step's first comments say of it."""

    locks: str
    outside: bool
    batches: bool
    needs: int | None  # the oldest version whose libraries work on the schema after it; none: the version before

    @classmethod
    def of(cls, text: str) -> Header:
        match = _HEADER.match(text)
        lines = match[0] if match else ""
        locks, needs = _LOCKS.search(lines), _NEEDS.search(lines)
        return cls(
            locks=locks[1] if locks else "",
            outside="-- outside a transaction\n" in lines,
            batches="-- batches\n" in lines,
            needs=int(needs[1]) if needs else None,
        )


def read_steps(folder: Traversable) -> tuple[Step, ...]:
    """All steps, in the order in which a new database runs them."""
    found = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name.isdigit():
            names = [part.name.removesuffix(".up.sql") for part in entry.iterdir() if part.name.endswith(".up.sql")]
            found += [Step(int(entry.name), name) for name in names]
        elif entry.name.endswith(".up.sql"):
            found.append(Step(int(entry.name.removesuffix(".up.sql")), ""))
    return tuple(sorted(found))


def version_before(steps: Iterable[Step], version: int) -> int:
    return max((step.version for step in steps if step.version < version), default=0)


def unknown(steps: Iterable[Step], done: Collection[Step]) -> list[str]:
    """The names of those that were done and are not among these: a newer build has them."""
    return [step.name for step in sorted(set(done) - set(steps))]


def route(steps: Iterable[Step], current: int, done: Collection[Step], to: int) -> list[tuple[Step, str]]:
    """The steps from a version to another one, each with its way, up or down.

    `done` are the steps above version 1 that the database records. Raises `ConfigError` for an unknown version."""
    ordered = list(steps)
    known = [0, *sorted({step.version for step in ordered})]
    if to not in known:
        listed = " and ".join([", ".join(map(str, known[:-1])), str(known[-1])])
        raise ConfigError(f"there is no schema version {to}: this library knows {listed}")
    have = {step for step in ordered if step in done or (not step.name and step.version <= current)}
    down = [(step, "down") for step in reversed(ordered) if step.version > to and step in have]
    up = [(step, "up") for step in ordered if step.version <= to and step not in have]
    return down + up
