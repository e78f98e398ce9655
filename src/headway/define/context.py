"""Context: what a handler sees of its own job, and how it reports progress."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol

import msgspec

from headway import secrets
from headway.define.output import Output
from headway.errors import InvalidPayload, NotAllowed
from headway.logs import get_logger
from headway.model.codec import decode
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim, Report
from headway.model.machine import Child
from headway.model.signal import Signal
from headway.model.trace import tracestate
from headway.secrets import Keyring, Known, Owner, Vault

TAIL_LIMIT = 65_536  # bytes
NOTE_LIMIT = 512

_log = get_logger("headway.job")
_undeclared = Vault()


class Program(msgspec.Struct, kw_only=True):
    """What is known of the program that an execution ran; stored with the attempt, however it ends."""

    pid: int | None = None
    exit_code: int | None = None  # -N: signal N ended it
    stdout_tail: str | None = None
    stderr_tail: str | None = None


if TYPE_CHECKING:
    from typing_extensions import TypeVar  # every type checker has it; nothing of it is needed to run

    from headway.artifacts import Data
    from headway.model.artifact import Artifact

    class AnyState(Any):  # type: ignore[misc]
        """The state where a context does not name its type: fits everywhere, as Any does. With Any itself, mypy could
        not tell the overloads of `@app.job` apart."""

    S = TypeVar("S", default=AnyState)
else:
    from typing import TypeVar

    S = TypeVar("S")


class OwnTransactions(Protocol):
    """What the worker does for `settle`."""

    def settle(self, ctx: Context[Any], outcome: Any, conn: Any) -> None: ...

    async def asettle(self, ctx: Context[Any], outcome: Any, conn: Any) -> None: ...


class ArtifactWriter(Protocol):
    """What the worker does for `artifact`."""

    def store(self, attempt: Claim, name: str, data: Data, content_type: str | None) -> Artifact: ...

    async def astore(
        self, attempt: Claim, name: str, data: Data | AsyncIterable[bytes | str], content_type: str | None
    ) -> Artifact: ...


class Context(Generic[S]):
    """Given to the parameter that is annotated `Context`; safe to use from any thread of the handler. A step of a
    machine annotates it `Context[State]`, and type checkers know what `ctx.state` is.

    The worker makes one for each execution, sets `canceled` by `cancel()`, and reads `take_report()`.
    """

    __slots__ = (
        "_by_code",
        "_canceled",
        "_changed",
        "_claim",
        "_cut",
        "_end",
        "_keyring",
        "_lock",
        "_mid_line",
        "_note",
        "_outputs",
        "_pieces",
        "_progress",
        "_size",
        "_stopping",
        "_tail_limit",
        "_tenant",
        "_vault",
        "_worker_id",
        "artifact_writer",
        "gave_way",
        "own_transactions",
        "patience_s",
        "program",
        "saw_canceled",
    )

    def __init__(
        self,
        claim: Claim,
        *,
        tenant: str | None = None,
        worker_id: str | None = None,
        vault: Vault | None = None,
        by_code: bool = True,
        tail_limit: int = TAIL_LIMIT,
    ) -> None:
        self._claim = claim
        self._tenant = tenant
        self._worker_id = worker_id
        self._vault = vault
        self.own_transactions: OwnTransactions | None = None  # set by the worker
        self.artifact_writer: ArtifactWriter | None = None  # set by the worker
        self._by_code = by_code  # its kind is defined by code
        self._keyring: Keyring | None = None
        self._tail_limit = tail_limit
        self._canceled = False
        self._stopping = False
        self.gave_way = False  # the handler has seen that its worker stops
        self.saw_canceled = False  # the handler has seen that it must end now
        self._changed = False
        self._progress: float | None = None
        self._note: str | None = None
        self._pieces: deque[str] | None = None  # of the log tail, in order
        self._size = 0  # their bytes
        self._end = 0  # all characters that were ever in it
        self._cut = False  # older text was cut off
        self._mid_line = False  # it ends with a line of `log`, so the next text starts a new line
        self._outputs: dict[str, Output] | None = None
        self.program: Program | None = None
        self.patience_s: float | None = None  # how long the worker waits for a cancelled handler; None: the default
        self._lock = threading.Lock()

    @property
    def claim(self) -> Claim:
        """For the worker: what it claimed."""
        return self._claim

    # what only the steps of a machine have

    @property
    def state(self) -> S:
        """The machine's state, as its type; None for a plain job."""
        return None  # type: ignore[return-value]

    @state.setter
    def state(self, _: Any) -> None:
        raise AttributeError("a plain job has no state: only the steps of a Machine do")

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The signals of the await that woke this step; its outcome consumes them."""
        return ()

    @property
    def inbox(self) -> tuple[Signal, ...]:
        """Every signal that is not consumed yet."""
        return ()

    @property
    def children(self) -> tuple[Child, ...]:
        """The jobs of the Spawn that this step comes after, in their order, with results and errors."""
        return ()

    @property
    def timed_out(self) -> bool:
        """Whether this step runs because its await timed out without the signals."""
        return False

    @property
    def step(self) -> str | None:
        """The name of this step."""
        return None

    # what every job has

    @property
    def job_id(self) -> str:
        return self._claim.id

    @property
    def tenant(self) -> str:
        """The tenant's name, or its id if the worker knows no name."""
        return self._tenant or self._claim.tenant_id

    @property
    def kind(self) -> str:
        return self._claim.kind

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def attempt(self) -> int:
        """The number of this execution of the job, or of this step, from 1, whatever ended the ones before:
        a failure, a loss, a snooze, a `Replay`, a deploy. An operator's retry starts again at 1."""
        return self._claim.attempt

    @property
    def tries(self) -> int:
        """How many executions failed before this one."""
        return self._claim.tries

    @property
    def losses(self) -> int:
        """How many executions were lost with their worker before this one."""
        return self._claim.losses

    @property
    def fence(self) -> int:
        """The number of this execution; with the job id, a token that no other execution has."""
        return self._claim.fence

    @property
    def worker_id(self) -> str | None:
        """The worker that runs it; None where a test calls the handler."""
        return self._worker_id

    @property
    def trace_id(self) -> str:
        """The trace that the job belongs to, which its log lines have: of the one that came with it, or its own."""
        return self._claim.trace

    @property
    def traceparent(self) -> str:
        """The W3C header that takes the trace on, for what the handler calls."""
        return self._claim.traceparent

    @property
    def tracestate(self) -> str | None:
        """The W3C header that goes with it, if one came."""
        return tracestate(self._claim.trace_id)

    @property
    def correlation_id(self) -> str | None:
        return self._claim.correlation_id

    @property
    def meta(self) -> dict[str, Any]:
        """What `using(meta=…)` gave; a new dict each time."""
        meta = self._claim.meta
        return {} if meta is None else dict(decode(meta, what="meta") or {})

    @property
    def canceled(self) -> bool:
        """Whether this execution must end now: it was canceled, or its timeout or its worker's grace period is over.

        After a handler has seen True here, its canceled job ends canceled, whatever it returns; if it did finish, it
        returns `Done(result)`.
        """
        if self._canceled:
            self.saw_canceled = True
            self.gave_way |= self._stopping
        return self._canceled

    @property
    def stopping(self) -> bool:
        """Whether the worker was asked to stop: save what is done and return before the grace period is over.

        After a handler has seen True here, its job is given back and runs again elsewhere, whatever it returns; if it
        did finish, it returns `Done(result)`.
        """
        if self._stopping:
            self.gave_way = True
        return self._stopping

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Show how far the job is, from 0 to 1; kept here, the worker writes it about once a second."""
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise InvalidPayload(f"progress({fraction!r}) is not from 0 to 1: give the fraction that is done")
        # before the cut: half of a secret would not be recognised
        clean = None if note is None else secrets.redact(_storable(note), self.known())[:NOTE_LIMIT]
        with self._lock:
            self._progress = float(fraction)
            self._note = clean
            self._changed = True

    def log(self, message: str) -> None:
        """Add a line to the job's log tail, of which the last 64 KiB are kept, and to the structured log."""
        line = secrets.redact(_storable(message), self.known())
        with self._lock:
            self._append(line, is_line=True)
        _log.info(line, **self._log_fields())

    def output(self, text: str, *, stream: str = "stdout") -> None:
        """Add raw output of a program or a library to the job's log tail, in pieces of any size.

        Whole lines are shown, or 4 KB of a longer line; secrets are redacted even where two pieces share one. An
        unfinished line is shown when the job ends. Each stream has its own lines.
        """
        with self._lock:
            self._output(stream).write(_storable(text))

    def output_gap(self, note: str, *, stream: str = "stdout") -> None:
        """Note that output is missing here; the unfinished line on either side is left out, too."""
        with self._lock:
            self._output(stream).skip(note)

    def artifact(self, name: str, data: Data, *, content_type: str | None = None) -> Artifact:
        """Store a file with this attempt: bytes, a string, a `Path` to copy, an open file, or an iterator of bytes or
        strings, of any size in little memory.

        It is stored whole or not at all, and durable when this returns: it stays until its job is pruned, however the
        attempt ends. The content type is guessed from the name if none is given. Raises `InvalidArtifact` for a name
        that is no plain file name, `NotAllowed` if this attempt has one of that name, `ArtifactsUnavailable` if it
        cannot be written, and `LeaseLost` if the job is not this worker's any more: then nothing is kept.
        """
        return self._writes().store(self._claim, name, data, content_type)

    async def aartifact(
        self, name: str, data: Data | AsyncIterable[bytes | str], *, content_type: str | None = None
    ) -> Artifact:
        """The same for async handlers; `data` may be an async iterator, too."""
        return await self._writes().astore(self._claim, name, data, content_type)

    def _writes(self) -> ArtifactWriter:
        if self.artifact_writer is None:
            raise NotAllowed(
                "no worker runs this job, so it has no attempt to store artifacts with: run it by a worker"
            )
        return self.artifact_writer

    def settle(self, outcome: Any = None, *, conn: Any) -> None:
        """Make the outcome part of your own transaction: it holds exactly if that commits, together with your rows.

        `outcome` is what the handler would return, or an instance of `Retry`, `Snooze` or `Cancel`. `conn` is a
        connection or session in a transaction on Headway's database, of any library that `enqueue` takes. What follows
        (the next step, the next car, children) follows after the commit, once the handler has returned; what it returns
        is then ignored. After a rollback there is no outcome, and what the handler returns or raises counts.

        Raises `LeaseLost` if the job is not this worker's any more: let that roll your transaction back. Raises
        `NotAllowed` if it has an outcome already, `InvalidOutcome` and `InvalidPayload` for one that cannot be stored.
        """
        self._settles().settle(self, outcome, conn)

    async def asettle(self, outcome: Any = None, *, conn: Any) -> None:
        """The same for async handlers; `conn` may be async or not."""
        await self._settles().asettle(self, outcome, conn)

    def _settles(self) -> OwnTransactions:
        if self.own_transactions is None:
            raise NotAllowed("no worker runs this job, so it has no running row to settle: run it by a worker")
        return self.own_transactions

    def secret(self, name: str) -> str:
        """The value of the worker's environment variable `name`; from now on it is masked in all texts of this tenant's
        jobs.

        Raises `SecretMissing` if it is not set, or not declared for this kind and tenant; that fails this attempt,
        which is retried by policy.
        """
        return self.keyring.get(name)

    @property
    def keyring(self) -> Keyring:
        """For the worker: the secrets of this execution."""
        if self._keyring is None:
            vault = self._vault or _undeclared
            owner = owner_of(self._claim, self._tenant)
            self._keyring = vault.keyring(self._claim.kind, owner, by_code=self._by_code)
        return self._keyring

    def share_keyring(self, first: Context) -> None:
        """For the worker: the calls of a batch have one keyring, since a secret of each may get into any result."""
        first.keyring.given.update(self.given)
        self._keyring = first.keyring

    @property
    def given(self) -> Mapping[str, str]:
        """For the worker: the secrets that this execution got, by name."""
        return {} if self._keyring is None else self._keyring.given

    def known(self) -> Known:
        """For the worker: the secrets to mask in its texts."""
        return self.keyring.known

    def close_outputs(self) -> None:
        """For the worker: the handler has ended; show its unfinished lines."""
        if self._outputs is not None:
            with self._lock:
                for each in self._outputs.values():
                    each.close()

    def cancel(self) -> None:
        """For the worker: somebody asked this job to stop. (A handler that wants to end raises `Cancel`.)"""
        self._canceled = True

    def stop(self) -> None:
        """For the worker: it has begun to stop."""
        self._stopping = True

    def take_report(self) -> Report | None:
        """For the worker: progress, note and log tail, if any changed since the last call, else None."""
        if not self._changed:
            return None
        with self._lock:
            self._changed = False
            tail = None if self._pieces is None else "".join(self._pieces)
            if tail and self._cut:
                tail = tail.removeprefix("\n")
            return Report(self._claim.id, self._claim.fence, self._progress, self._note, tail, self._end)

    def _log_fields(self) -> dict[str, Any]:
        # passed explicitly: a handler may log from its own threads, which have no current job
        claim = self._claim
        fields = {
            "tenant_id": claim.tenant_id,
            "job_id": claim.id,
            "kind": claim.kind,
            "attempt": claim.fence,
            "worker_id": self._worker_id,
            "trace_id": claim.trace,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _output(self, stream: str) -> Output:
        if self._outputs is None:
            self._outputs = {}
        found = self._outputs.get(stream)
        if found is None:
            found = self._outputs[stream] = Output(self._append, self.known)
        return found

    def _append(self, text: str, *, is_line: bool = False) -> None:
        self._changed = True
        if self._pieces is None:
            self._pieces = deque()
        elif self._mid_line or (is_line and not self._pieces[-1].endswith("\n")):
            text = f"\n{text}"
        self._mid_line = is_line
        self._end += len(text)
        size = _bytes(text)
        if size > self._tail_limit:
            text = text.encode()[-self._tail_limit :].decode(errors="ignore")
            size = _bytes(text)
            self._cut = True
        self._pieces.append(text)
        self._size += size
        while self._size > self._tail_limit:
            self._size -= _bytes(self._pieces.popleft())
            self._cut = True


def owner_of(claim: Claim, tenant: str | None) -> Owner:
    """Whose job it is. Only the default tenant's id gets the name default, whatever a tenant is called."""
    if claim.tenant_id == DEFAULT_TENANT_ID:
        return Owner(claim.tenant_id, "default")
    return Owner(claim.tenant_id, claim.tenant_id if tenant in (None, "default") else tenant)


def _bytes(line: str) -> int:
    return len(line) if line.isascii() else len(line.encode())


def _storable(text: object) -> str:
    """The text without what a store cannot hold: a log line must not fail its job."""
    text = text if isinstance(text, str) else str(text)
    if text.isascii():
        return text.replace("\0", "�") if "\0" in text else text
    return text.encode(errors="replace").decode().replace("\0", "�")
