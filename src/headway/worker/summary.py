"""What a worker did: counts of how executions ended."""

from __future__ import annotations

from dataclasses import dataclass, fields

from headway.model.job import Settlement
from headway.model.status import UNFINISHED

SUCCESSES = frozenset({"succeeded", "stepped"})


@dataclass(slots=True)
class Summary:
    """How many executions ended in which way. `stepped`: a machine that goes on; `lost`: the lease was lost, and this
    worker wrote no outcome."""

    succeeded: int = 0
    stepped: int = 0
    retried: int = 0
    snoozed: int = 0
    failed: int = 0
    dead: int = 0
    canceled: int = 0
    released: int = 0
    lost: int = 0

    def count(self, name: str, by: int = 1) -> None:
        setattr(self, name, getattr(self, name) + by)

    @property
    def successes(self) -> int:
        return self.succeeded + self.stepped

    def __str__(self) -> str:
        counts = ((field.name, getattr(self, field.name)) for field in fields(self))
        return ", ".join(f"{count:,} {name}" for name, count in counts if count) or "nothing to do"


def name_of(settlement: Settlement) -> str:
    """The word for an execution's end: succeeded, stepped, retried, snoozed, failed, dead, canceled or released."""
    if settlement.status in ("snoozed", "released"):
        return settlement.status
    if settlement.turn is not None and settlement.turn.progress and settlement.to in UNFINISHED:
        return "stepped"
    return "retried" if settlement.to in ("scheduled", "queued") else settlement.to
