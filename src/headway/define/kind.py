"""Kind: what `@app.job` turns a function into: still callable, and enqueueable."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar, Unpack

import msgspec

from headway import secrets
from headway.define import checks, uniqueness
from headway.define.arguments import Arguments, ArgumentsOfCall
from headway.define.context import Context
from headway.define.enqueuer import Binding, Enqueuer
from headway.define.keys import KeyMaker
from headway.define.option_types import KindOptions, UsingOptions
from headway.define.options import Options, kind_options
from headway.define.schema import Schema
from headway.errors import InvalidJob, InvalidOutcome, InvalidPayload
from headway.model.codec import encode
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import Claim, Enqueued, NewJob, Settlement
from headway.model.outcome import Done, Outcomes
from headway.model.retry import released, succeeded
from headway.secrets import Owner, Vault

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

_NO_OPTIONS: KindOptions = {}
_LET_IT_SPILL = ", or let it spill: @app.job(spill=True)"


class Redefined(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator changed of a kind: it overrides the code, and `using()` overrides it."""

    schema: Schema | msgspec.UnsetType | None = msgspec.UNSET
    timeout_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    max_attempts: int | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType = msgspec.UNSET

    def laid_over(self, row: NewJob, own: NewJob) -> NewJob:
        """The row with these changes, except where `using()` already changed the kind's own row."""
        changes: dict[str, Any] = {
            name: value
            for name in ("timeout_ms", "max_attempts", "queue")
            if (value := getattr(self, name)) is not msgspec.UNSET and getattr(row, name) == getattr(own, name)
        }
        if "max_attempts" in changes and own.max_losses == own.max_attempts and row.max_losses == own.max_losses:
            changes["max_losses"] = changes["max_attempts"]
        return msgspec.structs.replace(row, **changes)


_ELSEWHERE = {
    ".enqueue(…)": ("delay", "send", "defer", "queue", "spool", "push", "perform_async", "start_workflow"),
    "await ….aenqueue(…)": ("kiq", "defer_async", "send_async"),
    ".using(…).enqueue(…)": ("apply_async", "send_with_options", "configure", "set", "schedule", "signature", "s"),
}
"""How other queues call what our methods do."""


_TYPED = re.compile(r"<(ipython-input|python-input|stdin|input)|.*[/\\]ipykernel_\d+[/\\]")
"""The names of files that are none: what was typed at a prompt, and the cells of notebooks."""


def is_typed_again(one: Any, other: Any) -> bool:
    """Whether somebody ran a cell of a notebook again, perhaps changed, or typed a function anew."""
    codes = [getattr(each, "__code__", None) for each in (one, other)]
    names = [(getattr(each, "__module__", ""), getattr(each, "__qualname__", "")) for each in (one, other)]
    return (
        names[0] == names[1]
        and names[0][0] == "__main__"
        and all(code is not None and _TYPED.match(code.co_filename) for code in codes)
    )


class Kind(Generic[P, R]):
    """A function with a name and options under which its calls are stored as jobs.

    Calling it calls the function; `enqueue` stores the call. The function may be plain or `async`; a
    parameter annotated `Context` is filled by the worker and not part of the payload. Raises `InvalidJob` for
    what can never run.

    >>> def welcome(user_id: int) -> str:
    ...     return f"hello {user_id}"
    >>> kind = Kind(welcome)
    >>> kind(user_id=7), kind.build(7).payload
    ('hello 7', '{"user_id":7}')
    """

    is_machine: ClassVar[bool] = False
    is_command: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    recovers: ClassVar[bool] = False
    by_code: ClassVar[bool] = True  # defined by a function, not by headway.toml

    name: str
    aliases: tuple[str, ...]  # its earlier names: jobs, schedules and producers may still use them
    fn: Callable[..., R]
    options: Options
    is_async: bool
    context_param: str | None

    def __init__(
        self,
        fn: Callable[P, R],
        options: KindOptions = _NO_OPTIONS,
        *,
        binding: Binding | None = None,
    ) -> None:
        fn = getattr(fn, "__func__", fn) if isinstance(fn, staticmethod) else fn
        functools.update_wrapper(self, fn, updated=())  # the function's own attributes must not hide ours
        self.name = _name_of(fn, options.get("name"))
        _check_function(fn, self.name)
        self.aliases = checks.aliases(options.get("aliases", ()), self.name)
        self.fn = fn
        self.options = kind_options(options)
        self.is_async = _is_async(fn)
        self._arguments = self._read_parameters(fn)
        if self.by_code and not self.options.spill:
            self._arguments.advice = _LET_IT_SPILL
        self.context_param = self._arguments.context
        self._binding = binding or Binding()
        self._row = self._own_row = self.options.row(self.name)
        self._keys = tuple(
            KeyMaker(
                option,
                source,
                kind=self.name,
                names=self._arguments.names,
                open_ended=self._arguments.open_ended,
            )
            for option, source in self.options.made_keys.items()
        )

        self._check_unique_by()

    def _read_parameters(self, fn: Callable[P, R]) -> Arguments:
        return Arguments(fn, self.name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return (
            f"<Kind {self.name} of {self.fn.__module__}.{self.fn.__qualname__}>"
            if _named(self.fn)
            else (f"<Kind {self.name} of {self.fn!r}>")
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            ours = next((ours for ours, theirs in _ELSEWHERE.items() if name in theirs), None)
            hint = "" if ours is None else f": a job is enqueued with {ours}"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Store the call as a job; gives its `id`, `status` and `created`."""
        enqueuer = self.enqueuer()
        enqueuer.learn(self.options.conn)
        return enqueuer.enqueue_new(self.build(*args, **kwargs), self.options.conn)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """The same, without blocking."""
        enqueuer = self.enqueuer()
        await enqueuer.alearn(self.options.conn)
        return await enqueuer.aenqueue_new(self.build(*args, **kwargs), self.options.conn)

    def build(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job that `enqueue` would store, for `app.enqueue_many`; without a `conn` of `using()`.

        Raises `InvalidJob` for a call that the function would refuse and `InvalidPayload` for a value of the
        wrong type, naming the parameter.
        """
        return self._finish(self._arguments.pack(args, kwargs, self._payload_limit))

    def build_from(self, payload: Mapping[str, Any]) -> NewJob:
        """The same from the payload itself: all arguments by name, positional-only ones included."""
        if not isinstance(payload, Mapping):
            raise InvalidPayload(
                f"{self.name}: the payload is {type(payload).__name__}, not a dict of arguments by name"
            )
        return self._finish(self._arguments.pack_named(payload, self._payload_limit))

    def using(self, **options: Unpack[UsingOptions]) -> Kind[P, R]:
        """This kind with other options for the jobs enqueued through the copy; raises `InvalidJob`.

        `welcome.using(delay="5m", unique_key="w7").enqueue(user_id=7)`
        """
        copy: Kind[P, R] = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.options, copy._row = self.options.merged_with(self._row, options)
        if "unique_by" in options:
            copy._check_unique_by()
        if self._keys:
            copy._keys = tuple(each for each in self._keys if each.option in copy.options.made_keys)
        return copy

    @property
    def queues(self) -> set[str]:
        """The queues that its jobs go to by default."""
        return {self.options.queue}

    @property
    def schema(self) -> Schema | None:
        """The schema of its payloads: an operator's, or the code's."""
        redefined: Redefined | None = self._binding.redefined.get(self.name)
        if redefined is None or isinstance(redefined.schema, msgspec.UnsetType):
            return self.options.schema
        return redefined.schema

    def described(self) -> dict[str, Any] | None:
        """The JSON Schema of its payloads, for callers without its code: the given one, or else what its annotations
        say. Here its decoder checks the latter."""
        return self._arguments.schema() if self.options.schema is None else self.options.schema.source

    def redefine(self, redefined: Redefined | None) -> None:
        """From now on build its jobs with what an operator changed; None: as the code says."""
        if redefined is None:
            self._binding.redefined.pop(self.name, None)
        else:
            self._binding.redefined[self.name] = redefined

    def enqueuer(self) -> Enqueuer:
        """The one app that it belongs to; raises `InvalidJob`."""
        return self._binding.sole(self.name)

    # for the worker: a plain job is like a machine with one step, whose return ends it

    def context(
        self, claim: Claim, *, tenant: str | None, worker_id: str | None, vault: Vault | None = None
    ) -> Context:
        return Context(claim, tenant=tenant, worker_id=worker_id, vault=vault, by_code=self.by_code)

    def invocation(self, ctx: Context) -> tuple[Callable[..., R], Sequence[Any], dict[str, Any]]:
        """What to call for a claim; raises `InvalidPayload`."""
        args, kwargs = self.decode(ctx.claim.payload, ctx.secret)
        if self.context_param is not None:
            kwargs[self.context_param] = ctx
        return self.fn, args, kwargs

    def settlement_of(
        self, ctx: Context, value: Any, *, result_limit: int, may_spill: bool = False, **_: Any
    ) -> Settlement:
        """The settlement for the returned value; raises `InvalidPayload` if that cannot be stored. `may_spill`: a
        larger result could be, if the kind let it spill."""
        if type(value) is Done:
            value = value.result
        elif ctx.gave_way:
            return released(ctx.claim, "it returned early, because the worker stops")
        if value is None:
            return succeeded(ctx.claim, None)
        if isinstance(value, Outcomes):
            raise InvalidOutcome(
                f"{self.name} returned {type(value).__name__}(…), and it is a plain job: only the steps of a Machine "
                "return other outcomes than Done; return the value itself, or raise Retry, Snooze or Cancel"
            )
        advice = _LET_IT_SPILL if may_spill else ""
        return succeeded(ctx.claim, encode(value, limit=result_limit, what="result", advice=advice))

    def decode(self, payload: str, secret: Callable[[str], str] | None = None, /) -> ArgumentsOfCall:
        """The arguments of a payload, without the context. `secret` resolves its references (None: as for a job of the
        default tenant). Raises `InvalidPayload`, `SecretMissing`."""
        payload = secrets.resolve_text(payload, secret or self._own_secret)
        schema = self.schema
        if schema is not None:
            schema.check(payload, self.name)
        return self._arguments.unpack(payload)

    def _check_unique_by(self) -> None:
        uniqueness.check_names(self.options.unique_by, self.name, self._arguments.names, self._arguments.open_ended)

    def _own_secret(self, name: str) -> str:
        owner = Owner(DEFAULT_TENANT_ID, "default")
        return Vault().keyring(self.name, owner, by_code=self.by_code).get(name)

    @property
    def _payload_limit(self) -> int:
        return self._binding.spill_limit if self.options.spill else self._binding.payload_limit

    def _finish(self, payload: str) -> NewJob:
        options, row = self.options, self._row
        schema = options.schema
        if self._binding.redefined and (redefined := self._binding.redefined.get(self.name)) is not None:
            schema, row = self.schema, redefined.laid_over(row, self._own_row)
        if schema is not None:
            schema.check(payload, self.name)
        if options.on_conflict != "return":
            uniqueness.check_conflict(options)
        if options.expires_at is not None:
            checks.expiry(options.expires_at, options.scheduled_for, options.delay_ms, self._binding.now())
        if self._keys or options.unique_by:
            values = self._arguments.values(payload) if self._keys else {}
            made = {each.option: each.make(values) for each in self._keys}
            if options.unique_by:
                made["unique_key"] = uniqueness.digest(payload, options.unique_by)
            return msgspec.structs.replace(row, id=new_id(), payload=payload, **made)
        return msgspec.structs.replace(row, id=new_id(), payload=payload)


if TYPE_CHECKING:

    class ContextKind(Kind[P, R]):
        """For type checkers: a kind whose function takes the context first, which only a direct call passes."""

        def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
            ...

        def using(self, **options: Unpack[UsingOptions]) -> ContextKind[P, R]: ...

else:
    ContextKind = Kind


def _name_of(fn: Callable[..., Any], given: str | None) -> str:
    if given is not None:
        return checks.name(given, "name")
    if not callable(fn):
        raise InvalidJob(f"{fn!r} is not a function: @job decorates functions")
    derived = getattr(fn, "__name__", None)
    if derived is None or derived == "<lambda>":
        raise InvalidJob(f"{fn!r} has no name to store its jobs under: give one, @app.job(name='…')")
    return checks.name(derived, "name")


def _check_function(fn: Callable[..., Any], name: str) -> None:
    if isinstance(fn, Kind):
        raise InvalidJob(f'{name}: this is already the kind "{fn.name}": decorate its function, {fn.name}.fn')
    if not callable(fn) or inspect.isclass(fn):
        raise InvalidJob(f"{name}: {fn!r} is not a function: @job decorates functions")
    for each in (fn, getattr(fn, "func", fn), _call_of(fn)):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise InvalidJob(f"{name}: a generator cannot be a job: return the value, or a list of the values")


def _is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(_call_of(fn))


def _call_of(fn: Callable[..., Any]) -> Any:
    """The method behind a callable object."""
    return type(fn).__call__


def _named(fn: Any) -> bool:
    return hasattr(fn, "__qualname__") and hasattr(fn, "__module__")
