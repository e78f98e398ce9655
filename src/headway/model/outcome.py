"""What a handler may say: the outcomes that a machine's step returns, and what any handler may raise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, Literal

import msgspec

from headway.model.duration import Duration, to_ms
from headway.model.job import NewJob, OnFailure

StepRef = str | Callable[..., Any]
"""A step: its name, or the method itself (`self.ship`)."""
Match = Literal["any", "all"]

KEEP = msgspec.UNSET
"""A state that is not given: `ctx.state` as the step leaves it."""


class Next(msgspec.Struct, frozen=True):
    """Commit the state and go on with another step: `Next(self.ship, state)`."""

    step: StepRef
    state: Any = KEEP


class Replay(msgspec.Struct, frozen=True):
    """Commit the state and run this step again, after `delay`. Out of `handle` it charges a try."""

    state: Any = KEEP
    delay: Duration = 0


class Await(msgspec.Struct, frozen=True):
    """Park until signals of these names are there: one of them, or with match="all" one of each.

    Then `then` runs, or without it this step again. After `timeout` it runs anyway, with `ctx.timed_out`.
    """

    names: str | Collection[str]
    then: StepRef | None = None
    state: Any = KEEP
    timeout: Duration | None = None
    match: Match = "any"


class Spawn(msgspec.Struct, frozen=True):
    """Enqueue these jobs (`kind.build(…)`) and park until all of them are over; `then` finds them in `ctx.children`.

    With on_failure="stop" the first that does not succeed has the others canceled. With until="first", or until=3, it
    goes on when that many have succeeded, or when that cannot be any more; the others are canceled.
    """

    children: Sequence[NewJob]
    then: StepRef | None = None
    state: Any = KEEP
    on_failure: OnFailure = "continue"
    until: Literal["first"] | int | None = None


class Sleep(msgspec.Struct, frozen=True):
    """Run `then` (or this step again) after `delay`; asleep it costs nothing."""

    delay: Duration
    then: StepRef | None = None
    state: Any = KEEP


class Done(msgspec.Struct, frozen=True):
    """The machine has succeeded, with this result; its state stays as it was."""

    result: Any = None


class Stop(msgspec.Struct, frozen=True):
    """The machine has failed, for this reason: a text or the error itself. It ends `failed`, not `dead`."""

    reason: Any = None


Outcomes = Next | Replay | Await | Spawn | Sleep | Done | Stop
"""Everything that a step, or a machine's `handle`, may return."""
StepOutcome = Outcomes
"""Its public name: `def start(self, ctx: Context[State]) -> StepOutcome`."""


class Retry(Exception):
    """Fail this execution and try again, after `delay` or the usual backoff; charges a try.

    >>> Retry("5m", "rate limited").delay
    datetime.timedelta(seconds=300)
    """

    def __init__(self, delay: Duration | None = None, reason: str | None = None) -> None:
        super().__init__(delay, reason)
        self.delay = None if delay is None else _delay(delay)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "the handler asked for a retry"


class Snooze(Exception):
    """Put the job off by `delay`; charges nothing."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)
        self.delay = _delay(delay)

    def __str__(self) -> str:
        return f"snoozed for {self.delay}"


class Cancel(Exception):
    """End the job `canceled`, without another try."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "the handler canceled its job"


def _delay(value: Duration) -> timedelta:
    return timedelta(milliseconds=to_ms(value, "delay"))
