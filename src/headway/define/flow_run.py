"""FlowRun: one run of a flow's function against its journal. Knows no database and no worker: whoever drives it gives
it answers, one at a time, and asks it what it waits for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal
from uuid import UUID

import msgspec

from headway.define.flow_loop import FlowLoop, FlowTimer
from headway.errors import ChildFailed, FlowChanged, FlowMisused, StepFailed, StepLost
from headway.model import codec
from headway.model.job import NewJob
from headway.model.journal import ANSWERS, CANCEL, Row
from headway.model.machine import Child
from headway.model.status import Status

OperationKind = Literal["step", "sleep", "timer", "receive", "call", "enqueue"]
_FITS: Mapping[str, frozenset[OperationKind]] = {
    "done": frozenset({"step", "enqueue"}),
    "failed": frozenset({"step", "call", "enqueue"}),
    "signal": frozenset({"receive"}),
    "ended": frozenset({"call"}),
    "timer": frozenset({"sleep", "timer", "receive"}),
}
_32_BITS = 1 << 32


class Dropped(BaseException):
    """Raised at an operation that is asked for while the run is unwound: nothing that follows counts."""


class Restarted(BaseException):
    """Raised by `flow.restart`: the run is over, and begins anew with these arguments."""

    def __init__(self, payload: str) -> None:
        super().__init__(payload)
        self.payload = payload


class Operation:
    """What a flow's function waits for."""

    __slots__ = ("decode", "future", "handle", "kind", "place", "print", "run", "target", "what")

    def __init__(
        self,
        kind: OperationKind,
        name: str,
        *,
        target: str = "",
        args: Any = None,
        decode: Callable[[Any], Any] | None = None,
        what: Any = None,
    ) -> None:
        self.kind = kind
        self.place = name  # until it is asked for: then with its number
        self.target = target or name
        self.print = _print(self.target, args)
        self.decode = decode
        self.what = what  # for whoever carries it out
        self.future: asyncio.Future[Any] | None = None
        self.handle: FlowTimer | None = None


class Timed(msgspec.Struct, frozen=True):
    """When a sleep, a timer or a timeout is due: after a time from the moment it was asked for, or at a moment."""

    delay_s: float | None = None
    at_s: float | None = None


class Wanted(msgspec.Struct, frozen=True):
    """The signals that a `receive` waits for, and for how long."""

    names: tuple[str, ...]
    timed: Timed | None
    named: bool  # give the name with the payload


class Called(msgspec.Struct, frozen=True):
    """The job that a `call` or `enqueue` makes."""

    job: NewJob
    keep: bool = False  # it goes on though nobody waits for it any more
    as_child: bool = False  # the function gets a `Child`, however it ended


class Internal(msgspec.Struct, frozen=True):
    """A signal to another job, or its cancel: done by the worker, as a step."""

    verb: Literal["send", "cancel"]
    args: tuple[Any, ...]
    policy: Any


class Signaled(msgspec.Struct, frozen=True):
    """The value of a `signal` row."""

    name: str
    payload: msgspec.Raw = msgspec.Raw(b"null")


class Ended(msgspec.Struct, frozen=True):
    """The value of an `ended` row."""

    id: str
    status: Status
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """The value of a `failed` row; its reason is the row's error."""

    kind: str
    tries: int = 1
    lost: bool = False
    trace: str = ""


class FlowRun:
    """The function's tasks, the operations that it waits for, and the notes about them."""

    def __init__(self, job_id: str, version: int, rows: Sequence[Row], *, seed: str = "") -> None:
        self.job_id = job_id
        self.version = version
        self.seed = seed or job_id
        self.generation = self.seed.removeprefix(job_id).strip() or "0"  # another one after each restart
        self.asked: dict[str, Operation] = {}  # open, in the order in which they were asked for
        self.left: dict[str, Operation] = {}  # given up by the function, since `take_left` was called
        self._new: list[Operation] = []  # asked for, since `take_new` was called
        self.notes: dict[str, list[Row]] = {}
        self.values: dict[str, Any] = {}  # what `flow.set` set
        self.undone = False  # a saga has undone something
        self.canceled_at: int | None = None  # the seq of the cancel
        self.canceled_time = 0.0
        self.last_answer = 0  # its seq
        self.differing: list[str] = []  # places whose arguments differ from the recorded ones
        self.thread: Any = None  # of a plain function: its `FlowThread`
        self.waits_for_thread: asyncio.Future[None] | None = None
        self.loop = FlowLoop(self._timer, self._timer_canceled)  # type: ignore[abstract]
        self.main: asyncio.Task[Any] | None = None
        self.random = random.Random(self.seed)
        self._ids = random.Random(f"{self.seed} ids")
        self._counts: dict[str, int] = {}
        self._known: set[str] = set()  # places that were asked for
        self.answers = [row for row in rows if row.kind in ANSWERS]
        for row in rows:
            if row.kind not in ANSWERS:
                self.notes.setdefault(row.place, []).append(row)
        self.next_answer = 0
        self.was_here = False  # a run before this one came to rest where the journal ends, and parked

    # beginning, and going on

    def begin(self, function: Callable[[], Coroutine[Any, Any, Any]], now: float) -> None:
        self.loop.now = now
        self.main = self.loop.create_task(function(), name="main")

    def advance(self, slice_s: float = 3600.0) -> bool:
        """Let the function run, and give it what its journal has; gives whether it has had all of that and is at rest.

        Raises `FlowChanged` if the journal has an answer to something that the function does not ask for.
        """
        if not self.loop.run(slice_s):
            return False
        if self.waits_for_thread is not None:
            # the function was computing when the loop came to rest: it rests now, or `computes` is asked first
            future, self.waits_for_thread = self.waits_for_thread, None
            if not future.done():
                future.set_result(None)
            return False
        if self.next_answer < len(self.answers):
            row = self.answers[self.next_answer]
            self.next_answer += 1
            self.deliver(row)
            return False
        return True

    @property
    def is_replaying(self) -> bool:
        return self.next_answer < len(self.answers) or self.was_here

    @property
    def is_over(self) -> bool:
        return self.main is not None and self.main.done()

    def deliver(self, row: Row) -> None:
        """Give the function an answer; it must be at rest."""
        self.loop.now = max(self.loop.now, row.at.timestamp())
        self.last_answer = row.seq
        if row.kind == "cancel":
            self.canceled_at, self.canceled_time = row.seq, row.at.timestamp()
            assert self.main is not None
            self.main.cancel("canceled")
            return
        operation = self.asked.pop(row.place, None)
        if operation is None:
            if row.place in self._known:
                return  # asked for, and given up before its answer came
            raise FlowChanged(self._changed(row))
        if operation.kind not in _FITS[row.kind]:
            raise FlowChanged(f"recorded {row.place} as {row.kind}, and the code asks for a {operation.kind} there")
        self._compare(row, operation)
        if operation.handle is not None:
            self.loop.fire(operation.handle)
            return
        future = operation.future
        assert future is not None
        if future.done():
            return
        try:
            future.set_result(_value(row, operation))
        except (StepFailed, ChildFailed) as error:
            future.set_exception(error)
        except Exception as error:  # a result that its annotation does not fit any more
            future.set_exception(error)

    def drop(self) -> None:
        """Leave the function: its tasks end here, and nothing that they still ask for counts."""
        self.loop.unwind()
        if self.thread is not None:
            self.thread.drop()

    def close(self) -> list[Operation]:
        """The function has ended: end the tasks that it left; gives what they still waited for."""
        for task in self.loop.unfinished:
            task.cancel()
        self.loop.run()
        self.left.update(self.asked)
        self.asked = {}
        self.drop()
        return self.take_left()

    def take_new(self) -> list[Operation]:
        """What the function has asked for since the last call, and still waits for."""
        new, self._new = self._new, []
        return [operation for operation in new if self.asked.get(operation.place) is operation]

    def take_left(self) -> list[Operation]:
        """What the function asked for and gave up since the last call."""
        left, self.left = list(self.left.values()), {}
        return left

    # what its operations need

    def ask(self, operation: Operation) -> asyncio.Future[Any]:
        """Begin to wait for it, under the next free place of its name."""
        if self.loop.dropping:
            raise Dropped
        if asyncio._get_running_loop() is not self.loop:
            raise FlowMisused(
                f"{operation.place} was asked for outside of its flow's function: an operation belongs into the "
                "function itself, not into a step, a thread or another event loop"
            )
        self._number(operation)
        operation.future = self.loop.create_future()
        return operation.future

    def give_up(self, operation: Operation) -> None:
        """The function does not wait for it any more."""
        if self.asked.get(operation.place) is operation:
            del self.asked[operation.place]
            if not self.loop.dropping:
                self.left[operation.place] = operation

    def notes_of(self, place: str, kind: str) -> list[Row]:
        return [row for row in self.notes.get(place, ()) if row.kind == kind]

    def uuid(self) -> UUID:
        return UUID(int=self._ids.getrandbits(128), version=4)

    def _timer(self, handle: FlowTimer) -> None:
        operation = Operation("timer", "timer", what=Timed(delay_s=handle.when() - self.loop.now))
        operation.handle = handle
        self._number(operation)
        handle.operation = operation

    def _number(self, operation: Operation) -> None:
        name = operation.place
        number = self._counts[name] = self._counts.get(name, 0) + 1
        if number > 1:
            operation.place = f"{name}#{number}"
        self._known.add(operation.place)
        self.asked[operation.place] = operation
        self._new.append(operation)

    def _compare(self, row: Row, operation: Operation) -> None:
        if row.print is None or row.print == operation.print:
            return
        if row.print // _32_BITS != operation.print // _32_BITS:
            raise FlowChanged(
                f"recorded {row.place} for another {'kind' if operation.kind == 'call' else 'function'}, and the code "
                f"asks for {operation.target} there"
            )
        self.differing.append(row.place)

    def _changed(self, row: Row) -> str:
        if self.is_over:
            error = None if self.main is None or self.main.cancelled() else self.main.exception()
            ended = "has ended" if error is None else f"has ended with {type(error).__name__}: {error}"
            return f"recorded {row.place}, and the function {ended} before it"
        waiting = ", ".join(list(self.asked)[:5]) or "nothing"
        return f"recorded {row.place}, asked for {waiting}"

    def _timer_canceled(self, handle: FlowTimer) -> None:
        if handle.operation is not None:
            self.give_up(handle.operation)


def _value(row: Row, operation: Operation) -> Any:
    match row.kind:
        case "done":
            return operation.decode(row.value) if operation.decode is not None else codec.decode(row.value or b"null")
        case "failed":
            failed = msgspec.json.decode(row.value or b'{"kind":"Exception"}', type=Failed)
            error = StepLost if failed.lost else StepFailed
            raise error(
                row.place,
                kind=failed.kind,
                reason=row.error or "",
                tries=failed.tries,
                trace=failed.trace,
                seq=row.seq,
            )
        case "signal":
            signaled = msgspec.json.decode(row.value or b"", type=Signaled)
            payload = codec.decode(signaled.payload, what="signal")
            return (signaled.name, payload) if operation.what.named else payload
        case "ended":
            ended = msgspec.json.decode(row.value or b"", type=Ended)
            if operation.what.as_child:
                return Child(
                    id=ended.id,
                    kind=operation.what.job.kind,
                    status=ended.status,
                    result=codec.decode(ended.result),
                    error=ended.error,
                )
            if ended.status != "succeeded":
                raise ChildFailed(
                    ended.id, kind=operation.what.job.kind, status=ended.status, error=ended.error, seq=row.seq
                )
            return operation.decode(ended.result) if operation.decode is not None else codec.decode(ended.result)
        case _:
            return None


def _print(target: str, args: Any) -> int:
    """A number for what is asked for: its upper half is of the target, the lower one of the arguments."""
    return _hash(target.encode()) * _32_BITS + (_hash(_text(args)) if args is not None else 0)


def _hash(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=4).digest()) & 0x7FFFFFFF


def _text(args: Any) -> bytes:
    try:
        return _encoder.encode(args)
    except Exception:
        return b""  # what cannot be compared is not


_encoder = msgspec.json.Encoder(order="deterministic")


def open_names(operations: Iterable[Operation]) -> tuple[str, ...]:
    """The names of all signals that these operations wait for, and CANCEL."""
    names = [name for operation in operations if operation.kind == "receive" for name in operation.what.names]
    return tuple(dict.fromkeys((*names, CANCEL)))
