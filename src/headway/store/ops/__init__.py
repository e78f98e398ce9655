"""The whole list of what can be done to a database: a chapter each, a verb each, with its contract in a few sentences.

A verb returns an `Op`: a recipe that yields statements and receives their rows, and that a driver runs in one
transaction, in either colour (`run.py`). Nothing else writes. Every verb but claim and retry may be repeated after a
lost acknowledgement; after a lost claim the worker asks `running` what it holds and releases what it never saw.
"""

from __future__ import annotations

from typing import Protocol

from headway.store.ops.access import Access
from headway.store.ops.fleet import Fleet
from headway.store.ops.flows import Flows
from headway.store.ops.jobs import Jobs
from headway.store.ops.machines import Machines
from headway.store.ops.order import Order
from headway.store.ops.recipe import Batch, Op, Row, Rows, Statement, Steps
from headway.store.ops.stats import Stats
from headway.store.ops.triggers import Triggers

__all__ = ["Batch", "Op", "Ops", "Row", "Rows", "Statement", "Steps"]


class Ops(Jobs, Order, Machines, Flows, Triggers, Fleet, Stats, Access, Protocol):
    """Both stores implement this; `tests/store/` holds them to it."""

    def version(self) -> Op[int]:
        """The schema's version in the database; 0 where there is none."""
        ...
