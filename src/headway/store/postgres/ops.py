"""Every verb of the PostgreSQL store, gathered; chapter by chapter as in `store/ops/`."""

from __future__ import annotations

from headway.store.actors import checks_actors
from headway.store.postgres.access.job_lists import JobListVerbs
from headway.store.postgres.access.keys import KeyVerbs
from headway.store.postgres.access.requests import RequestVerbs
from headway.store.postgres.access.sessions import SessionVerbs
from headway.store.postgres.engine.migrate import MigrateVerbs
from headway.store.postgres.fleet.heartbeat_claims import HeartbeatClaimsVerbs
from headway.store.postgres.fleet.queues import QueueVerbs
from headway.store.postgres.fleet.tenant_care import TenantCareVerbs
from headway.store.postgres.fleet.tenants import TenantVerbs
from headway.store.postgres.fleet.workers import WorkerVerbs
from headway.store.postgres.flows.children import FlowChildVerbs
from headway.store.postgres.flows.forget import ForgetVerbs
from headway.store.postgres.flows.fork import FlowForkVerbs
from headway.store.postgres.flows.read import JournalVerbs
from headway.store.postgres.flows.record import RecordVerbs
from headway.store.postgres.jobs.artifacts import ArtifactVerbs
from headway.store.postgres.jobs.audit import AuditVerbs
from headway.store.postgres.jobs.audit_chain import AuditChainVerbs
from headway.store.postgres.jobs.cancel import CancelVerbs
from headway.store.postgres.jobs.change import ChangeVerbs
from headway.store.postgres.jobs.claim import ClaimVerbs
from headway.store.postgres.jobs.claim_once import ClaimOnceVerbs
from headway.store.postgres.jobs.committed import CommittedVerbs
from headway.store.postgres.jobs.delete import DeleteVerbs
from headway.store.postgres.jobs.enqueue import EnqueueVerbs
from headway.store.postgres.jobs.find import FindVerbs
from headway.store.postgres.jobs.move import MoveVerbs
from headway.store.postgres.jobs.policy import PolicyVerbs
from headway.store.postgres.jobs.promote import PromoteVerbs
from headway.store.postgres.jobs.prune import PruneVerbs
from headway.store.postgres.jobs.reads import ReadVerbs
from headway.store.postgres.jobs.reap import ReapVerbs
from headway.store.postgres.jobs.retry import RetryVerbs
from headway.store.postgres.jobs.settle import SettleVerbs
from headway.store.postgres.jobs.unique_windows import WindowVerbs
from headway.store.postgres.machines.children import ChildVerbs
from headway.store.postgres.machines.fork import ForkVerbs
from headway.store.postgres.machines.signals import SignalVerbs
from headway.store.postgres.machines.steps import StepVerbs
from headway.store.postgres.order.arrivals import ArrivalVerbs
from headway.store.postgres.order.fair import FairVerbs
from headway.store.postgres.order.groups import GroupVerbs
from headway.store.postgres.order.joins import JoinVerbs
from headway.store.postgres.order.limits import LimitVerbs
from headway.store.postgres.order.reservations import ReservationVerbs
from headway.store.postgres.order.sweep import SweepVerbs
from headway.store.postgres.order.trains import TrainVerbs
from headway.store.postgres.stats.errors import ErrorVerbs
from headway.store.postgres.stats.fold import FoldVerbs
from headway.store.postgres.stats.reads import StatVerbs
from headway.store.postgres.stats.vitals import VitalVerbs
from headway.store.postgres.triggers.connectors import ConnectorVerbs
from headway.store.postgres.triggers.definitions import DefinitionVerbs
from headway.store.postgres.triggers.due import DueVerbs
from headway.store.postgres.triggers.events import EventVerbs
from headway.store.postgres.triggers.fires import FireVerbs
from headway.store.postgres.triggers.templates import TemplateVerbs
from headway.store.postgres.triggers.triggers import TriggerVerbs


@checks_actors
class PostgresOps(
    MigrateVerbs,
    EnqueueVerbs,
    ClaimVerbs,
    SettleVerbs,
    ClaimOnceVerbs,
    PolicyVerbs,
    CommittedVerbs,
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
    """The verbs of `store/ops/` on PostgreSQL: the SQL functions hold the semantics, each read is one select."""

    # the defaults of the audit's columns read these
    origin = (
        "select set_config('headway.request_id', $1, true), set_config('headway.address', $2, true),"
        " set_config('headway.actor_name', $3, true)"
    )
