"""Outcomes of a machine's steps, as workers over HTTP say them, turned into settlements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from headway.api.wire.problems import Refused
from headway.api.wire.views import Json, JsonObject
from headway.api.workers.quoted import quoted_error
from headway.api.workers.requests import valid_id
from headway.define import checks
from headway.errors import InvalidOutcome
from headway.model.codec import encode
from headway.model.duration import show_ms, to_ms
from headway.model.job import Job, NewJob, OnFailure, Settlement
from headway.model.machine import START, Checkpoint, Turn
from headway.model.outcome import Match
from headway.model.status import AttemptStatus, Status

U = msgspec.UnsetType
_INT = 2**31 - 1
ExitCode = Annotated[int, msgspec.Meta(ge=-_INT - 1, le=_INT)]


class ChildIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A job to spawn; its options are those of its kind's definition."""

    kind: str
    payload: JsonObject | U = msgspec.UNSET
    queue: str | U = msgspec.UNSET
    priority: int | U = msgspec.UNSET
    delay: str | float | U = msgspec.UNSET
    max_attempts: int | U = msgspec.UNSET
    timeout: str | float | U = msgspec.UNSET


class OutcomeIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"await_": "await"}):
    """What a step decided: exactly one of next, replay, await, spawn, sleep, done and stop."""

    next: str | U = msgspec.UNSET
    replay: Literal[True] | U = msgspec.UNSET
    await_: str | list[str] | U = msgspec.UNSET
    spawn: list[ChildIn] | U = msgspec.UNSET
    sleep: str | float | U = msgspec.UNSET
    done: Json | U = msgspec.UNSET
    stop: str | U | None = msgspec.UNSET
    then: str | None = None  # of await, spawn and sleep; none: this step again
    state: Json | U = msgspec.UNSET  # not given: as it is
    delay: str | float = 0  # of replay
    timeout: str | float | None = None  # of await
    match: Match = "any"  # of await
    on_failure: OnFailure = "continue"  # of spawn
    until: Literal["first"] | int | None = None  # of spawn
    signals: list[str] = []  # ids of the signals that the step has read, which it consumes
    step: str | None = None  # the step that ran, where the claim named none
    version: Annotated[int, msgspec.Meta(ge=1, le=_INT)] = 1  # of the machine, where the claim named none


_NAMES = ("next", "replay", "await_", "spawn", "sleep", "done", "stop")
_EXTRAS = {
    "then": ("await", "spawn", "sleep"),
    "delay": ("replay",),
    "timeout": ("await",),
    "match": ("await",),
    "on_failure": ("spawn",),
    "until": ("spawn",),
}
_DEFAULTS = OutcomeIn()


class StepEnd:
    """The end of one execution of a step."""

    def __init__(
        self, job: Job, fence: int, outcome: OutcomeIn, *, continues: bool, result_limit: int, state_limit: int
    ) -> None:
        self._job = job
        self._fence = fence
        self._outcome = outcome
        self._continues = continues
        self._result_limit = result_limit
        self._state_limit = state_limit
        self._signals = tuple(map(valid_id, outcome.signals))
        self.step = checks.name(job.step or outcome.step or START, "step")

    def settlement(self, children: Sequence[NewJob]) -> Settlement:
        """Raises `InvalidOutcome`, `InvalidJob`, `InvalidPayload`."""
        outcome = self._outcome
        match outcome_name(outcome):
            case "next":
                return self._go_on(self._turn("next", str(outcome.next)))
            case "replay":
                delay_ms = to_ms(outcome.delay, "delay")
                turn = self._turn("replay", None, note=f"in {show_ms(delay_ms)}", progress=False)
                # an at_most_once job may not be executed twice: a new job replays the step
                to: Status = "failed" if self._job.delivery == "at_most_once" else "scheduled"
                return self._settled(turn, to, status="snoozed", delay_ms=delay_ms)
            case "await":
                return self._settled(self._await(), "waiting")
            case "spawn":
                turn = self._spawn(children)
                return self._settled(turn, "waiting") if children else self._go_on(turn)
            case "sleep":
                delay_ms = to_ms(outcome.sleep, "sleep")  # type: ignore[arg-type]
                turn = self._turn("sleep", outcome.then, note=f"for {show_ms(delay_ms)}")
                return self._settled(turn, "scheduled", delay_ms=delay_ms)
            case "done":
                return self._settled(
                    self._last("done"), "succeeded", result=result_text(outcome.done, self._result_limit)
                )
            case _:
                error = "the machine stopped itself" if outcome.stop is None else quoted_error(str(outcome.stop))
                return self._settled(self._last("stop"), "failed", status="failed", error=error)

    def _go_on(self, turn: Turn) -> Settlement:
        return self._settled(turn, "running" if self._continues and turn.queue is None else "queued")

    def _await(self) -> Turn:
        outcome = self._outcome
        given = outcome.await_ if isinstance(outcome.await_, list) else [str(outcome.await_)]
        names = tuple(dict.fromkeys(checks.name(name, "signal") for name in given))
        if not names:
            raise InvalidOutcome("it awaits no signal: name at least one")
        deadline_ms = None if outcome.timeout is None else to_ms(outcome.timeout, "timeout")
        if deadline_ms == 0 and outcome.then is None:
            raise InvalidOutcome("a timeout of 0 without then would run this step again at once, forever: name a step")
        note = (" and " if outcome.match == "all" else " or ").join(names)
        if deadline_ms is not None:
            note += f", at most {show_ms(deadline_ms)}"
        return self._turn(
            "await", outcome.then, note=note, awaiting=names, match=outcome.match, deadline_ms=deadline_ms
        )

    def _spawn(self, children: Sequence[NewJob]) -> Turn:
        outcome, job = self._outcome, self._job
        needed = 1 if outcome.until == "first" else outcome.until
        if needed is not None and not 1 <= needed <= max(len(children), 1):
            raise InvalidOutcome(f"until={outcome.until!r} must be from 1 to the number of children, or 'first'")
        if needed is not None and outcome.on_failure == "stop":
            raise InvalidOutcome("until counts successes, and on_failure 'stop' gives up at the first failure")
        many = "1 child" if len(children) == 1 else f"{len(children):,} children"
        return self._turn(
            "spawn",
            outcome.then,
            note=many if needed is None else f"{many}, until {needed:,} succeeded",
            children=tuple(
                msgspec.structs.replace(
                    child,
                    tenant=job.tenant,
                    tenant_id=job.tenant_id,
                    correlation_id=child.correlation_id or job.correlation_id,
                    trace_id=child.trace_id or job.trace_id or job.trace,
                    checkpoint=msgspec.structs.replace(child.checkpoint or Checkpoint(), parent_id=job.id),
                )
                for child in children
            ),
            on_failure=outcome.on_failure,
            needed=needed,
        )

    def _turn(self, name: Any, then: str | None, *, progress: bool = True, **more: Any) -> Turn:
        outcome, job = self._outcome, self._job
        state = None
        if outcome.state is not msgspec.UNSET:
            state = encode(outcome.state, limit=self._state_limit, what="state")
        if job.home_queue is not None:  # the step ran in a queue of its own: go back to the machine's
            more |= {"queue": job.home_queue, "partition": job.home_partition}
        return Turn(
            outcome=name,
            ran=self.step,
            step=self.step if then is None else checks.name(then, "step"),
            version=job.version or outcome.version,
            state=state,
            progress=progress,
            consumed=self._signals if progress else (),
            **more,
        )

    def _last(self, name: Any) -> Turn:
        """The turn of an outcome that ends the machine: what woke the step stays for a retry."""
        version = self._job.version or self._outcome.version
        return Turn(
            outcome=name, ran=self.step, step=self.step, version=version, progress=False, consumed=self._signals
        )

    def _settled(self, turn: Turn, to: Status, *, status: AttemptStatus = "succeeded", **more: Any) -> Settlement:
        return Settlement(id=self._job.id, fence=self._fence, status=status, to=to, turn=turn, **more)


def result_text(result: msgspec.Raw | U, limit: int) -> str | None:
    """The result as it is stored; raises `InvalidPayload`."""
    if isinstance(result, U) or result == b"null":
        return None
    return encode(result, limit=limit, what="result")


def outcome_name(outcome: OutcomeIn) -> str:
    """Which one it is; raises `Refused` for none or several, or what does not belong to it."""
    found = [name.rstrip("_") for name in _NAMES if getattr(outcome, name) is not msgspec.UNSET]
    if len(found) != 1:
        raise Refused(422, f"an outcome has one of next, replay, await, spawn, sleep, done and stop, not {found}")
    for name, of in _EXTRAS.items():
        if getattr(outcome, name) != getattr(_DEFAULTS, name) and found[0] not in of:
            raise Refused(422, f"{name} belongs to {' and '.join(of)}, not to {found[0]}")
    return found[0]
