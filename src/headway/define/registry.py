"""Registry: the kinds that are defined together, by name."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from headway.define.batch import BatchKind, Call
from headway.define.context import Context
from headway.define.declared_schedules import DeclaredSchedule, declare_schedule
from headway.define.enqueuer import Binding, Enqueuer
from headway.define.flow import Flow
from headway.define.flow_kind import FlowKind
from headway.define.kind import ContextKind, Kind, is_typed_again
from headway.define.machine import Machine, MachineKind
from headway.define.option_types import DeclaredScheduleOptions, FlowOptions, KindOptions
from headway.define.sync_flow import SyncFlow
from headway.errors import InvalidJob, UnknownKind

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
M = TypeVar("M", bound=type[Machine])
D = TypeVar("D", bound=Callable[..., Any])

AnyKind = Kind[..., Any]


class Decorator(Protocol):
    """The type of `@registry.job(queue="mail")`; enqueue does not ask for a context that comes first."""

    @overload
    def __call__(self, fn: Callable[[list[Call[A]]], R], /) -> Kind[..., R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> ContextKind[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Kind[P, R]: ...


class JobVerb(Protocol):
    """The type of `registry.job`, for an app that passes it on."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> ContextKind[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Kind[P, R]: ...
    @overload
    def __call__(self, fn: None = None, /, **options: Unpack[KindOptions]) -> Decorator: ...


class FlowDecorator(Protocol):
    """The type of `@registry.flow(queue="orders")`."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Flow, P], Awaitable[R]], /) -> FlowKind[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncFlow, P], R], /) -> FlowKind[P, R]: ...


class FlowVerb(Protocol):
    """The type of `registry.flow`, for an app that passes it on."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Flow, P], Awaitable[R]], /) -> FlowKind[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncFlow, P], R], /) -> FlowKind[P, R]: ...
    @overload
    def __call__(self, fn: None = None, /, **options: Unpack[FlowOptions]) -> FlowDecorator: ...


class ScheduleVerb(Protocol):
    """The type of `registry.schedule`, for an app that passes it on."""

    def __call__(self, cron: str | None = None, **options: Unpack[DeclaredScheduleOptions]) -> Callable[[D], D]: ...


class Registry:
    """Kinds by name, defined without an app; `app.include(registry)` adds them to one.

    >>> shop = Registry()
    >>> @shop.job(queue="mail", max_attempts=3)
    ... def welcome(user_id: int) -> str:
    ...     return f"hello {user_id}"
    >>> shop["welcome"] is welcome
    True
    """

    def __init__(self) -> None:
        self._kinds: dict[str, AnyKind] = {}  # by name, and by each alias
        self._binding = Binding()
        self._schedules: list[DeclaredSchedule] = []
        self._includes: list[Registry] = []
        self._included_by: list[Registry] = []

    @overload
    def job(self, fn: Callable[Concatenate[Context, P], R], /) -> ContextKind[P, R]: ...
    @overload
    def job(self, fn: Callable[P, R], /) -> Kind[P, R]: ...
    @overload
    def job(self, fn: None = None, /, **options: Unpack[KindOptions]) -> Decorator: ...
    def job(self, fn: Callable[..., Any] | None = None, /, **options: Unpack[KindOptions]) -> Any:
        """Make a kind of the function: `@registry.job`, or with options `@registry.job(queue="mail")`.

        Raises `InvalidJob` for options or parameters that cannot work, and for a name that is taken.
        """
        if fn is None:
            return lambda fn: self._define(fn, options)
        return self._define(fn, options)

    @overload
    def flow(self, fn: Callable[Concatenate[Flow, P], Awaitable[R]], /) -> FlowKind[P, R]: ...
    @overload
    def flow(self, fn: Callable[Concatenate[SyncFlow, P], R], /) -> FlowKind[P, R]: ...
    @overload
    def flow(self, fn: None = None, /, **options: Unpack[FlowOptions]) -> FlowDecorator: ...
    def flow(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a kind of an async function whose finished operations are kept: `@registry.flow`, or with options
        `@registry.flow(queue="orders", version=2, since=1)`.

        Two functions of one name may be registered, for different versions. Raises `InvalidJob`.
        """
        if fn is None:
            return lambda fn: self._define_flow(fn, options)
        return self._define_flow(fn, options)

    def add(self, kind: AnyKind) -> None:
        """Add a kind that was made elsewhere; raises `InvalidJob` for a taken name."""
        self._check_free(kind)
        self._adopt(kind)

    @property
    def binding(self) -> Binding:
        """How its kinds find their app."""
        return self._binding

    def machine(self, machine: M, /, **options: Any) -> M:
        """Make a kind of a machine: `@registry.machine class Checkout(Machine, version=2)`.

        Several versions of one name belong together: each row runs by its own version. Raises `InvalidJob`.
        """
        if options:
            raise InvalidJob("a machine's options belong to its class: class Checkout(Machine, queue='checkout')")
        kind = MachineKind(machine, binding=self._binding)
        self._check_free(kind)
        self._adopt(kind)
        machine._kinds[:] = [known for known in machine._kinds if not known.of_same(kind)] + [kind]
        return machine

    def schedule(self, cron: str | None = None, **options: Unpack[DeclaredScheduleOptions]) -> Callable[[D], D]:
        """Enqueue a kind by the clock: `@registry.schedule("0 2 * * *", tz="America/New_York")` above `@registry.job`.

        Workers write it when they start, and any of them fires it. It is named after its kind; a second schedule of a
        kind needs a name. Above a plain function it makes the kind, too. Raises `InvalidJob`.
        """

        def schedule(what: D) -> D:
            made: Any = what
            if isinstance(what, type) and issubclass(what, Machine):
                kind: AnyKind = what.kind()
            elif isinstance(what, Kind):
                kind = what
            else:
                made = kind = self._define(what, {})
            self._add_schedule(declare_schedule(kind, cron, options))
            return made  # type: ignore[no-any-return]

        return schedule

    @property
    def schedules(self) -> tuple[DeclaredSchedule, ...]:
        """The schedules declared here and in included registries."""
        found = [*self._schedules]
        for other in self._includes:
            found += [each for each in other.schedules if each not in found]
        return tuple(found)

    def _add_schedule(self, new: DeclaredSchedule) -> None:
        for known in self._schedules:
            if known.name == new.name and known.tenant == new.tenant:
                if known.kind == new.kind and known.given == new.given:
                    return
                raise InvalidJob(
                    f'there are two schedules "{new.name}": give the second one another name, '
                    f"@app.schedule(…, name='{new.name}_2')"
                )
        self._schedules.append(new)

    def include(self, other: Registry) -> None:
        """Add the kinds of another registry, later ones included; raises `InvalidJob` for a taken name."""
        if other is self or other in self._includes:
            return
        if self in other._all_includes():
            raise InvalidJob("these registries would include each other: include one into the other only")
        for kind in other:
            self._check_free(kind)
        self._includes.append(other)
        other._included_by.append(self)
        for kind in other:
            self._adopt(kind)
        for enqueuer in self._binding:
            other.bind(enqueuer)

    def bind(self, enqueuer: Enqueuer) -> None:
        """Let all kinds here, now and later, enqueue through this app."""
        self._binding.add(enqueuer)
        for other in self._includes:
            other.bind(enqueuer)

    def __getitem__(self, name: str) -> AnyKind:
        """The kind of this name or alias; raises `UnknownKind` with similar names."""
        kind = self._kinds.get(name)
        if kind is None:
            raise UnknownKind(self.unknown(name))
        return kind

    def get(self, name: str) -> AnyKind | None:
        return self._kinds.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __iter__(self) -> Iterator[AnyKind]:
        return iter([kind for name, kind in self._kinds.items() if name == kind.name])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def kinds(self) -> Mapping[str, AnyKind]:
        """All kinds here by name and by alias: a view that shows later ones too."""
        return MappingProxyType(self._kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kinds here, sorted."""
        return tuple(sorted(kind.name for kind in self))

    @property
    def queues(self) -> set[str]:
        """The queues that the kinds here use, with those of machines' steps."""
        return {queue for kind in self._kinds.values() for queue in kind.queues}

    def _define(self, fn: Callable[..., Any], options: KindOptions) -> AnyKind:
        of_batches = "batch" in options
        kind: AnyKind = (BatchKind if of_batches else Kind)(fn, options, binding=self._binding)
        self._check_free(kind)
        self._adopt(kind)
        return kind

    def _define_flow(self, fn: Callable[..., Any], options: Any) -> FlowKind[..., Any]:
        kind: FlowKind[..., Any] = FlowKind(fn, options, binding=self._binding)
        self._check_free(kind)
        self._adopt(kind)
        return kind

    def _check_free(self, kind: AnyKind) -> None:
        taken = self._kinds.get(kind.name)
        if isinstance(taken, FlowKind) and isinstance(kind, FlowKind):
            fn = taken.clash(kind)
            if fn is not None:
                raise InvalidJob(
                    f'flow "{kind.name}" has two functions for one version, {_location(fn)} and {_location(kind.fn)}: '
                    "give the newer one a higher version=, and a since= above the older one's"
                )
        elif isinstance(taken, MachineKind) and isinstance(kind, MachineKind):
            clash = taken.clash(kind)
            if clash is not None:
                raise InvalidJob(
                    f'machine "{kind.name}" has two classes of one version, {_location(clash)} and '
                    f"{_location(kind.fn)}: "
                    "give the newer one a higher version=, or another name="
                )
        elif taken is not None and not _same_function(taken.fn, kind.fn):
            raise InvalidJob(
                f'kind "{kind.name}" is defined twice, by {_location(taken.fn)} and by {_location(kind.fn)}: '
                "give one of them another name, @app.job(name='…')"
                if taken.name == kind.name
                else f'kind "{kind.name}" of {_location(kind.fn)} has an alias of kind "{taken.name}" as its name: '
                "give it another name, or take the alias away"
            )
        for alias in kind.aliases:
            other = self._kinds.get(alias)
            if other is not None and other.name != kind.name:
                raise InvalidJob(
                    f'alias "{alias}" of kind "{kind.name}" is taken by kind "{other.name}": an alias is an earlier '
                    "name of one kind only"
                )
        for registry in self._included_by:
            registry._check_free(kind)

    def _adopt(self, kind: AnyKind) -> None:
        taken = self._kinds.get(kind.name)
        if isinstance(taken, FlowKind) and isinstance(kind, FlowKind):
            kind = taken.joined(kind)
        if isinstance(taken, MachineKind) and isinstance(kind, MachineKind):
            kind = taken.joined(kind)
        self._kinds[kind.name] = kind
        adopted = self._kinds[kind.name]
        self._kinds.update(dict.fromkeys(adopted.aliases, adopted))
        for registry in self._included_by:
            registry._adopt(kind)

    def _all_includes(self) -> Iterator[Registry]:
        for other in self._includes:
            yield other
            yield from other._all_includes()

    @property
    def has_code(self) -> bool:
        """Whether functions or machines are defined here, not only the commands and connectors of headway.toml."""
        return any(kind.by_code for kind in self._kinds.values())

    def unknown(self, name: str, others: Iterable[str] = ()) -> str:
        """The message for an unknown kind, with similar names of those here and of the others."""
        known = sorted({*self._kinds, *others})
        if not known:
            return f'kind "{name}" is not defined here, and no other is: import the module that defines it'
        close = difflib.get_close_matches(str(name), known, n=3)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        return f'kind "{name}" is not defined here: {hint}The kinds known here are {shown}'


def _same_function(one: Any, other: Any) -> bool:
    """The same function, or the same lines of a module that was loaded again, or the same cell of a notebook."""
    if one == other or is_typed_again(one, other):  # not only identity: a bound method is a new object each time
        return True
    code, other_code = getattr(one, "__code__", None), getattr(other, "__code__", None)
    return (
        code is not None
        and other_code is not None
        and one.__closure__ is None
        and other.__closure__ is None
        and (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
        and (code.co_filename, code.co_firstlineno) == (other_code.co_filename, other_code.co_firstlineno)
    )


def _location(fn: Any) -> str:
    name = f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', repr(fn))}"
    code = getattr(fn, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"
