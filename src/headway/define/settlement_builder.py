"""Turns the outcome of a step into its settlement, with the turn that the machine takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from headway.define import checks
from headway.define.state import brief
from headway.define.step_context import StepContext
from headway.define.steps import Step
from headway.errors import InvalidJob, InvalidOutcome
from headway.model.codec import encode
from headway.model.duration import show_ms, to_ms
from headway.model.job import NewJob, Settlement
from headway.model.machine import Checkpoint, Turn, turned
from headway.model.outcome import KEEP, Await, Done, Next, Replay, Sleep, Spawn, Stop
from headway.model.spill import refuse_large
from headway.model.status import AttemptStatus, Status

if TYPE_CHECKING:
    from headway.define.claimed_step import ClaimedStep


class SettlementBuilder:
    """For one execution: after its step returned or, with `failure`, after `handle` did."""

    def __init__(
        self,
        claimed: ClaimedStep,
        ctx: StepContext,
        result_limit: int,
        state_limit: int,
        continues: bool,
        failure: str | None,
        *,
        may_spill: bool,
    ) -> None:
        self._claimed = claimed
        self._ctx = ctx
        self._claim = claimed.claim
        self._result_limit = result_limit
        self._state_limit = state_limit
        self._continues = continues
        self._failure = failure
        self._may_spill = may_spill

    def build(self, outcome: Any) -> Settlement:
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
            raise InvalidOutcome(f"{self._claimed.where} returned {brief(outcome)}: {error}") from error

    def _next(self, outcome: Next) -> Settlement:
        if outcome.step is None:
            raise InvalidJob("it names no step: to run this step again, return Replay() or name it")
        return self._go_on(self._turn("next", outcome.step, outcome.state))

    def _go_on(self, turn: Turn) -> Settlement:
        inline = self._continues and turn.queue is None
        return self._settled(turn, "running" if inline else "queued")

    def _replay(self, outcome: Replay) -> Settlement:
        delay_ms = to_ms(outcome.delay, "delay")
        turn = self._turn("replay", None, outcome.state, note=f"in {show_ms(delay_ms)}", progress=False)
        status: AttemptStatus = "snoozed" if self._failure is None else "failed"
        charge = 0 if self._failure is None else 1
        # an at_most_once job may not be executed twice: a new job replays the step
        to: Status = "failed" if self._claim.delivery == "at_most_once" else "scheduled"
        return turned(self._claim, turn, to, status=status, charge=charge, delay_ms=delay_ms, error=self._failure)

    def _await(self, outcome: Await) -> Settlement:
        if not isinstance(outcome.names, str | Collection):
            raise InvalidJob(f"{outcome.names!r} is not the name of a signal: give a text, or a list of them")
        given = (outcome.names,) if isinstance(outcome.names, str) else tuple(outcome.names)
        names = tuple(dict.fromkeys(checks.name(name, "signal") for name in given))
        if not names:
            raise InvalidJob("it awaits no signal: name at least one")
        if outcome.match not in ("any", "all"):
            raise InvalidJob(f"match={outcome.match!r} is neither 'any' nor 'all'")
        deadline_ms = None if outcome.timeout is None else to_ms(outcome.timeout, "timeout")
        if deadline_ms == 0 and outcome.then is None:
            raise InvalidJob("a timeout of 0 without then= would run this step again at once, forever: name a step")
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
        if isinstance(outcome.children, NewJob | str) or not isinstance(outcome.children, Iterable):
            raise InvalidJob("its children are not a list: give a list of what kind.build(…) returns, even for one")
        children = tuple(map(self._child, outcome.children))
        if len({child.id for child in children}) < len(children):
            raise InvalidJob("one job is among the children twice: build() a job for each")
        needed = _needed(outcome, len(children))
        many = "1 child" if len(children) == 1 else f"{len(children):,} children"
        turn = self._turn(
            "spawn",
            outcome.then,
            outcome.state,
            note=many if needed is None else f"{many}, until {needed:,} succeeded",
            children=children,
            on_failure=outcome.on_failure,
            needed=needed,
        )
        return self._settled(turn, "waiting") if children else self._go_on(turn)

    def _child(self, job: Any) -> NewJob:
        if not isinstance(job, NewJob):
            raise InvalidJob(f"{brief(job)} is not a child: give what kind.build(…) returns")
        claim = self._claim
        refuse_large(job.payload, self._state_limit, f"a child, {job.kind},")
        if job.tenant is not None and (job.tenant_id or job.tenant) not in (claim.tenant_id, self._ctx.tenant):
            raise InvalidJob(f"a machine spawns for its own tenant, and this child is for {job.tenant}")
        return msgspec.structs.replace(
            job,
            tenant=self._ctx.tenant,
            tenant_id=claim.tenant_id,
            correlation_id=job.correlation_id or claim.correlation_id,
            trace_id=job.trace_id or claim.trace_id or claim.trace,
            checkpoint=msgspec.structs.replace(job.checkpoint or Checkpoint(), parent_id=claim.id),
        )

    def _sleep(self, outcome: Sleep) -> Settlement:
        delay_ms = to_ms(outcome.delay, "delay")
        turn = self._turn("sleep", outcome.then, outcome.state, note=f"for {show_ms(delay_ms)}")
        return self._settled(turn, "scheduled", delay_ms=delay_ms)

    def _done(self, outcome: Done) -> Settlement:
        result = None
        if outcome.result is not None:
            advice = ", or let it spill: class …(Machine, spill=True)" if self._may_spill else ""
            result = encode(outcome.result, limit=self._result_limit, what="result", advice=advice)
        return self._settled(self._last("done"), "succeeded", result=result)

    def _stop(self, outcome: Stop) -> Settlement:
        reason = outcome.reason
        if reason is None:
            reason = "the machine stopped itself"
        text = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
        # the failure that `handle` got says more than its exception
        error = self._failure if self._failure is not None and isinstance(reason, BaseException) else text
        return turned(self._claim, self._last("stop"), "failed", status="failed", error=error)

    def _settled(self, turn: Turn, to: Status, *, delay_ms: int = 0, result: str | None = None) -> Settlement:
        # `handle` decides after a failure
        status: AttemptStatus = "succeeded" if self._failure is None else "failed"
        return turned(self._claim, turn, to, status=status, delay_ms=delay_ms, result=result, error=self._failure)

    def _turn(self, name: Any, then: Any, state: Any, *, progress: bool = True, **more: Any) -> Turn:
        claimed = self._claimed
        step = claimed.step if then is None else claimed.edition.step(then, claimed.where)
        ctx = self._ctx
        text = claimed.edition.shape.conform(ctx.state if state is KEEP else state, self._state_limit, before=ctx.text)
        return Turn(
            outcome=name,
            ran=claimed.step.name,
            step=step.name,
            version=claimed.edition.version,
            state=text,
            progress=progress,
            consumed=self._consumed() if progress else (),
            **self._queue_and_partition(step, text),
            **more,
        )

    def _last(self, name: Any) -> Turn:
        """The turn of an outcome that ends the machine: the state stays, and what woke the step stays for a retry."""
        claimed = self._claimed
        # a migrated state is written, since the new version is
        state = self._ctx.text if claimed.migrates else None
        ran = claimed.step.name
        return Turn(
            outcome=name,
            ran=ran,
            step=ran,
            version=claimed.edition.version,
            state=state,
            progress=False,
            consumed=self._consumed(),
        )

    def _consumed(self) -> tuple[str, ...]:
        return tuple(signal.id for signal in self._ctx.signals)

    def _queue_and_partition(self, step: Step, state: str) -> dict[str, Any]:
        """The queue and partition of the next step, if they differ from the current ones."""
        checkpoint, claim = self._claimed.checkpoint, self._claim
        away = checkpoint.home_queue is not None
        if not step.moves and not away:
            return {}
        home_queue = checkpoint.home_queue if checkpoint.home_queue is not None else claim.queue
        home_partition = checkpoint.home_partition if away else checkpoint.partition
        queue = step.options.queue if "queue" in step.own else home_queue
        partition = home_partition
        if "partition" in step.own:
            partition = step.partition_of(self._claimed.edition.shape, state)
        if (queue, partition) == (claim.queue, checkpoint.partition):
            return {}
        if (queue, partition) == (home_queue, home_partition):
            return {"queue": queue, "partition": partition}
        return {
            "queue": queue,
            "partition": partition,
            "home_queue": home_queue,
            "home_partition": home_partition,
        }


def _needed(outcome: Spawn, children: int) -> int | None:
    """How many children must succeed; raises `InvalidJob`."""
    until = outcome.until
    if until is None:
        return None
    if until != "first" and (not isinstance(until, int) or isinstance(until, bool) or until < 1):
        raise InvalidJob(f"until={until!r} is no number of children: give 'first', or how many must succeed")
    needed = 1 if until == "first" else until
    if children and needed > children:
        raise InvalidJob(f"until={until!r} is more than its {children:,} children: it could never be reached")
    if outcome.on_failure == "stop":
        raise InvalidJob(
            "until= counts successes, and on_failure='stop' gives up at the first failure: give one of them"
        )
    return needed
