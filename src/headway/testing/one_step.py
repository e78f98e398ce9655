"""perform_step: runs one step in isolation, without database or worker; the test gives state, signals and children."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.clock import to_micros
from headway.config import Settings
from headway.define import ClaimedStep, Machine, MachineKind, StepContext
from headway.errors import ConfigError, InvalidJob
from headway.model.codec import encode
from headway.model.ids import new_id
from headway.model.machine import START, Checkpoint, Child
from headway.model.outcome import KEEP, Outcomes, Spawn
from headway.model.signal import Received, Signal
from headway.testing.kept_artifacts import KeptInMemory
from headway.testing.performed import OPEN, claim_of
from headway.testing.settled import NOTHING, TakenAsCommitted, settled

AnyMachine = type[Machine] | MachineKind
GivenSignal = str | tuple[str, Any] | Signal

_LIMITS = Settings()
_SENT = datetime(2031, 5, 6, tzinfo=UTC)


def perform_step(
    machine: AnyMachine,
    step: str = START,
    *,
    state: Any = None,
    signals: Iterable[GivenSignal] = (),
    inbox: Iterable[GivenSignal] = (),
    children: Iterable[Any] = (),
    timed_out: bool = False,
    ctx: StepContext | None = None,
    **claim: Any,
) -> Outcomes:
    """Call one step of a machine with the context that `step_context` makes from the rest; gives its outcome.

    An outcome that the step settles with `ctx.settle` counts as committed; nothing is written to its `conn`. The
    outcome is checked as a worker checks it, and can be compared: steps are names in it, and it has the state even
    if the step only changed `ctx.state`. Raises what the step raises (`handle` is not called), `InvalidOutcome` for
    what is not an outcome, `InvalidPayload` for a result that could not be stored.

    >>> from headway import Done, Machine, Next, Registry, step
    >>> shop = Registry()
    >>> @shop.machine
    ... class Checkout(Machine):
    ...     @step
    ...     def start(self, ctx):
    ...         ctx.state["paid"] = [signal.payload for signal in ctx.signals]
    ...         return Next(self.ship)
    ...     @step
    ...     async def ship(self, ctx):
    ...         return Done(ctx.state["order"])
    >>> perform_step(Checkout, state={"order": 42}, signals=[("payment", 100)])
    Next(step='ship', state={'order': 42, 'paid': [100]})
    >>> perform_step(Checkout, "ship", state={"order": 42})
    Done(result=42)
    """
    ctx = ctx or step_context(
        machine,
        step,
        state=state,
        signals=signals,
        inbox=inbox,
        children=children,
        timed_out=timed_out,
        **claim,
    )
    claimed = ctx._claimed
    if not claimed.is_async:
        fn, args, _ = claimed.invocation(ctx)
        return _checked(claimed, ctx, fn(*args))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            return runner.run(aperform_step(machine, ctx=ctx))
    raise ConfigError(f"{claimed.where} is async and this thread runs an event loop: use `await aperform_step(…)`")


async def aperform_step(
    machine: AnyMachine,
    step: str = START,
    *,
    ctx: StepContext | None = None,
    **given: Any,
) -> Outcomes:
    """The same inside a running event loop; a plain step runs in a thread, as under a worker."""
    ctx = ctx or step_context(machine, step, **given)
    claimed = ctx._claimed
    fn, args, _ = claimed.invocation(ctx)
    value = await (fn(*args) if claimed.is_async else asyncio.to_thread(fn, *args))
    return _checked(claimed, ctx, value)


def step_context(
    machine: AnyMachine,
    step: str = START,
    *,
    state: Any = None,
    signals: Iterable[GivenSignal] = (),
    inbox: Iterable[GivenSignal] = (),
    children: Iterable[Any] = (),
    timed_out: bool = False,
    **claim: Any,
) -> StepContext:
    """The context of a step, as if a machine had got this far; for `perform_step`, or to call a `handle` with.

    `state` is one of its State, or a mapping of its fields. `signals` are those of the await that woke the step, each
    a name, a pair of name and payload, or a `Signal`; `inbox` are others that arrived, too. `children` are results of
    jobs that succeeded, errors of jobs that are dead, or `Child` values. The rest is as in `context`: `tries`, `meta`
    and so on.

    >>> from headway import Done, Machine, Registry, Stop, step
    >>> shop = Registry()
    >>> @shop.machine
    ... class Checkout(Machine):
    ...     @step
    ...     def start(self, ctx):
    ...         return Done()
    ...     def handle(self, error, ctx):
    ...         return Stop(f"{error} after {ctx.tries + 1} tries")
    >>> Checkout().handle(OSError("no route"), step_context(Checkout, tries=2))
    Stop(reason='no route after 3 tries')
    """
    kind = machine if isinstance(machine, MachineKind) else machine.kind()
    edition = kind.edition
    if step not in edition.steps:
        raise InvalidJob(f"{kind.name} has no step {step!r}: it has {', '.join(edition.steps)}")
    matched = [_received(each) for each in signals]
    others = [_received(each) for each in inbox]
    checkpoint = Checkpoint(
        version=edition.version,
        step=step,
        state=msgspec.Raw(_state_text(kind, state).encode()),
        # a step that timed out awaited one more signal; its name does not matter
        awaiting=(*dict.fromkeys(each.name for each in matched), *(("one that did not come",) if timed_out else ())),
        match="all" if timed_out else "any",
        woken="timeout" if timed_out else "signal" if matched else None,
        signals=(*matched, *others),
    )
    claimed = ClaimedStep(
        edition, edition.steps[step], checkpoint, claim_of(kind.options.row(kind.name), **claim), migrates=False
    )
    ctx = StepContext(claimed, tenant=claim.get("tenant", "default"), worker_id="headway.testing", vault=OPEN)
    ctx.own_transactions = TakenAsCommitted()
    ctx.artifact_writer = KeptInMemory()
    ctx.bring_children([_child(each) for each in children])
    ctx.read_state()
    return ctx


def _state_text(kind: MachineKind, state: Any) -> str:
    if state is None or isinstance(state, Mapping):
        return kind.build_from({} if state is None else state).payload
    return kind.build(state).payload


def _received(signal: GivenSignal) -> Received:
    match signal:
        case Signal():
            return Received(signal.id, signal.name, signal.payload, to_micros(signal.sent_at), signal.dedup_key)
        case str():
            name, payload = signal, None
        case _:
            name, payload = signal
    stored = msgspec.json.decode(encode(payload, limit=_LIMITS.payload_limit, what="signal"))
    return Received(new_id(), name, stored, to_micros(_SENT), None)


def _child(given: Any) -> Child:
    if isinstance(given, Child):
        return given
    if isinstance(given, BaseException):
        error = f"{type(given).__name__}: {given}"
        return Child(id=new_id(), kind="child", status="dead", result=None, error=error)
    result = msgspec.json.decode(encode(given, limit=_LIMITS.spill_limit, what="result"))
    return Child(id=new_id(), kind="child", status="succeeded", result=result, error=None)


def _checked(claimed: ClaimedStep, ctx: StepContext, returned: Any) -> Outcomes:
    outcome = settled(ctx)
    if outcome is NOTHING:
        outcome = returned
    if isinstance(outcome, Spawn) and isinstance(outcome.children, Iterator):
        outcome = msgspec.structs.replace(
            outcome, children=tuple(outcome.children)
        )  # it may be an iterator, which can be read once
    limit = _LIMITS.spill_limit if claimed.options.spill else _LIMITS.result_limit
    settlement = claimed.settlement_of(
        ctx, outcome, result_limit=limit, state_limit=_LIMITS.payload_limit, continues=False
    )
    turn = settlement.turn
    assert turn is not None
    changes: dict[str, Any] = {}
    if getattr(outcome, "state", None) is KEEP:
        changes["state"] = ctx.state
    for name in ("step", "then"):
        if callable(getattr(outcome, name, None)):
            changes[name] = turn.step
    return msgspec.structs.replace(outcome, **changes)  # type: ignore[no-any-return]
