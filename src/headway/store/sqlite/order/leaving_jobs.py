"""Reads jobs that are about to leave their status or queue, for model/departure.py to say what they set free."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headway.model.departure import Departure, LeavingJob
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("order/leaving_jobs")


class LeavingRow(LeavingJob, frozen=True, array_like=True):
    """The same with its number in the table, and how it ends early if it is a flow that has begun."""

    flow: int = 0  # 1: it is asked to end, 2: it was asked already
    rowid: int = 0


class Ends(msgspec.Struct, frozen=True):
    """What ended executions leave to follow up."""

    departures: list[Departure]
    locomotives: list[int]  # by rowid: cars that succeeded and that only their train waited for
    over: list[str]  # every job that is over, where a trigger listens to how jobs end


def leaving_jobs(rowids: Iterable[int]) -> Steps[dict[int, LeavingRow]]:
    """These jobs by rowid; read them before they move."""
    rows = yield Statement(_SQL["leaving"], (json_list(list(rowids)),))
    return {row[-1]: LeavingRow(*row) for row in rows}
