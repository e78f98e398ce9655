"""What a handler may return or raise beside a plain result: the outcomes of a machine's step, and Retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from headway_client.convert import to_json

Duration = str | float | timedelta

_DURATIONS = ("delay", "timeout", "debounce", "debounce_max", "unique_for")
KEEP: Any = object()
"""A state that is not given: it stays as it is."""


def duration(value: Duration) -> str | float:
    return value.total_seconds() if isinstance(value, timedelta) else value


def options_as_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON: their durations are seconds, or texts such as "5m"."""
    return {name: to_json(duration(value) if name in _DURATIONS else value) for name, value in given.items()}


@dataclass(frozen=True)
class Next:
    """Commit the state and go on with another step."""

    step: str
    state: Any = KEEP

    def said(self) -> dict[str, Any]:
        return {"next": self.step} | _state(self.state)


@dataclass(frozen=True)
class Replay:
    """Commit the state and run this step again, after `delay`."""

    state: Any = KEEP
    delay: Duration = 0

    def said(self) -> dict[str, Any]:
        return {"replay": True, "delay": duration(self.delay)} | _state(self.state)


@dataclass(frozen=True)
class Await:
    """Park until signals of these names are there: one of them, or with match="all" one of each."""

    names: str | Sequence[str]
    then: str | None = None
    state: Any = KEEP
    timeout: Duration | None = None
    match: Literal["any", "all"] = "any"

    def said(self) -> dict[str, Any]:
        names = self.names if isinstance(self.names, str) else list(self.names)
        said: dict[str, Any] = {"await": names, "then": self.then, "match": self.match}
        if self.timeout is not None:
            said["timeout"] = duration(self.timeout)
        return said | _state(self.state)


@dataclass(frozen=True)
class Spawn:
    """Enqueue these jobs, {"kind": …, "payload": …} each, and park until they are over; `then` finds them in
    `ctx.children`."""

    children: Sequence[dict[str, Any]]
    then: str | None = None
    state: Any = KEEP
    on_failure: Literal["continue", "stop"] = "continue"
    until: Literal["first"] | int | None = None

    def said(self) -> dict[str, Any]:
        children = [options_as_json(child) for child in self.children]
        said: dict[str, Any] = {"spawn": children, "then": self.then, "on_failure": self.on_failure}
        if self.until is not None:
            said["until"] = self.until
        return said | _state(self.state)


@dataclass(frozen=True)
class Sleep:
    """Run `then`, or this step again, after `delay`."""

    delay: Duration
    then: str | None = None
    state: Any = KEEP

    def said(self) -> dict[str, Any]:
        return {"sleep": duration(self.delay), "then": self.then} | _state(self.state)


@dataclass(frozen=True)
class Done:
    """The machine has succeeded, with this result."""

    result: Any = None

    def said(self) -> dict[str, Any]:
        return {"done": to_json(self.result)}


@dataclass(frozen=True)
class Stop:
    """The machine has failed, for this reason."""

    reason: str | None = None

    def said(self) -> dict[str, Any]:
        return {"stop": self.reason}


StepOutcome = Next | Replay | Await | Spawn | Sleep | Done | Stop


@dataclass
class Retry(Exception):
    """Fail this execution and try again, after `delay` or the usual backoff."""

    delay: Duration | None = None
    reason: str = "the handler asked for a retry"
    args: tuple[Any, ...] = field(default=(), init=False, repr=False)

    def __str__(self) -> str:
        return self.reason


class Cancel(Exception):
    """End the job canceled, without another try."""


class Fatal(Exception):
    """Another try could not help: the job is dead."""


def _state(state: Any) -> dict[str, Any]:
    return {} if state is KEEP else {"state": to_json(state)}
