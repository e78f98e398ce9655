"""Flows without a worker: played in memory with steps that a test gives, or replayed from their journal."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from headway.app import Headway
from headway.define import FlowKind
from headway.define.flow import Flow, StepCall, current_flow
from headway.define.flow_kind import Edition
from headway.define.flow_run import Ended, Failed, FlowRun, Operation, Signaled, Timed
from headway.errors import FlowChanged, FlowMisused, InvalidJob, NotFound
from headway.model import codec
from headway.model.ids import as_id, new_id
from headway.model.job import NewJob
from headway.model.journal import Row, effective
from headway.testing.performed import context

Fake = Callable[..., Any] | BaseException | Any
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_LIMIT = 1 << 20


class Played(msgspec.Struct, frozen=True):
    """One operation that was carried out: its place, its kind, and what it gave."""

    place: str
    kind: str
    value: Any = None
    error: str | None = None


class Playing:
    """A flow in a test's hands: `next()` carries out its oldest operation, `run()` all of them.

    `steps` are what its steps and jobs give instead of running, by their names: a value, an exception, or a function
    of their arguments; steps that are not among them run. Time is held: what sleeps is due at once, in order.
    """

    def __init__(
        self, job: NewJob, kind: FlowKind[..., Any], steps: Mapping[str, Fake], signals: Iterable[tuple[str, Any]]
    ) -> None:
        self.trail: list[Played] = []
        self._steps = steps
        self._signals = list(signals)
        self._tries: dict[str, int] = {}
        self._now = _BEGAN
        self._seq = 0
        self._due: dict[str, float] = {}
        self._run = FlowRun(job.id, kind.edition.version, [])
        _begin(self._run, kind, kind.edition, job.payload, _BEGAN)
        _advance(self._run)

    @property
    def waits_for(self) -> list[str]:
        """The places of the operations that it waits for now."""
        return list(self._run.asked)

    @property
    def is_over(self) -> bool:
        return self._run.is_over

    @property
    def values(self) -> dict[str, Any]:
        """What `flow.set` has set."""
        return {name: msgspec.json.decode(value) for name, value in self._run.values.items()}

    def signal(self, name: str, payload: Any = None) -> None:
        self._signals.append((name, payload))

    def cancel(self) -> None:
        """As an operator does."""
        self._deliver("cancel", "$cancel", None, None)

    def next(self) -> Played | None:
        """Carry out one operation: a step or job before a signal, a signal before a time. None if it waits for a signal
        that was not given, or is over."""
        for operation in list(self._run.asked.values()):
            if operation.kind in ("step", "call", "enqueue"):
                return self._carry_out(operation)
        for operation in list(self._run.asked.values()):
            if operation.kind == "receive":
                for number, (name, payload) in enumerate(self._signals):
                    if name in operation.what.names:
                        del self._signals[number]
                        raw = msgspec.Raw(codec.encode(payload, limit=_LIMIT).encode())
                        return self._deliver("signal", operation.place, Signaled(name, raw), None, shown=payload)
        return self._pass_time()

    def run(self) -> Any:
        """Carry out everything; gives what the function returns, or raises what it raises."""
        while not self._run.is_over:
            if self.next() is None and not self._run.is_over:
                raise FlowMisused(
                    f"the flow waits for {', '.join(self.waits_for)}, and the test has given no such signal: "
                    "play(…, signals=[(name, payload)]), or playing.signal(name, payload)"
                )
        assert self._run.main is not None
        self._run.close()
        return self._run.main.result()

    def _carry_out(self, operation: Operation) -> Played:
        place = operation.place
        name = place.partition("#")[0].rpartition(":")[2]
        what = operation.what
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        if isinstance(what, StepCall):
            args, kwargs = what.args, what.kwargs
        elif operation.kind in ("call", "enqueue"):
            kwargs = msgspec.json.decode(what.job.payload)
        if operation.kind == "call" and name not in self._steps:
            raise InvalidJob(f"the flow calls {name}: say what it gives, play(…, steps={{{name!r}: result}})")
        tries = self._tries[place] = self._tries.get(place, 0) + 1
        try:
            value = self._give(operation, name, args, kwargs, tries - 1)
        except Exception as error:
            most = what.policy.options.max_attempts if isinstance(what, StepCall) else 1
            if tries < most:
                played = Played(place, "tried", error=str(error))
                self.trail.append(played)
                return played
            if operation.kind == "call":
                ended = Ended(new_id(), "dead", error=str(error))
                return self._deliver("ended", place, ended, None)
            return self._deliver("failed", place, Failed(type(error).__name__, tries), str(error))
        if operation.kind == "call":
            raw = msgspec.Raw(codec.encode(value, limit=_LIMIT).encode())
            return self._deliver("ended", place, Ended(new_id(), "succeeded", raw), None, shown=value)
        if operation.kind == "enqueue":
            value = {"id": what.job.id}
        return self._deliver("done", place, value, None)

    def _give(self, operation: Operation, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], tries: int) -> Any:
        if name in self._steps:
            fake = self._steps[name]
            if isinstance(fake, BaseException) or (isinstance(fake, type) and issubclass(fake, BaseException)):
                raise fake
            return _called(partial(fake, *args, **kwargs)) if callable(fake) else fake
        what = operation.what
        if isinstance(what, StepCall):
            return _called(what.call_with(context(tries=tries)))
        return None

    def _pass_time(self) -> Played | None:
        times: list[tuple[float, str]] = []
        for place, operation in self._run.asked.items():
            timed = operation.what.timed if operation.kind == "receive" else operation.what
            if isinstance(timed, Timed):
                at = timed.at_s if timed.at_s is not None else self._now + (timed.delay_s or 0.0)
                times.append((self._due.setdefault(place, at), place))
        if not times:
            return None
        at, place = min(times)
        self._now = max(self._now, at)
        return self._deliver("timer", place, None, None)

    def _deliver(self, kind: Any, place: str, value: Any, error: str | None, *, shown: Any = None) -> Played:
        self._seq += 1
        raw = None if value is None and kind != "done" else msgspec.Raw(codec.encode(value, limit=_LIMIT).encode())
        self._run.deliver(
            Row(
                job_id="",
                seq=self._seq,
                fence=1,
                kind=kind,
                place=place,
                value=raw,
                error=error,
                print=None,
                at=datetime.fromtimestamp(self._now, UTC),
                took_ms=None,
                signal=None,
            )
        )
        _advance(self._run)
        self._run.take_left()
        played = Played(place, kind, value if kind == "done" else shown, error)
        self.trail.append(played)
        return played


def playing(
    job: NewJob,
    app: Headway | FlowKind[..., Any],
    *,
    steps: Mapping[str, Fake] | None = None,
    signals: Sequence[tuple[str, Any]] = (),
) -> Playing:
    """Play a flow (`checkout.build(order=42)`) by hand, without a database: `next()`, `signal()`, `cancel()`,
    `run()`."""
    return Playing(job, _flow_of(job.kind, app), steps or {}, signals)


def play(
    job: NewJob,
    app: Headway | FlowKind[..., Any],
    *,
    steps: Mapping[str, Fake] | None = None,
    signals: Sequence[tuple[str, Any]] = (),
) -> Any:
    """Play a flow to its end, without a database; gives its result, or raises what its function raises.

    `play(checkout.build(order=42), checkout, steps={"reserve": 7}, signals=[("payment", {"amount": 100})])`
    """
    return playing(job, app, steps=steps, signals=signals).run()


def replay(app: Headway, job_id: str | UUID) -> list[str]:
    """Replay a stored flow's journal against the code at hand: nothing runs, and nothing is written.

    Gives the places whose arguments are others now. Raises `FlowChanged` where the code asks for something else than
    was recorded, and the flow would be set aside.
    """
    id_ = as_id(job_id)
    job = app.get(id_)
    if job is None:
        raise NotFound(f"there is no job {id_}")
    kind = _flow_of(job.kind, app)
    version = job.version or kind.edition.version
    edition = next((each for each in kind.editions if each.runs(version)), None)
    if edition is None:
        raise FlowChanged(kind.unknown_version(version))
    rows = _journal(app, id_)
    run = FlowRun(id_, version, effective(rows))
    began = next((row for row in rows if row.place == "$began"), None)
    at = msgspec.json.decode(began.value or b"{}")["at"] if began is not None else job.created_at.timestamp()
    _begin(run, kind, edition, msgspec.json.encode(job.payload).decode(), at)
    try:
        _advance(run)
        return run.differing
    finally:
        run.drop()


def _journal(app: Headway, job_id: str) -> list[Row]:
    found: list[Row] = []
    while True:
        after = {job_id: found[-1].seq} if found else None
        journals = app.store.run(app.store.ops.journal([job_id], after=after))
        found += journals.rows
        if not journals.more:
            return found


def _flow_of(name: str, app: Headway | FlowKind[..., Any]) -> FlowKind[..., Any]:
    kind = app if isinstance(app, FlowKind) else next((each for each in app.kinds if each.name == name), None)
    if not isinstance(kind, FlowKind):
        raise InvalidJob(f"{name} is no flow of this app: a flow is an async function under @app.flow")
    return kind


def _begin(run: FlowRun, kind: FlowKind[..., Any], edition: Edition, payload: str, at: float) -> None:
    flow = Flow(run, kind, context(job_id=run.job_id), edition.policy)
    call = kind.function_of(edition, run, flow, payload)
    if run.thread is not None:
        call = partial(run.thread.main, lambda work: threading.Thread(target=work, daemon=True).start())
    inside = contextvars.copy_context()
    inside.run(current_flow.set, flow)
    inside.run(run.begin, call, at)


def _advance(run: FlowRun) -> None:
    """Until it is at rest and has had all that is recorded."""
    while True:
        if run.thread is not None:
            idle = threading.Event()
            if run.thread.computes(idle.set):
                idle.wait()
                continue
        if run.advance():
            return


def _called(call: Callable[[], Any]) -> Any:
    value = call()
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value
