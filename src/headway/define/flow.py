"""Flow: what a flow's function gets, to do its operations with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, overload
from uuid import UUID

import msgspec

from headway.define import checks
from headway.define.context import Context
from headway.define.flow_run import Called, Dropped, FlowRun, Internal, Operation, Restarted, Timed, Wanted
from headway.define.flow_step import Policy, result_decoder, step_function
from headway.define.kind import Kind
from headway.errors import ChildFailed, FlowFailed, FlowMisused, InvalidJob
from headway.model import codec
from headway.model.codec import encode
from headway.model.duration import Duration, to_ms
from headway.model.job import NewJob, OnFailure
from headway.model.machine import Child
from headway.model.spill import refuse_large

if TYPE_CHECKING:
    from headway.define.flow_kind import FlowKind

P = ParamSpec("P")
R = TypeVar("R")

_VALUE_LIMIT = 1 << 20
UNDO_TRIES = 100
"""How often an undo is tried that has no policy of its own: what was done must not stay half done."""


class StepCall(msgspec.Struct, frozen=True):
    """A step as the function asked for it."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    policy: Policy
    is_async: bool
    context: tuple[int, str] | None  # the parameter that gets the context: its place and name
    by_name: bool = False  # that one is given by name only

    def call_with(self, ctx: Context) -> Callable[[], Any]:
        """The call, with the context where the function takes it."""
        if self.context is None:
            return partial(self.fn, *self.args, **self.kwargs)
        at, name = self.context
        if len(self.args) >= at and not self.by_name:
            return partial(self.fn, *self.args[:at], ctx, *self.args[at:], **self.kwargs)
        return partial(self.fn, *self.args, **{**self.kwargs, name: ctx})


class Flow:
    """The operations of a flow. What they gave is kept, and a run that begins again is given the same.

    The parameter that is annotated `Flow` gets it; `Flow.current()` gives it to libraries.
    """

    def __init__(self, run: FlowRun, kind: FlowKind[..., Any], ctx: Context, policy: Policy) -> None:
        self._run = run
        self._kind = kind
        self._ctx = ctx
        self._policy = policy

    @staticmethod
    def current() -> Flow:
        """The flow of the running task; raises `FlowMisused` outside of a flow's function."""
        flow = current_flow.get()
        if flow is None:
            raise FlowMisused("Flow.current() is for code that a flow's function calls, and no flow runs here")
        return flow

    @property
    def job_id(self) -> str:
        return self._ctx.job_id

    @property
    def tenant(self) -> str:
        return self._ctx.tenant

    @property
    def meta(self) -> dict[str, Any]:
        return self._ctx.meta

    @property
    def version(self) -> int:
        """The version that this run began with."""
        return self._run.version

    @property
    def is_replaying(self) -> bool:
        """Whether what runs now ran before. For logs and the like: what a function does must not depend on it."""
        return self._run.is_replaying

    # operations

    @overload
    async def step(
        self, f: Callable[Concatenate[Context, P], Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def step(self, f: Callable[Concatenate[Context, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def step(self, f: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def step(self, f: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def step(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run the function once, and keep its result; raises `StepFailed` once it has no tries left."""
        function = step_function(f)
        policy = self._policy.under(function.own, "@app.step") if function.own else self._policy
        name = self._policy.name or policy.name or function.name
        if name is None:
            raise FlowMisused("a lambda has no name to keep its result under: flow.using(name='…').step(…)")
        call = StepCall(f, args, kwargs, policy, function.is_async, function.context, function.by_name)
        operation = Operation(
            "step", name, target=function.target, args=[args, kwargs], decode=function.decode, what=call
        )
        return await self._wait(operation)

    def using(self, *, keep: bool = False, **options: Any) -> Flow:
        """The same flow, whose steps run under other options: name, max_attempts, backoff, retry_on, discard_on,
        retry_if, timeout, delivery. With keep=True the jobs that it calls live on, though nobody waits for them any
        more."""
        policy = self._policy.using(options)
        if keep:
            policy = msgspec.structs.replace(policy, keep=True)
        return Flow(self._run, self._kind, self._ctx, policy)

    def _undo(self, name: str) -> Flow:
        policy = self._policy.under({"max_attempts": UNDO_TRIES}, "a saga")
        return Flow(self._run, self._kind, self._ctx, msgspec.structs.replace(policy, name=name))

    async def sleep(self, delay: Duration) -> None:
        """Go on after this time; a long sleep takes no memory and no worker."""
        await self._wait(Operation("sleep", "sleep", what=Timed(delay_s=to_ms(delay, "delay") / 1_000)))

    async def sleep_until(self, moment: datetime) -> None:
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise FlowMisused(f"sleep_until got {moment!r}: give a datetime with a zone")
        await self._wait(Operation("sleep", "sleep", what=Timed(at_s=moment.timestamp())))

    async def receive(self, names: str | Collection[str], *, timeout: Duration | None = None) -> Any:
        """The payload of the next signal of this name; None once the time is up. Of several names: (name, payload)."""
        if isinstance(names, str):
            given: tuple[str, ...] = (checks.name(names, "signal"),)
        else:
            given = tuple(dict.fromkeys(checks.name(name, "signal") for name in names))
        if not given:
            raise FlowMisused("receive got no name: name the signal to wait for")
        timed = None if timeout is None else Timed(delay_s=to_ms(timeout, "timeout") / 1_000)
        wanted = Wanted(given, timed, not isinstance(names, str))
        return await self._wait(Operation("receive", f"receive:{','.join(given)}", what=wanted))

    @overload
    async def call(self, kind: Kind[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def call(self, kind: Kind[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def call(self, kind: Kind[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a job and wait for its result; raises `ChildFailed`. If the function does not wait any more, because
        it was canceled or has ended, the job is canceled, unless `flow.using(keep=True)` calls it."""
        return await self._call(kind, kind.build(*args, **kwargs))

    async def calls(
        self,
        jobs: Sequence[NewJob],
        *,
        on_failure: OnFailure = "continue",
        until: Literal["first"] | int | None = None,
    ) -> list[Child]:
        """Enqueue these jobs (`kind.build(…)`) and wait until all are over, or with until=2, two have succeeded: the
        others are then canceled. With on_failure="stop" the first that fails cancels the others and raises."""
        needed = 1 if until == "first" else until
        tasks = [asyncio.ensure_future(self._child(job)) for job in jobs]
        found: dict[int, Child] = {}
        succeeded = 0
        waiting = list(enumerate(tasks))
        try:
            while waiting:
                await asyncio.wait([task for _, task in waiting], return_when=asyncio.FIRST_COMPLETED)
                for place, task in [each for each in waiting if each[1].done()]:
                    waiting.remove((place, task))
                    found[place] = child = task.result()
                    succeeded += child.succeeded
                    if not child.succeeded and on_failure == "stop":
                        raise ChildFailed(child.id, kind=child.kind, status=child.status, error=child.error)
                if needed is not None and (succeeded >= needed or succeeded + len(waiting) < needed):
                    break
        finally:
            for _, task in waiting:
                task.cancel()
        return [found[place] for place in sorted(found)]

    async def enqueue(self, kind: Kind[P, R], /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a job that lives on by itself, exactly once; gives its id."""
        return await self._enqueue(kind.build(*args, **kwargs))

    async def send(self, to: str, name: str, payload: Any = None) -> None:
        """Send a signal to a job, by its id, exactly once."""
        checks.name(name, "signal")
        await self._internal("send", str(to), name, encode(payload, limit=1 << 20, what="signal"))

    async def cancel(self, job_id: str) -> None:
        """Cancel another job."""
        await self._internal("cancel", str(job_id))

    # what costs no row

    def now(self) -> datetime:
        """When the last answer came: the same in every replay."""
        return datetime.fromtimestamp(self._run.loop.now, UTC)

    @property
    def random(self) -> random.Random:
        """Numbers that are the same in every replay."""
        return self._run.random

    def uuid(self) -> UUID:
        """An id that is the same in every replay."""
        return self._run.uuid()

    def set(self, **values: Any) -> None:
        """Show these values to whoever looks at the job, as its `state`."""
        for name, value in values.items():
            text = encode(value, limit=_VALUE_LIMIT, what=f"value of flow.set({name}=…)")
            self._run.values[name] = msgspec.Raw(text.encode())

    def restart(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Begin anew under the same id with an empty journal: for loops that never end. Signals that were not received
        and keys stay; the function is the newest version's."""
        raise Restarted(self._kind.payload_of(args, kwargs))

    def fail(self, reason: str) -> NoReturn:
        """End the flow `failed`, for this reason: it says itself that it is over."""
        raise FlowFailed(str(reason))

    def saga(self) -> Saga:
        """`async with flow.saga() as saga: … saga.undo(f, x)`: where the block is left by an error or a cancel, the
        undos run as steps, last first."""
        return Saga(self)

    def log(self, message: str) -> None:
        """Add a line to the job's log; code that is replayed adds nothing."""
        if not self._run.is_replaying:
            self._ctx.log(message)

    def progress(self, fraction: float, note: str | None = None) -> None:
        if not self._run.is_replaying:
            self._ctx.progress(fraction, note)

    # how

    async def _wait(self, operation: Operation) -> Any:
        future = self._run.ask(operation)
        try:
            return await future
        except asyncio.CancelledError:
            self._run.give_up(operation)
            raise

    async def _call(self, kind: Kind[..., Any], job: NewJob) -> Any:
        self._check(job)
        return await self._wait(_calling(job, Called(job, keep=self._policy.keep), result_decoder(kind.fn)))

    async def _child(self, job: NewJob) -> Child:
        self._check(job)
        found: Child = await self._wait(_calling(job, Called(job, keep=self._policy.keep, as_child=True), None))
        return found

    async def _enqueue(self, job: NewJob) -> str:
        self._check(job)
        args = [job.payload, job.unique_key]
        what = Called(job)
        operation = Operation("enqueue", f"enqueue:{job.kind}", target=job.kind, args=args, decode=_id_of, what=what)
        found: str = await self._wait(operation)
        return found

    def _check(self, job: NewJob) -> None:
        """Raises `InvalidJob` for what a flow cannot enqueue."""
        if not isinstance(job, NewJob):
            raise InvalidJob(f"{job!r} is not a job: give what kind.build(…) returns")
        refuse_large(job.payload, self._kind.payload_limit, f"a child, {job.kind},")
        claim = self._ctx.claim
        if job.tenant is not None and (job.tenant_id or job.tenant) not in (claim.tenant_id, self._ctx.tenant):
            raise InvalidJob(f"a flow enqueues for its own tenant, and this job is for {job.tenant}")

    async def _internal(self, verb: Literal["send", "cancel"], *args: Any) -> None:
        what = Internal(verb, args, self._policy)
        await self._wait(Operation("step", f"{verb}:{args[0]}", target=f"flow.{verb}", args=args, what=what))


current_flow: ContextVar[Flow | None] = ContextVar("headway_flow", default=None)


def _id_of(value: Any) -> str:
    return str(codec.decode(value)["id"])


def _calling(job: NewJob, called: Called, decode: Callable[[Any], Any] | None) -> Operation:
    args = [job.payload, job.unique_key]
    return Operation("call", f"call:{job.kind}", target=job.kind, args=args, decode=decode, what=called)


class Saga:
    """What a flow has to undo if it does not come to its end."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._undos: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def undo(self, f: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Run this as a step if the block is left by an error or a cancel."""
        self._undos.append((f, args, kwargs))

    async def __aenter__(self) -> Saga:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._flow._run.loop.dropping or isinstance(error, Dropped | Restarted | GeneratorExit):
            return
        while self._undos:
            f, args, kwargs = self._undos.pop()
            self._flow._run.undone = True
            await self._flow._undo(f"undo:{step_function(f).name or 'it'}").step(f, *args, **kwargs)
