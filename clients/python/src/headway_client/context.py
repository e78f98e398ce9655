"""Context: what a handler may know of its job, and say of it while it runs."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway_client.errors import HeadwayError
from headway_client.values import Artifact, read

if TYPE_CHECKING:
    from headway_client.uploads import Data, Uploads


@dataclass(frozen=True, kw_only=True)
class Signal:
    id: str
    name: str
    payload: Any
    sent_at: str
    traceparent: str | None = None  # of what sent it, if that was traced
    tracestate: str | None = None


@dataclass(frozen=True, kw_only=True)
class Child:
    id: str
    kind: str
    status: str
    result: Any = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"


class Context:
    """One execution of a job; safe to use from any thread."""

    def __init__(self, job: Mapping[str, Any], uploads: Uploads | None = None) -> None:
        self.fields = job
        self._uploads = uploads
        self.job_id: str = job["id"]
        self.fence: int = job["fence"]
        self.kind: str = job["kind"]
        self.queue: str = job["queue"]
        self.tenant_id: str = job["tenant_id"]
        self.tries: int = job["tries"]  # executions that failed before this one
        self.losses: int = job.get("losses", 0)  # executions that were lost with their worker
        self.correlation_id: str | None = job.get("correlation_id")
        self.meta: Mapping[str, Any] = job.get("meta") or {}
        self.trace_id: str = job["trace_id"]
        self.traceparent: str = job["traceparent"]  # the W3C header that takes the trace on
        self.tracestate: str | None = job.get("tracestate")
        self.step: str | None = job["step"]
        self.state: Any = job.get("state")  # of a machine; None before its first step, whose state is the payload
        # every signal that is not consumed yet; and those of the await that woke this step, which its outcome consumes
        self.inbox: Sequence[Signal] = [read(Signal, signal) for signal in job["signals"]]
        self.signals: Sequence[Signal] = [signal for signal in self.inbox if signal.name in job["awaiting"]]
        self.children: Sequence[Child] = [read(Child, child) for child in job["children"]]
        self.timed_out: bool = job["timed_out"]
        self.worker_stops = False
        self.gave_way = False  # the handler has seen that its worker stops
        self.saw_canceled = False  # the handler has seen that it must end now
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._said: dict[str, Any] = {}
        self._logged = 0  # characters, in all

    @property
    def canceled(self) -> bool:
        """Whether this execution must end now: it was canceled, or its timeout or its worker's grace period is over.

        After a handler has seen True here, its canceled job ends canceled, whatever it returns; if it did finish, it
        returns `Done(result)`. The outcome of a machine's step counts as always.
        """
        self.saw_canceled = self.must_end
        return self.saw_canceled

    @property
    def stopping(self) -> bool:
        """Whether the worker was asked to stop: save what is done and return before the grace period is over.

        After a handler has seen True here, its job is given back and runs again elsewhere, whatever it returns; if it
        did finish, it returns `Done(result)`. The outcome of a machine's step counts as always.
        """
        if self.worker_stops:
            self.gave_way = True
        return self.worker_stops

    def wait_canceled(self, seconds: float) -> bool:
        """Sleep, but not past the moment at which this execution must end; gives whether it must."""
        self._stop.wait(seconds)
        return self.canceled

    def progress(self, part: float, note: str | None = None) -> None:
        """Show how much is done, from 0 to 1, with the next heartbeat, or when it ends."""
        with self._lock:
            self._said["progress"] = min(max(0.0, part), 1.0)  # in this order, NaN becomes 0
            if note is not None:
                self._said["note"] = str(note)

    def log(self, line: str) -> None:
        """Add a line to the job's log, with the next heartbeat, or when it ends."""
        with self._lock:
            self._said["log"] = self._said.get("log", "") + line + "\n"
            self._logged += len(line) + 1

    def artifact(self, name: str, data: Data, *, content_type: str | None = None) -> Artifact:
        """Store a file with this attempt: bytes, a string, a `Path` to send, an open file, or an iterator of bytes or
        strings. It is stored when this returns, whole, and stays however the attempt ends; if the data raises midway,
        nothing is stored. Raises `LeaseLost` if the job is not this worker's any more, `NotAllowed` if this attempt has
        one of that name, `Invalid` for a name that is no plain file name."""
        return self._working().store(self, name, data, content_type)

    async def aartifact(
        self, name: str, data: Data | AsyncIterable[bytes | str], *, content_type: str | None = None
    ) -> Artifact:
        """The same for async handlers; `data` may be an async iterator, too."""
        return await self._working().astore(self, name, data, content_type)

    def _working(self) -> Uploads:
        if self._uploads is None:
            raise HeadwayError("no worker runs this job, so it has no attempt to store artifacts with")
        return self._uploads

    # for the worker

    def ask_to_stop(self) -> None:
        self._stop.set()

    @property
    def must_end(self) -> bool:
        return self._stop.is_set()

    @property
    def has_said(self) -> bool:
        """Whether there is something that no heartbeat has told."""
        return bool(self._said)

    def take_said(self) -> dict[str, Any]:
        with self._lock:
            said, self._said = self._said, {}
            if "log" in said and self.fields.get("log_at") is not None:  # the server knows by it what it has already
                said["log_at"] = self._logged - len(said["log"])
        return said

    def say_again(self, said: Mapping[str, Any]) -> None:
        """A heartbeat was lost."""
        with self._lock:
            log = said.get("log", "") + self._said.get("log", "")
            self._said = {**said, **self._said, **({"log": log} if log else {})}
