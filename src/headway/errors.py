"""Every error that Headway raises on purpose, under one base class."""

from __future__ import annotations


class HeadwayError(Exception):
    """The base of all Headway errors; its message says what happened, why, and what to do next."""


class ConfigError(HeadwayError):
    """A setting, URL or option cannot be used."""


class InvalidPayload(HeadwayError):
    """A payload, result or other value cannot be stored; the message has the path to it."""


class PayloadMismatch(InvalidPayload):
    """A stored payload has a field that this code does not know, or lacks one that it requires: another release of the
    code enqueued it. Workers give such a job back to its queue."""


class InvalidJob(HeadwayError):
    """An enqueue was refused: a wrong option, name, argument or time."""


class InvalidArtifact(HeadwayError):
    """An artifact's name, content type or data cannot be used; nothing was stored."""


class ArtifactElsewhere(HeadwayError):
    """The bytes of an artifact are in a folder of another host."""


class ArtifactGone(HeadwayError):
    """An artifact's row is there, but its bytes are not: somebody deleted or changed them."""


class ArtifactsUnavailable(HeadwayError):
    """The folder or object store of the artifacts cannot be used right now; trying again may help."""


class InvalidOutcome(HeadwayError):
    """A machine's step returned something that is not an outcome, or cannot be carried out; the step has failed."""


class RenderError(HeadwayError):
    """A payload template cannot be filled from this event or schedule; the message has the placeholder."""


class SecretMissing(HeadwayError):
    """A payload names a secret that this worker's environment lacks; the attempt has failed."""


class CommandFailed(HeadwayError):
    """A command's program could not be run, or did not end as it should.

    `exit_code` is None if it never ran, and -N if signal N ended it; `retry` says whether another try may help.
    """

    def __init__(self, message: str, *, exit_code: int | None = None, retry: bool = True) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.retry = retry


class ConnectorFailed(HeadwayError):
    """A connector's request could not be made, or was not answered as it should.

    `retry` says whether another try may help, `delay_s` when: None is as the kind's backoff says.
    """

    def __init__(self, message: str, *, retry: bool = True, delay_s: float | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.delay_s = delay_s


class InvalidSignature(HeadwayError):
    """A webhook's signature does not hold, or it is too old: it may be somebody else's."""


class UnknownKind(HeadwayError):
    """The kind is not defined here."""


class Duplicate(HeadwayError):
    """A job with this unique key is already in scope; `job_id` is that job."""

    def __init__(self, message: str, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class Replayed(HeadwayError):
    """This request was done before, under the same key; `created` is what it made or met then: each id, and whether it
    was new."""

    def __init__(self, created: list[tuple[str, bool]]) -> None:
        super().__init__("this request was done before")
        self.created = created


class QueueFull(HeadwayError):
    """The tenant already has as many waiting jobs as it may have; nothing was enqueued."""


class ReservationBusy(HeadwayError):
    """Somebody else has reserved the queue; the message says who and until when."""


class NotFound(HeadwayError):
    """No such job, train, group, queue or worker (or not one of this tenant's)."""


class NotAllowed(HeadwayError):
    """The job's status, or the caller's role or tenant, does not allow this."""


class TenantSuspended(NotAllowed):
    """An operator suspended the tenant: nothing is written for it, and none of its jobs start, until it is resumed."""


class ChangedMeanwhile(HeadwayError):
    """The job is not as the caller last saw it; nothing was changed."""


class JobFailed(HeadwayError):
    """The job whose result was asked for did not succeed; `status` is how it ended, `error` its error."""

    def __init__(self, message: str, *, status: str, error: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.error = error


class NotFinished(HeadwayError):
    """The job whose result was asked for has not ended yet."""


class FlowMisused(HeadwayError):
    """A flow's function did something that it cannot: an operation from a step or a thread, a socket, a wrong value."""


class StepFailed(HeadwayError):
    """A step of a flow failed for good: `place` is which one, `kind` the name of its last error, `reason` that error's
    text, `tries` how often it was tried, `trace` where the last try raised it. The same in every replay."""

    def __init__(self, place: str, *, kind: str, reason: str, tries: int, trace: str = "", seq: int = 0) -> None:
        times = "" if tries == 1 else f" {tries} times"
        super().__init__(f"step {place} failed{times}: {kind}{f': {reason}' if reason else ''}")
        self.place = place
        self.kind = kind
        self.reason = reason
        self.tries = tries
        self.trace = trace
        self.seq = seq


class StepLost(StepFailed):
    """A step with delivery="at_most_once" began, and its worker was lost: whether it happened is not known."""


class ChildFailed(HeadwayError):
    """A job that a flow called did not succeed: `job_id`, `kind`, how it ended (`status`) and its `error`."""

    def __init__(self, job_id: str, *, kind: str, status: str, error: str | None, seq: int = 0) -> None:
        super().__init__(f"job {job_id} ({kind}) is {status}{f': {error}' if error else ''}")
        self.job_id = job_id
        self.kind = kind
        self.status = status
        self.error = error
        self.seq = seq


class FlowFailed(HeadwayError):
    """What `flow.fail` raises: the flow says itself that it is over; it ends `failed`."""


class FlowChanged(HeadwayError):
    """The code of a flow asks for something else than was recorded: the run is set aside, and nothing was done."""


class LeaseLost(HeadwayError):
    """A worker no longer holds its claim; nothing that it reported was written."""


class StoreError(HeadwayError):
    """The database refused or failed; nothing of the operation was written."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, is locked or is full right now; trying again later can help."""


class StoreBusy(StoreUnavailable):
    """Another transaction holds a row or a unique key that this operation needs, for longer than it waits."""


class StoreFailed(StoreError):
    """The database failed at the operation, but not because of the data: an internal error, no memory, its own
    statement_timeout. Nothing was written; trying again, or with a smaller batch, can help."""


class StoreMoved(StoreError):
    """The work of this database was moved to another one by `headway transfer`, or is being moved into it."""


class SchemaMissing(StoreError):
    """The database has no Headway schema yet."""


class SchemaOutdated(StoreError):
    """The database's schema is older or newer than this library's."""
