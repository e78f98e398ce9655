"""The public names: what headway exports, no more and no less."""

from __future__ import annotations

import headway
from headway import errors


def test_the_public_names_are_these() -> None:
    assert sorted(headway.__all__) == [
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
    for name in headway.__all__:
        assert getattr(headway, name).__doc__, name


def test_every_error_is_a_headway_error_with_a_docstring() -> None:
    found = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert found == {
        "ChangedMeanwhile",
        "ChildFailed",
        "CommandFailed",
        "ConfigError",
        "ConnectorFailed",
        "FlowChanged",
        "FlowFailed",
        "FlowMisused",
        "StepFailed",
        "StepLost",
        "Duplicate",
        "HeadwayError",
        "InvalidArtifact",
        "ArtifactElsewhere",
        "ArtifactGone",
        "ArtifactsUnavailable",
        "InvalidJob",
        "InvalidOutcome",
        "InvalidPayload",
        "InvalidSignature",
        "JobFailed",
        "LeaseLost",
        "NotAllowed",
        "NotFinished",
        "NotFound",
        "PayloadMismatch",
        "QueueFull",
        "RenderError",
        "Replayed",
        "ReservationBusy",
        "SchemaMissing",
        "SchemaOutdated",
        "SecretMissing",
        "StoreBusy",
        "StoreError",
        "StoreFailed",
        "StoreMoved",
        "StoreUnavailable",
        "TenantSuspended",
        "UnknownKind",
    }
    for name in found:
        error = getattr(errors, name)
        assert issubclass(error, errors.HeadwayError)
        assert error.__doc__


def test_every_blocking_verb_has_an_async_twin() -> None:
    bulk = {"count_jobs", "cancel_jobs", "retry_jobs"}  # operators' loops over pages
    blocking = {
        "attempts",
        "audit",
        "cancel",
        "cancel_group",
        "change",
        "clear_train",
        "close",
        "counts",
        "children",
        "enqueue",
        "enqueue_many",
        "fair",
        "fork",
        "get",
        "get_group",
        "group",
        "history",
        "hold_train",
        "jobs",
        "limit",
        "limits",
        "move",
        "pause",
        "queues",
        "result",
        "resume",
        "resume_train",
        "retry",
        "retry_group",
        "run",
        "run_now",
        "signal",
        "signal_many",
        "signals",
        "skip",
        "train",
        "trains",
        "why",
        "workers",
    }
    names = {name for name in dir(headway.Headway) if not name.startswith("_")}
    assert blocking | bulk <= names
    assert {f"a{name}" for name in blocking} <= names
