"""What is said of a schema that this library does not know; the same words for either store."""

from __future__ import annotations

from headway.errors import SchemaOutdated
from headway.shell import command

UNRELEASED = range(2, 10)
"""Versions before the first release, which counts from 1 again. When version 2 is released, these go."""

_SAID = 5
"""How many differences of tables a message names."""


def newer(where: str, found: int, known: int) -> SchemaOutdated:
    return SchemaOutdated(
        f"{where} has schema version {found}, newer than this library's {known}: upgrade the library here, or let the "
        "newer one take the schema down with headway migrate --to"
    )


class NewerBuild(SchemaOutdated):
    """The database has more steps of its version, or newer functions, than this build knows; which works on it."""


def newer_build(where: str, found: int) -> NewerBuild:
    return NewerBuild(
        f"{where} was migrated by a newer build of this library (schema version {found}): nothing was changed, and "
        "this build works on it as it is"
    )


def newer_functions(where: str, found: int) -> NewerBuild:
    return NewerBuild(
        f"{newer_build(where, found)}. To go back to this build's functions for good, end the newer workers, "
        f"then run {command('migrate', to=str(found))}"
    )


def newer_steps(where: str, found: int, steps: list[str]) -> NewerBuild:
    return NewerBuild(
        f"{where} was migrated by a newer build of this library (schema version {found}), with steps that this one "
        f"cannot undo ({shortened(steps)}): nothing was changed; let that build take it down"
    )


def unreleased(where: str, found: int, fix: str) -> SchemaOutdated:
    return SchemaOutdated(
        f"{where} has schema version {found} of an unreleased Headway: {fix}, which adopts it if its tables are the "
        "same"
    )


def differs(where: str, found: int, known: int) -> SchemaOutdated:
    return SchemaOutdated(
        f"{where} has schema version {found} of an unreleased Headway, and its tables are not version {known}'s: "
        "finish its jobs with the Headway that made it, delete the schema there (headway migrate --to 0, which deletes "
        "all jobs), then run headway migrate here. Nothing was changed"
    )


def damaged(where: str, found: int, differences: list[str]) -> SchemaOutdated:
    return SchemaOutdated(
        f"{where} has schema version {found}, but its tables are not those of version {found} "
        f"({shortened(differences)}): restore them, or move the work to a new database with headway transfer. "
        "Nothing was changed"
    )


def incomplete(where: str, found: int, steps: list[str], fix: str) -> SchemaOutdated:
    return SchemaOutdated(f"{where} has schema version {found} without all its steps ({shortened(steps)}): {fix}")


def shortened(differences: list[str]) -> str:
    more = f", and {len(differences) - _SAID} more" if len(differences) > _SAID else ""
    return "; ".join(differences[:_SAID]) + more
