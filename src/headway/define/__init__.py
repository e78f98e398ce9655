"""Defining work: kinds, their options, and what a handler sees."""

from headway.define.batch import BatchKind, Call
from headway.define.claimed_step import ClaimedStep
from headway.define.context import Context
from headway.define.enqueuer import Enqueuer
from headway.define.flow import Flow
from headway.define.flow_kind import ClaimedFlow, FlowKind
from headway.define.flow_step import flow_step
from headway.define.kind import ContextKind, Kind
from headway.define.machine import Machine, MachineKind
from headway.define.option_types import KindOptions, UsingOptions
from headway.define.options import Options, new_job
from headway.define.registry import Decorator, FlowVerb, JobVerb, Registry
from headway.define.step_context import StepContext
from headway.define.steps import step
from headway.define.sync_flow import SyncFlow
from headway.model.outcome import Cancel, Retry, Snooze

__all__ = [
    "BatchKind",
    "Call",
    "Cancel",
    "ClaimedFlow",
    "ClaimedStep",
    "Context",
    "ContextKind",
    "Decorator",
    "Enqueuer",
    "Flow",
    "FlowKind",
    "FlowVerb",
    "JobVerb",
    "Kind",
    "KindOptions",
    "Machine",
    "MachineKind",
    "Options",
    "Registry",
    "Retry",
    "Snooze",
    "StepContext",
    "SyncFlow",
    "UsingOptions",
    "flow_step",
    "new_job",
    "step",
]
