"""Headway: a durable work engine for Python, on a SQLite file or on PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.version import __version__ as __version__

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.app.transfer import atransfer, transfer
    from headway.dashboard import asgi
    from headway.define import Call, Context, Flow, Machine, Registry, SyncFlow, step
    from headway.model.artifact import Artifact
    from headway.model.cron_words import explain_cron
    from headway.model.group import Group
    from headway.model.job import Attempt, Enqueued, Job, Outcome
    from headway.model.limit import Limit
    from headway.model.outcome import Await, Cancel, Done, Next, Replay, Retry, Sleep, Snooze, Spawn, StepOutcome, Stop
    from headway.model.signal import Signal
    from headway.model.train import Train
    from headway.secrets import secret
    from headway.store.migrate import amigrate, migrate

__all__ = [
    "Artifact",
    "Attempt",
    "Await",
    "Call",
    "Cancel",
    "Context",
    "Done",
    "Enqueued",
    "Flow",
    "Group",
    "Headway",
    "Job",
    "Limit",
    "Machine",
    "Next",
    "Outcome",
    "Registry",
    "Replay",
    "Retry",
    "Signal",
    "Sleep",
    "Snooze",
    "Spawn",
    "StepOutcome",
    "Stop",
    "SyncFlow",
    "Train",
    "amigrate",
    "asgi",
    "atransfer",
    "explain_cron",
    "migrate",
    "secret",
    "step",
    "transfer",
]

# imported when first used, so that the command line can answer without importing the engine
_HOMES = {
    "Artifact": "headway.model.artifact",
    "Attempt": "headway.model.job",
    "Await": "headway.model.outcome",
    "Call": "headway.define",
    "Cancel": "headway.model.outcome",
    "Context": "headway.define",
    "Done": "headway.model.outcome",
    "Enqueued": "headway.model.job",
    "Flow": "headway.define",
    "SyncFlow": "headway.define",
    "Group": "headway.model.group",
    "Headway": "headway.app",
    "Job": "headway.model.job",
    "Limit": "headway.model.limit",
    "Machine": "headway.define",
    "Next": "headway.model.outcome",
    "Outcome": "headway.model.job",
    "Registry": "headway.define",
    "Replay": "headway.model.outcome",
    "Retry": "headway.model.outcome",
    "Signal": "headway.model.signal",
    "Sleep": "headway.model.outcome",
    "Snooze": "headway.model.outcome",
    "Spawn": "headway.model.outcome",
    "StepOutcome": "headway.model.outcome",
    "Stop": "headway.model.outcome",
    "Train": "headway.model.train",
    "amigrate": "headway.store.migrate",
    "asgi": "headway.dashboard",
    "atransfer": "headway.app.transfer",
    "explain_cron": "headway.model.cron_words",
    "migrate": "headway.store.migrate",
    "secret": "headway.secrets",
    "step": "headway.define",
    "transfer": "headway.app.transfer",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
