"""Every verb of the SQLite store, gathered."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.job import Claim, Settlement
from headway.model.machine import Settled
from headway.store.actors import checks_actors
from headway.store.ops import Op, Steps
from headway.store.sqlite.engine.verbs import SqliteOp
from headway.store.sqlite.fleet.tenants import TenantVerbs
from headway.store.sqlite.fleet.workers import FleetVerbs
from headway.store.sqlite.jobs.change import OperateVerbs
from headway.store.sqlite.jobs.claim import ClaimVerbs
from headway.store.sqlite.jobs.enqueue import EnqueueVerbs
from headway.store.sqlite.jobs.move import MoveVerbs
from headway.store.sqlite.jobs.promote import TickVerbs
from headway.store.sqlite.jobs.reads import ReadVerbs
from headway.store.sqlite.jobs.reap import ReapVerbs
from headway.store.sqlite.jobs.retry import RetryVerbs
from headway.store.sqlite.jobs.settle import SettleVerbs
from headway.store.sqlite.machines.children import ChildVerbs
from headway.store.sqlite.machines.signals import SignalVerbs
from headway.store.sqlite.order.fair import FairVerbs
from headway.store.sqlite.order.groups import GroupVerbs
from headway.store.sqlite.order.joins import JoinVerbs
from headway.store.sqlite.order.limits import LimitVerbs
from headway.store.sqlite.order.reservations import ReservationVerbs
from headway.store.sqlite.order.sweep import SweepVerbs
from headway.store.sqlite.order.train_reads import TrainReadVerbs
from headway.store.sqlite.order.trains import TrainVerbs
from headway.store.sqlite.triggers.declare import DeclareVerbs
from headway.store.sqlite.triggers.definitions import DefinitionVerbs
from headway.store.sqlite.triggers.due import DueVerbs
from headway.store.sqlite.triggers.events import EventVerbs
from headway.store.sqlite.triggers.fires import FireVerbs
from headway.store.sqlite.triggers.templates import TemplateVerbs
from headway.store.sqlite.triggers.triggers import TriggerVerbs


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
