"""Every verb of the SQLite store, gathered."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.job import Claim, Settlement
from headway.model.machine import Settled
from headway.store.actors import checks_actors
from headway.store.ops import Op, Steps
from headway.store.sqlite.children import ChildVerbs
from headway.store.sqlite.claim import ClaimVerbs
from headway.store.sqlite.declare import DeclareVerbs
from headway.store.sqlite.definitions import DefinitionVerbs
from headway.store.sqlite.due import DueVerbs
from headway.store.sqlite.enqueue import EnqueueVerbs
from headway.store.sqlite.events import EventVerbs
from headway.store.sqlite.fair import FairVerbs
from headway.store.sqlite.fires import FireVerbs
from headway.store.sqlite.fleet import FleetVerbs
from headway.store.sqlite.groups import GroupVerbs
from headway.store.sqlite.joins import JoinVerbs
from headway.store.sqlite.limits import LimitVerbs
from headway.store.sqlite.move import MoveVerbs
from headway.store.sqlite.op import SqliteOp
from headway.store.sqlite.operate import OperateVerbs
from headway.store.sqlite.reads import ReadVerbs
from headway.store.sqlite.reap import ReapVerbs
from headway.store.sqlite.reservations import ReservationVerbs
from headway.store.sqlite.retry import RetryVerbs
from headway.store.sqlite.settle import SettleVerbs
from headway.store.sqlite.signals import SignalVerbs
from headway.store.sqlite.sweep import SweepVerbs
from headway.store.sqlite.templates import TemplateVerbs
from headway.store.sqlite.tenants import TenantVerbs
from headway.store.sqlite.tick import TickVerbs
from headway.store.sqlite.train_reads import TrainReadVerbs
from headway.store.sqlite.trains import TrainVerbs
from headway.store.sqlite.triggers import TriggerVerbs


@checks_actors
class SqliteOps(
    EnqueueVerbs,
    OperateVerbs,
    RetryVerbs,
    MoveVerbs,
    SignalVerbs,
    ChildVerbs,
    DefinitionVerbs,
    TemplateVerbs,
    TriggerVerbs,
    DeclareVerbs,
    EventVerbs,
    DueVerbs,
    FireVerbs,
    TrainVerbs,
    GroupVerbs,
    LimitVerbs,
    FairVerbs,
    ReservationVerbs,
    ClaimVerbs,
    SettleVerbs,
    ReapVerbs,
    FleetVerbs,
    TickVerbs,
    SweepVerbs,
    JoinVerbs,
    ReadVerbs,
    TrainReadVerbs,
    TenantVerbs,
):
    """The verbs of `store/ops.py` for a SQLite file; the clock is the host's, passed as a parameter."""

    def settle_and_claim(
        self, worker_id: str, settlements: Sequence[Settlement], queue: str, limit: int
    ) -> Op[tuple[Settled, list[Claim]]]:
        def steps() -> Steps[tuple[Settled, list[Claim]]]:
            settled = yield from self.settle(worker_id, settlements).steps()
            claims = yield from self.claim(worker_id, queue, limit).steps()
            return settled, claims

        return SqliteOp(steps, writes=True, repeatable=False)
