"""One execution of a machine's step: what it sees, and what its outcome comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from headway.clock import from_micros
from headway.define import checks
from headway.define.context import Context
from headway.define.options import Options
from headway.define.state import brief, plain
from headway.define.steps import Step
from headway.errors import InvalidJob, InvalidOutcome
from headway.model.codec import encode
from headway.model.duration import show_ms, to_ms
from headway.model.job import Claim, NewJob, Settlement
from headway.model.machine import Child, Place, Turn, turned
from headway.model.outcome import KEEP, Await, Done, Next, Outcomes, Replay, Sleep, Spawn, Stop
from headway.model.signal import Received, Signal, satisfied
from headway.model.status import AttemptStatus, Status

if TYPE_CHECKING:
    from headway.define.machine import Edition, Machine

_OUTCOMES: tuple[type, ...] = get_args(Outcomes)
_NAMES = ", ".join(each.__name__ for each in _OUTCOMES)
_NO_LIMIT = 1 << 62
_received = msgspec.json.Decoder(tuple[Received, ...])


class Visit:
    """A claim of a machine, with the edition of its code and the step that shall run."""

    def __init__(self, edition: Edition, step: Step, place: Place, claim: Claim, *, migrates: bool) -> None:
        self.edition = edition
        self.step = step
        self.place = place
        self._row = claim
        self.claim = step.policy(claim)
        self.migrates = migrates
        self._ready = False  # it has a state that its handle could see
        self._machine: Machine

    @property
    def options(self) -> Options:
        return self.step.options

    @property
    def is_async(self) -> bool:
        return self.step.is_async

    @property
    def joins(self) -> bool:
        """Whether the step comes after a Spawn, and so has children to see."""
        return self.place.joining is not None

    def following(self, settlement: Settlement, signals: str | None) -> Visit | None:
        """The visit of the next step, once this one's settlement is committed; None for a step that is not known."""
        turn = settlement.turn
        assert turn is not None
        place = self.place
        claim = msgspec.structs.replace(self._row, fence=settlement.fence + 1, tries=0, losses=0)
        following = msgspec.structs.replace(
            place,
            version=turn.version,
            step=turn.step,
            state=place.state if turn.state is None else msgspec.Raw(turn.state.encode()),
            awaiting=(),
            woken=None,
            joining=None,
            signals=() if signals is None else _received.decode(signals),
        )
        step = self.edition.steps.get(turn.step)
        return None if step is None else Visit(self.edition, step, following, claim, migrates=False)

    def context(self, _claim: Claim, *, tenant: str | None, worker_id: str | None) -> StepContext:
        return StepContext(self, tenant=tenant, worker_id=worker_id)

    def invocation(self, ctx: Context) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """What to call; raises `InvalidPayload` where the state cannot be read."""
        assert isinstance(ctx, StepContext)
        # not made before: what its `__init__` raises is the step's failure
        machine = self._machine = self.edition.machine()
        if self.migrates:
            self._migrate(machine, ctx)
        ctx.read_state()
        self._ready = True
        return self.step.fn, (machine, ctx), {}

    @property
    def recovers(self) -> bool:
        """Whether the machine has a `handle` that may be asked."""
        return self._ready and getattr(self.edition.machine, "handle", None) is not None

    def recovery(self, ctx: Context, error: BaseException) -> tuple[Callable[..., Any], Sequence[Any]]:
        """What to call after the step raised: `handle`, which sees the state as it was committed."""
        assert isinstance(ctx, StepContext)
        ctx.read_state()
        return self._machine.handle, (error, ctx)  # type: ignore[attr-defined]

    def conclude(
        self,
        ctx: Context,
        outcome: Any,
        *,
        result_limit: int,
        state_limit: int,
        continues: bool,
        failure: str | None = None,
    ) -> Settlement:
        """What the outcome of the step, or of `handle` after a failure, comes to.

        Raises `InvalidOutcome` for what is no outcome or cannot be carried out, `InvalidPayload` for a result that
        cannot be stored.
        """
        assert isinstance(ctx, StepContext)
        self._check(outcome)
        return _Conclusion(self, ctx, result_limit, state_limit, continues, failure).of(outcome)

    def _check(self, outcome: Any) -> None:
        if isinstance(outcome, _OUTCOMES):
            return
        what = "nothing" if outcome is None else f"{brief(outcome)}"
        if isinstance(outcome, type) and issubclass(outcome, _OUTCOMES):
            what = f"the class {outcome.__name__}, not one of it ({outcome.__name__}(…))"
        raise InvalidOutcome(f"{self.where} returned {what}: a step returns one of {_NAMES}")

    @property
    def where(self) -> str:
        return f"{self.claim.kind}.{self.step.name}"

    def _migrate(self, machine: Machine, ctx: StepContext) -> None:
        version = self.place.version
        before = plain(self.place.state if self.place.state else self.claim.payload)
        moved = machine.migrate_from(version, before)  # type: ignore[attr-defined]
        if isinstance(moved, Next):
            self.step = self.edition.step(moved.step, f"{self.claim.kind}.migrate_from({version})")
            moved = before if moved.state is KEEP else moved.state
        if self.step.name not in self.edition.steps:
            raise InvalidOutcome(
                f"{self.claim.kind} version {self.edition.version} has no step {self.step.name}, where this machine of "
                f"version {version} is: let migrate_from return Next(step, state)"
            )
        ctx.text = self.edition.shape.conform(moved, _NO_LIMIT)  # its outcome is held to the limit


class StepContext(Context):
    """What a step sees: the context of its job, with the machine's state, signals and children."""

    __slots__ = ("_children", "_inbox", "_state", "_visit", "text")

    def __init__(self, visit: Visit, *, tenant: str | None, worker_id: str | None) -> None:
        super().__init__(visit.claim, tenant=tenant, worker_id=worker_id)
        self._visit = visit
        self._children: tuple[Child, ...] = ()
        self._inbox: tuple[Signal, ...] | None = None
        self._state: Any = None
        # the committed state as JSON; the payload where none is
        self.text: str = bytes(visit.place.state).decode() if visit.place.state else visit.claim.payload

    @property
    def state(self) -> Any:
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state

    def read_state(self) -> None:
        """For the worker: the state as it was committed."""
        self._state = self._visit.edition.shape.read(self.text)

    @property
    def inbox(self) -> tuple[Signal, ...]:
        if self._inbox is None:
            self._inbox = tuple(_signal(each, self._claim.id) for each in self._visit.place.signals)
        return self._inbox

    @property
    def signals(self) -> tuple[Signal, ...]:
        names = self._visit.place.awaiting
        return tuple(signal for signal in self.inbox if signal.name in names) if names else ()

    @property
    def timed_out(self) -> bool:
        place = self._visit.place
        if place.woken != "timeout":
            return False
        # what came after the deadline, but before this step began, came in time for it
        return not satisfied(place.awaiting, place.match, (signal.name for signal in self.inbox))

    @property
    def children(self) -> tuple[Child, ...]:
        return self._children

    def bring_children(self, children: Sequence[Child]) -> None:
        """For the worker."""
        self._children = tuple(children)

    @property
    def step(self) -> str:
        return self._visit.step.name

    @property
    def version(self) -> int:
        """The version of the machine's code that runs."""
        return self._visit.edition.version


class _Conclusion:
    """Turns one outcome into a settlement."""

    def __init__(
        self, visit: Visit, ctx: StepContext, result_limit: int, state_limit: int, continues: bool, failure: str | None
    ) -> None:
        self._visit = visit
        self._ctx = ctx
        self._claim = visit.claim
        self._result_limit = result_limit
        self._state_limit = state_limit
        self._continues = continues
        self._failure = failure

    def of(self, outcome: Any) -> Settlement:
        try:
            match outcome:
                case Next():
                    return self._next(outcome)
                case Replay():
                    return self._replay(outcome)
                case Await():
                    return self._await(outcome)
                case Spawn():
                    return self._spawn(outcome)
                case Sleep():
                    return self._sleep(outcome)
                case Done():
                    return self._done(outcome)
                case _:
                    return self._stop(outcome)
        except (InvalidJob, TypeError) as error:
            raise InvalidOutcome(f"{self._visit.where} returned {brief(outcome)}: {error}") from error

    def _next(self, outcome: Next) -> Settlement:
        return self._go_on(self._turn("next", outcome.step, outcome.state))

    def _go_on(self, turn: Turn) -> Settlement:
        inline = self._continues and turn.queue is None
        return self._settled(turn, "running" if inline else "queued")

    def _replay(self, outcome: Replay) -> Settlement:
        delay_ms = to_ms(outcome.delay, "delay")
        turn = self._turn("replay", None, outcome.state, note=f"in {show_ms(delay_ms)}", progress=False)
        status: AttemptStatus = "snoozed" if self._failure is None else "failed"
        charge = 0 if self._failure is None else 1
        # an at_most_once job was executed and may not be again: a new one replays the step
        to: Status = "failed" if self._claim.delivery == "at_most_once" else "scheduled"
        return turned(self._claim, turn, to, status=status, charge=charge, delay_ms=delay_ms, error=self._failure)

    def _await(self, outcome: Await) -> Settlement:
        given = (outcome.names,) if isinstance(outcome.names, str) else tuple(outcome.names)
        names = tuple(dict.fromkeys(checks.name(name, "signal") for name in given))
        if not names:
            raise InvalidJob("it awaits no signal at all: name at least one")
        if outcome.match not in ("any", "all"):
            raise InvalidJob(f"match={outcome.match!r} is neither 'any' nor 'all'")
        deadline_ms = None if outcome.timeout is None else to_ms(outcome.timeout, "timeout")
        note = (" and " if outcome.match == "all" else " or ").join(names)
        if deadline_ms is not None:
            note += f", at most {show_ms(deadline_ms)}"
        turn = self._turn(
            "await",
            outcome.then,
            outcome.state,
            note=note,
            awaiting=names,
            match=outcome.match,
            deadline_ms=deadline_ms,
        )
        return self._settled(turn, "waiting")

    def _spawn(self, outcome: Spawn) -> Settlement:
        if outcome.on_failure not in ("continue", "stop"):
            raise InvalidJob(f"on_failure={outcome.on_failure!r} is neither 'continue' nor 'stop'")
        children = tuple(map(self._child, outcome.children))
        if len({child.id for child in children}) < len(children):
            raise InvalidJob("one job is among the children twice: build() one for each place")
        many = "1 child" if len(children) == 1 else f"{len(children):,} children"
        turn = self._turn(
            "spawn", outcome.then, outcome.state, note=many, children=children, on_failure=outcome.on_failure
        )
        return self._settled(turn, "waiting") if children else self._go_on(turn)

    def _child(self, job: Any) -> NewJob:
        if not isinstance(job, NewJob):
            raise InvalidJob(f"{brief(job)} is no child: give what kind.build(…) gives")
        claim = self._claim
        if job.tenant is not None and job.tenant_id != claim.tenant_id:
            raise InvalidJob(f"a machine spawns for its own tenant, and this child is for {job.tenant}")
        return msgspec.structs.replace(
            job,
            tenant=self._ctx.tenant,
            tenant_id=claim.tenant_id,
            correlation_id=job.correlation_id or claim.correlation_id,
            trace_id=job.trace_id or claim.trace_id,
            place=msgspec.structs.replace(job.place or Place(), parent_id=claim.id),
        )

    def _sleep(self, outcome: Sleep) -> Settlement:
        delay_ms = to_ms(outcome.delay, "delay")
        turn = self._turn("sleep", outcome.then, outcome.state, note=f"for {show_ms(delay_ms)}")
        return self._settled(turn, "scheduled", delay_ms=delay_ms)

    def _done(self, outcome: Done) -> Settlement:
        result = None
        if outcome.result is not None:
            result = encode(outcome.result, limit=self._result_limit, what="result")
        return self._settled(self._last("done"), "succeeded", result=result)

    def _stop(self, outcome: Stop) -> Settlement:
        reason = outcome.reason
        if reason is None:
            reason = "the machine stopped itself"
        text = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
        # with a failure before it, that tells more
        error = self._failure if self._failure is not None and isinstance(reason, BaseException) else text
        charge = 0 if self._failure is None else 1
        return turned(self._claim, self._last("stop"), "dead", status="failed", charge=charge, error=error)

    def _settled(self, turn: Turn, to: Status, *, delay_ms: int = 0, result: str | None = None) -> Settlement:
        # what `handle` decides, it decides after a failure
        status: AttemptStatus = "succeeded" if self._failure is None else "failed"
        return turned(self._claim, turn, to, status=status, delay_ms=delay_ms, result=result, error=self._failure)

    def _turn(self, name: Any, then: Any, state: Any, *, progress: bool = True, **more: Any) -> Turn:
        visit = self._visit
        step = visit.step if then is None else visit.edition.step(then, visit.where)
        text = visit.edition.shape.conform(self._ctx.state if state is KEEP else state, self._state_limit)
        return Turn(
            outcome=name,
            ran=visit.step.name,
            step=step.name,
            version=visit.edition.version,
            state=text,
            progress=progress,
            consumed=self._consumed() if progress else (),
            **self._room(step, text),
            **more,
        )

    def _last(self, name: Any) -> Turn:
        """The turn of an outcome that ends the machine: its state stays."""
        visit = self._visit
        # but for a migration, which the version goes with
        state = self._ctx.text if visit.migrates else None
        ran = visit.step.name
        return Turn(
            outcome=name, ran=ran, step=ran, version=visit.edition.version, state=state, consumed=self._consumed()
        )

    def _consumed(self) -> tuple[str, ...]:
        return tuple(signal.id for signal in self._ctx.signals)

    def _room(self, step: Step, state: str) -> dict[str, Any]:
        """The queue and partition that the next step runs in, where those are other ones than now."""
        place, claim = self._visit.place, self._claim
        away = place.home_queue is not None
        if not step.moves and not away:
            return {}
        home_queue = place.home_queue if place.home_queue is not None else claim.queue
        home_partition = place.home_partition if away else place.partition
        queue = step.options.queue if "queue" in step.own else home_queue
        partition = home_partition
        if "partition" in step.own:
            partition = step.partition_of(self._visit.edition.shape, state)
        if (queue, partition) == (claim.queue, place.partition):
            return {}
        if (queue, partition) == (home_queue, home_partition):
            return {"queue": queue, "partition": partition}
        return {
            "queue": queue,
            "partition": partition,
            "home_queue": home_queue,
            "home_partition": home_partition,
        }


def _signal(received: Received, job_id: str) -> Signal:
    return Signal(
        id=received.id,
        job_id=job_id,
        name=received.name,
        payload=received.payload,
        dedup_key=received.dedup_key,
        sent_at=from_micros(received.sent_at),
        status="pending",
        consumed_at=None,
        fence=None,
    )
