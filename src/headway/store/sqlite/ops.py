"""Every verb of the SQLite store, gathered; chapter by chapter as in `store/ops/`."""

from __future__ import annotations

from headway.store.actors import checks_actors
from headway.store.sqlite.access.job_lists import JobListVerbs
from headway.store.sqlite.access.keys import KeyVerbs
from headway.store.sqlite.access.requests import RequestVerbs
from headway.store.sqlite.access.sessions import SessionVerbs
from headway.store.sqlite.engine.migrate import MigrateVerbs
from headway.store.sqlite.fleet.heartbeat_claims import HeartbeatClaimsVerbs
from headway.store.sqlite.fleet.queues import QueueVerbs
from headway.store.sqlite.fleet.tenant_care import TenantCareVerbs
from headway.store.sqlite.fleet.tenants import TenantVerbs
from headway.store.sqlite.fleet.workers import WorkerVerbs
from headway.store.sqlite.flows.children import FlowChildVerbs
from headway.store.sqlite.flows.forget import ForgetVerbs
from headway.store.sqlite.flows.fork import FlowForkVerbs
from headway.store.sqlite.flows.read import JournalVerbs
from headway.store.sqlite.flows.record import RecordVerbs
from headway.store.sqlite.jobs.artifacts import ArtifactVerbs
from headway.store.sqlite.jobs.audit import AuditVerbs
from headway.store.sqlite.jobs.audit_chain import AuditChainVerbs
from headway.store.sqlite.jobs.cancel import CancelVerbs
from headway.store.sqlite.jobs.change import ChangeVerbs
from headway.store.sqlite.jobs.claim import ClaimVerbs
from headway.store.sqlite.jobs.claim_once import ClaimOnceVerbs
from headway.store.sqlite.jobs.committed import CommittedVerbs
from headway.store.sqlite.jobs.delete import DeleteVerbs
from headway.store.sqlite.jobs.enqueue import EnqueueVerbs
from headway.store.sqlite.jobs.find import FindVerbs
from headway.store.sqlite.jobs.move import MoveVerbs
from headway.store.sqlite.jobs.policy import PolicyVerbs
from headway.store.sqlite.jobs.promote import PromoteVerbs
from headway.store.sqlite.jobs.prune import PruneVerbs
from headway.store.sqlite.jobs.reads import ReadVerbs
from headway.store.sqlite.jobs.reap import ReapVerbs
from headway.store.sqlite.jobs.retry import RetryVerbs
from headway.store.sqlite.jobs.settle import SettleVerbs
from headway.store.sqlite.jobs.unique_windows import WindowVerbs
from headway.store.sqlite.machines.children import ChildVerbs
from headway.store.sqlite.machines.fork import ForkVerbs
from headway.store.sqlite.machines.signals import SignalVerbs
from headway.store.sqlite.machines.steps import StepVerbs
from headway.store.sqlite.order.arrivals import ArrivalVerbs
from headway.store.sqlite.order.fair import FairVerbs
from headway.store.sqlite.order.groups import GroupVerbs
from headway.store.sqlite.order.joins import JoinVerbs
from headway.store.sqlite.order.limits import LimitVerbs
from headway.store.sqlite.order.reservations import ReservationVerbs
from headway.store.sqlite.order.sweep import SweepVerbs
from headway.store.sqlite.order.trains import TrainVerbs
from headway.store.sqlite.stats.errors import ErrorVerbs
from headway.store.sqlite.stats.fold import FoldVerbs
from headway.store.sqlite.stats.reads import StatVerbs
from headway.store.sqlite.stats.vitals import VitalVerbs
from headway.store.sqlite.triggers.connectors import ConnectorVerbs
from headway.store.sqlite.triggers.definitions import DefinitionVerbs
from headway.store.sqlite.triggers.due import DueVerbs
from headway.store.sqlite.triggers.events import EventVerbs
from headway.store.sqlite.triggers.fires import FireVerbs
from headway.store.sqlite.triggers.templates import TemplateVerbs
from headway.store.sqlite.triggers.triggers import TriggerVerbs


@checks_actors
class SqliteOps(
    MigrateVerbs,
    EnqueueVerbs,
    ClaimOnceVerbs,
    PolicyVerbs,
    CommittedVerbs,
    SettleVerbs,  # after those that extend it: Python's order of base classes
    ClaimVerbs,
    ReapVerbs,
    CancelVerbs,
    ChangeVerbs,
    RetryVerbs,
    MoveVerbs,
    PromoteVerbs,
    DeleteVerbs,
    PruneVerbs,
    WindowVerbs,
    ReadVerbs,
    FindVerbs,
    ArtifactVerbs,
    AuditVerbs,
    AuditChainVerbs,
    ArrivalVerbs,
    TrainVerbs,
    JoinVerbs,
    GroupVerbs,
    LimitVerbs,
    FairVerbs,
    ReservationVerbs,
    SweepVerbs,
    SignalVerbs,
    ChildVerbs,
    ForkVerbs,
    StepVerbs,
    RecordVerbs,
    JournalVerbs,
    FlowChildVerbs,
    ForgetVerbs,
    FlowForkVerbs,
    DefinitionVerbs,
    TemplateVerbs,
    ConnectorVerbs,
    TriggerVerbs,
    DueVerbs,
    FireVerbs,
    EventVerbs,
    WorkerVerbs,
    HeartbeatClaimsVerbs,
    QueueVerbs,
    TenantVerbs,
    TenantCareVerbs,
    FoldVerbs,
    StatVerbs,
    ErrorVerbs,
    VitalVerbs,
    KeyVerbs,
    SessionVerbs,
    RequestVerbs,
    JobListVerbs,
):
    """The verbs of `store/ops/` for a SQLite file; the clock is the host's, passed as a parameter."""
