"""Every verb of the SQLite store, gathered."""

from __future__ import annotations

from headway.store.sqlite.claim import ClaimVerbs
from headway.store.sqlite.enqueue import EnqueueVerbs
from headway.store.sqlite.fleet import FleetVerbs
from headway.store.sqlite.operate import OperateVerbs
from headway.store.sqlite.reads import ReadVerbs
from headway.store.sqlite.reap import ReapVerbs
from headway.store.sqlite.settle import SettleVerbs
from headway.store.sqlite.tick import TickVerbs


class SqliteOps(EnqueueVerbs, ClaimVerbs, SettleVerbs, ReapVerbs, FleetVerbs, TickVerbs, OperateVerbs, ReadVerbs):
    """The verbs of `store/ops.py` for a SQLite file; the clock is the host's, passed as a parameter."""
