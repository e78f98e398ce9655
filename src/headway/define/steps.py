"""Steps: the methods of a machine that are marked `@step`, with their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, Unpack, overload

import msgspec

from headway.define.annotations import signature_of
from headway.define.keys import KeyMaker
from headway.define.option_types import StepOptions
from headway.define.options import Options, kind_options, overlaid
from headway.define.state import Shape
from headway.errors import InvalidJob
from headway.model.job import Claim

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__headway_step__"


@overload
def step(fn: F, /) -> F: ...
@overload
def step(fn: None = None, /, **options: Unpack[StepOptions]) -> Callable[[F], F]: ...
def step(fn: Any = None, /, **options: Any) -> Any:
    """Mark a method as a step of its machine: `@step`, or with options `@step(max_attempts=10, timeout="1m")`."""
    unknown = set(options) - set(StepOptions.__annotations__)
    if unknown:
        known = ", ".join(StepOptions.__annotations__)
        raise InvalidJob(f"@step takes no {sorted(unknown)[0]}: it takes {known}")

    def mark(fn: Any) -> Any:
        if not inspect.isfunction(fn):
            raise InvalidJob(f"{fn!r} is not a method: @step marks methods of a Machine")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise InvalidJob(f"{fn.__qualname__}: a generator cannot be a step: return an outcome")
        setattr(fn, _MARK, options)
        return fn

    return mark if fn is None else mark(fn)


def is_step(value: Any) -> bool:
    """Whether this is a method that is marked as a step."""
    return inspect.isroutine(value) and hasattr(value, _MARK)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a machine, made when the machine is registered."""

    name: str
    fn: Callable[..., Any]
    is_async: bool
    options: Options  # the machine's, overridden by its own
    own: frozenset[str]  # the names of the options it overrides
    partition: KeyMaker | None  # if it is made from the state

    @property
    def moves(self) -> bool:
        """Whether it runs in a queue or partition of its own."""
        return bool(self.own & {"queue", "partition"})

    def policy(self, claim: Claim) -> Claim:
        """The claim with this step's attempts, timeout and backoff; the row keeps the job's."""
        changes: dict[str, Any] = {}
        if "max_attempts" in self.own:
            changes["max_attempts"] = self.options.max_attempts
        if "timeout" in self.own:
            changes["timeout_ms"] = self.options.timeout_ms
        if "backoff" in self.own and self.options.backoff is None:
            changes["backoff_base_ms"] = self.options.backoff_base_ms
            changes["backoff_cap_ms"] = self.options.backoff_cap_ms
        return msgspec.structs.replace(claim, **changes) if changes else claim

    def partition_of(self, shape: Shape, state: str) -> str | None:
        return self.options.partition if self.partition is None else self.partition.make(shape.values(state))


def steps_of(
    machine: type, machine_options: Options, shape: Shape, kind: str, *, taken: Collection[str]
) -> dict[str, Step]:
    """The steps of a machine by name, in the order in which they are written; raises `InvalidJob`.

    `taken` are the names that every machine uses for something else.
    """
    found: dict[str, Step] = {}
    for name in _names(machine):
        fn = inspect.getattr_static(machine, name)
        given: Mapping[str, Any] | None = getattr(fn, _MARK, None)
        if given is None:
            continue
        if name in taken:
            raise InvalidJob(f"{kind}.{name}: every machine has something else by that name: rename the step")
        _check_parameters(fn, kind)
        options = overlaid(machine_options, kind_options(given), given)
        found[name] = Step(
            name=name,
            fn=fn,
            is_async=inspect.iscoroutinefunction(fn),
            options=options,
            own=frozenset(given),
            partition=None
            if "partition" not in given or options.partition_by is None
            else KeyMaker(
                "partition",
                options.partition_by,
                kind=f"{kind}.{name}",
                names=shape.names,
                open_ended=shape.open_ended,
            ),
        )
    return found


def _names(machine: type) -> list[str]:
    """All attributes, those of base classes first, each once."""
    return list(dict.fromkeys(name for base in reversed(machine.__mro__) for name in vars(base)))


def _check_parameters(fn: Callable[..., Any], kind: str) -> None:
    parameters = list(signature_of(fn).parameters.values())
    if len(parameters) != 2 or any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise InvalidJob(f"{kind}.{fn.__name__}: a step takes self and the context: def {fn.__name__}(self, ctx)")
