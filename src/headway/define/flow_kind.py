"""Flows as kinds: a function that is enqueued, listed and operated like any other job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, Unpack
from uuid import UUID

import msgspec

from headway.define import checks
from headway.define.arguments import Arguments
from headway.define.context import Context
from headway.define.enqueuer import Binding
from headway.define.flow import Flow
from headway.define.flow_run import FlowRun
from headway.define.flow_step import Policy
from headway.define.kind import Kind, is_typed_again
from headway.define.option_types import FlowOptions, UsingOptions
from headway.define.options import Options
from headway.define.signals import signal_to_key
from headway.define.sync_flow import FlowThread, SyncFlow
from headway.errors import InvalidJob
from headway.model.codec import encode
from headway.model.duration import to_ms
from headway.model.job import Claim, NewJob, Settlement
from headway.model.journal import FLOW, Row
from headway.model.machine import Checkpoint, Turn, turned
from headway.model.retry import canceled, dead, released, succeeded
from headway.model.signal import NewSignal, Sent
from headway.secrets import Vault

P = ParamSpec("P")
R = TypeVar("R")

STEPS_AT_ONCE = 20
CANCEL_GRACE_MS = 300_000


class Edition(msgspec.Struct, frozen=True, kw_only=True):
    """One function of a flow, and the versions of runs that it may run: from `since` to `version`."""

    fn: Callable[..., Any]
    version: int
    since: int
    arguments: Any
    flow_param: str
    policy: Policy
    steps_at_once: int
    cancel_grace_ms: int
    is_sync: bool  # a plain function, in a thread

    def runs(self, version: int) -> bool:
        return self.since <= version <= self.version


class FlowKind(Kind[P, R]):
    """What `@app.flow` makes of a function."""

    is_machine = True

    def __init__(
        self, fn: Callable[..., Any], options: FlowOptions | None = None, *, binding: Binding | None = None
    ) -> None:
        given: dict[str, Any] = dict(options or {})
        version = given.pop("version", 1)
        since = given.pop("since", version)
        at_once = given.pop("steps_at_once", STEPS_AT_ONCE)
        grace_ms = to_ms(given.pop("cancel_grace", CANCEL_GRACE_MS / 1_000), "cancel_grace")
        _refuse(given, str(given.get("name") or getattr(fn, "__name__", "flow")))
        super().__init__(fn, given, binding=binding)  # type: ignore[arg-type]
        checks.integer(version, "version", 1, 32_767)
        checks.integer(since, "since", 1, 32_767)
        if since > version:
            raise InvalidJob(
                f"{self.name}: since={since} is after version={version}: it says which runs it may go on with"
            )
        step_options = self.options
        self.options = msgspec.structs.replace(self.options, timeout_ms=None)  # of its steps, not of the whole
        self._row = self._own_row = self.options.row(self.name)
        arguments: FlowArguments = self._arguments  # type: ignore[assignment]
        self.edition = Edition(
            fn=self.fn,
            version=version,
            since=since,
            arguments=arguments,
            flow_param=arguments.flow,
            policy=Policy(options=step_options),
            steps_at_once=checks.integer(at_once, "steps_at_once", 1, 10_000),
            cancel_grace_ms=grace_ms,
            is_sync=not self.is_async,
        )
        self.is_async = True  # for the worker: it is driven from the event loop
        self.editions: tuple[Edition, ...] = (self.edition,)

    def _read_parameters(self, fn: Callable[..., Any]) -> Arguments:
        return FlowArguments(fn, self.name) if self.is_async else SyncFlowArguments(fn, self.name)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise InvalidJob(f"{self.name} is a flow: enqueue it, or run it with headway.testing")

    def __repr__(self) -> str:
        return f"<FlowKind {self.name} version {self.edition.version}>"

    def using(self, **options: Unpack[UsingOptions]) -> FlowKind[P, R]:
        _refuse(options, self.name)
        copy = super().using(**options)
        assert isinstance(copy, FlowKind)
        return copy

    def signal(
        self,
        unique_key: str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        tenant: str | UUID | None = None,
        conn: Any = None,
    ) -> Sent:
        """Send a signal to the flow that has this unique key now; raises `NotFound` if there is none."""
        signal = self.build_signal(unique_key, name, payload, dedup_key=dedup_key, tenant=tenant)
        return self.enqueuer().signal_new(signal, conn)

    async def asignal(
        self,
        unique_key: str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        tenant: str | UUID | None = None,
        conn: Any = None,
    ) -> Sent:
        signal = self.build_signal(unique_key, name, payload, dedup_key=dedup_key, tenant=tenant)
        return await self.enqueuer().asignal_new(signal, conn)

    def build_signal(
        self,
        unique_key: str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        tenant: str | UUID | None = None,
    ) -> NewSignal:
        """What `signal` would send, for `app.signal_many`."""
        shared_by = self.options.unique_group or self.name
        limit = self._binding.payload_limit
        return signal_to_key(shared_by, unique_key, name, payload, dedup_key=dedup_key, tenant=tenant, limit=limit)

    @property
    def payload_limit(self) -> int:
        """How large the payload of a job may be that it enqueues."""
        return self._binding.payload_limit

    def joined(self, other: FlowKind[..., Any]) -> FlowKind[..., Any]:
        """Both as one kind: enqueued as the newer version, run by whichever may run a row's version. Of one version the
        other is the newer one: its module was loaded again."""
        newest = self if self.edition.version > other.edition.version else other
        joined: FlowKind[..., Any] = object.__new__(FlowKind)
        joined.__dict__.update(newest.__dict__)
        # the newest first: it runs the versions that several may run
        every = sorted((*other.editions, *self.editions), key=lambda each: -each.version)
        joined.editions = tuple(each for place, each in enumerate(every) if each not in every[:place])
        joined.aliases = tuple(dict.fromkeys(self.aliases + other.aliases))
        return joined

    def clash(self, other: FlowKind[..., Any]) -> Callable[..., Any] | None:
        """A function of this kind whose versions another function of the other one has, too."""
        for mine in self.editions:
            for theirs in other.editions:
                same = mine.fn is theirs.fn or _same_place(mine.fn, theirs.fn) or is_typed_again(mine.fn, theirs.fn)
                if not same and mine.since <= theirs.version and theirs.since <= mine.version:
                    return mine.fn
        return None

    def claimed(self, claim: Claim) -> ClaimedFlow | None:
        """How to run this claim; None for a version that no function here may run."""
        checkpoint = Checkpoint() if claim.checkpoint is None else _checkpoint.decode(claim.checkpoint)
        version = checkpoint.version or self.edition.version
        edition = next((each for each in self.editions if each.runs(version)), None)
        return None if edition is None else ClaimedFlow(self, edition, checkpoint, version, claim)

    def unknown(self, claim: Claim) -> str:
        """What of this claim is not known here, for a message."""
        checkpoint = Checkpoint() if claim.checkpoint is None else _checkpoint.decode(claim.checkpoint)
        known = ", ".join(
            str(e.version) if e.since == e.version else f"{e.since} to {e.version}" for e in self.editions
        )
        return f'version {checkpoint.version} of flow "{self.name}" (here: {known})'

    def unknown_version(self, version: int) -> str:
        """What to say of a run that no function here may go on with."""
        known = ", ".join(f"{each.since} to {each.version}" for each in self.editions)
        return f'version {version} of flow "{self.name}" is not run here (here: {known})'

    def function_of(
        self, edition: Edition, run: FlowRun, flow: Flow, payload: str, secret: Callable[[str], str] | None = None
    ) -> Callable[[], Any]:
        """A version's function, ready to be called; one that is plain gets a `SyncFlow`, and a thread."""
        args, kwargs = self.decode(payload, secret)
        given: Any = flow
        if edition.is_sync:
            run.thread = FlowThread(run, lambda: edition.fn(*args, **kwargs))
            given = SyncFlow(flow, run.thread)
        kwargs[edition.flow_param] = given
        return lambda: edition.fn(*args, **kwargs)

    def payload_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The payload of a call."""
        return self._arguments.pack(tuple(args), kwargs, self._payload_limit)

    def check_step(self, version: int | None, step: str | None) -> None:
        """A flow has no steps that could be named."""

    def check_state(self, version: int | None, state: str | None) -> None:
        """What a flow shows is not read by it."""

    def _finish(self, payload: str) -> NewJob:
        checkpoint = Checkpoint(version=self.edition.version, step=FLOW)
        return msgspec.structs.replace(super()._finish(payload), checkpoint=checkpoint)


class FlowArguments(Arguments):
    """The arguments of a flow's function: without the parameter that gets the `Flow`."""

    __slots__ = ("flow",)
    given: ClassVar[type] = Flow

    def __init__(self, fn: Callable[..., Any], kind: str) -> None:
        super().__init__(fn, kind)
        if self.context is None:
            raise InvalidJob(
                f"{kind}: a flow's function takes its flow: async def {kind}(flow: Flow, …), or without async: "
                f"def {kind}(flow: SyncFlow, …)"
            )
        self.flow = self.context


class SyncFlowArguments(FlowArguments):
    """The same for a plain function."""

    given = SyncFlow


class Desk(Protocol):
    """What runs flows: a worker's."""

    async def run(self, claimed: ClaimedFlow, ctx: FlowContext) -> Any: ...


class FlowContext(Context):
    """The context of one execution of a flow; the worker hands it what a run needs."""

    __slots__ = ("desk", "on_stop")

    desk: Desk | None
    on_stop: Callable[[], None] | None

    def stop(self) -> None:
        super().stop()
        if self.on_stop is not None:
            self.on_stop()

    @property
    def is_stopping(self) -> bool:
        """For the worker: whether it has begun to stop. Unlike `stopping`, no promise to give way."""
        return self._stopping


# how a run ended


class Parked(msgspec.Struct, frozen=True, kw_only=True):
    """It waits for signals, children or a time, and needs no worker meanwhile."""

    awaiting: tuple[str, ...]
    deadline_ms: int | None
    consumed: tuple[str, ...]
    note: str
    state: str | None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Its function has ended: with a result, or with an error and what that means."""

    status: str  # succeeded, failed, dead or canceled
    result: Any = None
    error: str | None = None
    state: str | None = None


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """It begins anew, or goes on soon."""

    version: int
    delay_ms: int = 0
    state: str | None = None


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """The code does not fit what was recorded: it is set aside for a while."""

    reason: str


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """Its worker stops, or has lost it."""

    reason: str


class ClaimedFlow:
    """A claim of a flow, with the function that runs it: has the interface of a `Kind` that the worker uses."""

    is_async = True
    joins = False
    recovers = False

    def __init__(
        self, kind: FlowKind[..., Any], edition: Edition, checkpoint: Checkpoint, version: int, claim: Claim
    ) -> None:
        self.kind = kind
        self.edition = edition
        self.checkpoint = checkpoint
        self.version = version
        self.claim = claim

    @property
    def options(self) -> Options:
        return self.kind.options

    def was_parked(self, rows: Sequence[Row]) -> bool:
        """Whether the execution before this one parked, and nothing of its journal was taken back since."""
        is_first = self.checkpoint.woken is not None and self.claim.attempt == 1
        return is_first and not (rows and rows[-1].kind in ("cut", "forgotten"))

    def context(
        self, claim: Claim, *, tenant: str | None, worker_id: str | None, vault: Vault | None = None
    ) -> FlowContext:
        ctx = FlowContext(claim, tenant=tenant, worker_id=worker_id, vault=vault)
        ctx.desk = ctx.on_stop = None
        return ctx

    def invocation(self, ctx: Context) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        assert isinstance(ctx, FlowContext)
        assert ctx.desk is not None, "a worker runs flows"
        self.kind.decode(ctx.claim.payload, ctx.secret)  # an error in it is the job's, before anything runs
        return ctx.desk.run, (self, ctx), {}

    def function_of(self, run: FlowRun, flow: Flow, payload: str, secret: Callable[[str], str]) -> Callable[[], Any]:
        """Its function, ready to be called; one that is plain gets a `SyncFlow`, and a thread."""
        return self.kind.function_of(self.edition, run, flow, payload, secret)

    def settlement_of(
        self, _ctx: Context, value: Any, *, result_limit: int, may_spill: bool = False, **_: Any
    ) -> Settlement:
        claim = self.claim
        match value:
            case Parked():
                turn = self._turn(
                    "park",
                    state=value.state,
                    note=value.note,
                    awaiting=value.awaiting,
                    deadline_ms=value.deadline_ms,
                    consumed=value.consumed,
                )
                return turned(claim, turn, "waiting")
            case Again():
                turn = self._turn("next", state=value.state, version=value.version)
                to = "scheduled" if value.delay_ms else "queued"
                return turned(claim, turn, to, delay_ms=value.delay_ms)  # type: ignore[arg-type]
            case Aside():
                delay_ms = min(30_000 << min(claim.attempt - 1, 10), 600_000)
                return Settlement(
                    id=claim.id,
                    fence=claim.fence,
                    status="released",
                    to="scheduled",
                    delay_ms=delay_ms,
                    error=value.reason,
                )
            case Released():
                return released(claim, value.reason)
            case Ended(status="succeeded"):
                advice = ", or let it spill: @app.flow(spill=True)" if may_spill else ""
                result = None
                if value.result is not None:
                    result = encode(value.result, limit=result_limit, what="result", advice=advice)
                return msgspec.structs.replace(succeeded(claim, result), turn=self._last("done", value.state))
            case Ended(status="failed"):
                return turned(claim, self._last("stop", value.state), "failed", status="failed", error=value.error)
            case Ended(status="canceled"):
                return canceled(claim, value.error)
            case Ended():
                return dead(claim, value.error or "")
        raise AssertionError(value)

    def _turn(self, outcome: Any, *, state: str | None, version: int | None = None, **more: Any) -> Turn:
        return Turn(outcome=outcome, ran=FLOW, step=FLOW, version=version or self.version, state=state, **more)

    def _last(self, outcome: Any, state: str | None) -> Turn:
        return self._turn(outcome, state=state, progress=False)


def _refuse(given: Mapping[str, Any], name: str) -> None:
    if given.get("delivery") == "at_most_once":
        raise InvalidJob(
            f"{name}: a flow goes on after a crash, so it cannot run at most once: give that to a step, "
            "flow.using(delivery='at_most_once').step(…)"
        )
    if "batch" in given or "batch_wait" in given:
        raise InvalidJob(f"{name}: a flow takes no batch: give it to a job, @app.job(batch=…), and call that")


def _same_place(one: Any, other: Any) -> bool:
    code, other_code = getattr(one, "__code__", None), getattr(other, "__code__", None)
    return (
        code is not None
        and other_code is not None
        and (code.co_filename, code.co_firstlineno) == (other_code.co_filename, other_code.co_firstlineno)
    )


_checkpoint = msgspec.json.Decoder(Checkpoint)
