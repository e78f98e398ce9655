"""Steps of flows: what `flow.step` reads from a function, and under which policy it runs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

import msgspec

from headway.define.annotations import resolve, signature_of
from headway.define.context import Context
from headway.define.kind import Kind
from headway.define.options import Options, kind_options, overlaid
from headway.errors import FlowMisused, InvalidJob
from headway.model import codec
from headway.model.codec import revive

F = TypeVar("F", bound=Callable[..., Any])
RetryIf = Callable[[BaseException], bool | Awaitable[bool]]

_MARK = "__headway_flow_step__"
_OPTIONS = ("name", "max_attempts", "backoff", "retry_on", "discard_on", "retry_if", "timeout", "delivery")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a step is tried."""

    options: Options
    name: str | None = None
    retry_if: RetryIf | None = None
    keep: bool = False  # jobs that are called go on though nobody waits for them any more
    given: dict[str, Any] = {}  # what `flow.using` set of it

    def using(self, given: dict[str, Any]) -> Policy:
        """This policy, overridden by what `flow.using` got."""
        return msgspec.structs.replace(self.with_(given, "flow.using"), given={**self.given, **given})

    def under(self, own: dict[str, Any], where: str) -> Policy:
        """This policy, overridden by a step's own where `flow.using` set nothing else."""
        return self.with_({**own, **self.given}, where)

    def with_(self, given: dict[str, Any], where: str) -> Policy:
        """This policy, overridden by what was given; raises `InvalidJob`."""
        unknown = sorted(set(given) - set(_OPTIONS))
        if unknown:
            raise InvalidJob(f"{where} takes no {unknown[0]}: it takes {', '.join(_OPTIONS)}")
        name, retry_if = given.get("name", self.name), given.get("retry_if", self.retry_if)
        if (
            "name" in given
            and name is not None
            and (not isinstance(name, str) or not name or ":" in name or name.startswith("$"))
        ):
            raise InvalidJob(f"{where}: name={name!r} is not the name of a step: give a text without : and $")
        own = {option: value for option, value in given.items() if option not in ("name", "retry_if")}
        options = overlaid(self.options, kind_options(own, where), own) if own else self.options
        return Policy(options=options, name=name, retry_if=retry_if, given=self.given, keep=self.keep)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and bool(name) and ":" not in name and not name.startswith("$")


class StepFunction(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be known of a function that runs as a step."""

    name: str | None
    target: str
    is_async: bool
    context: tuple[int, str] | None  # the parameter that gets the context: its place and name
    by_name: bool  # that parameter is given by name only
    decode: Callable[[Any], Any]
    own: dict[str, Any]  # what `@app.step` gave it


class StepVerb:
    """`@app.step` and `@app.step(max_attempts=3)`: give a function the options that it has as a step of flows; called
    by itself it stays a plain function."""

    @overload
    def __call__(self, fn: F, /) -> F: ...
    @overload
    def __call__(self, fn: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def __call__(self, fn: Any = None, /, **options: Any) -> Any:
        Policy(options=Options()).with_(options, "@app.step")

        def mark(fn: Any) -> Any:
            setattr(fn, _MARK, options)
            return fn

        return mark if fn is None else mark(fn)


flow_step = StepVerb()


_known: dict[Any, StepFunction] = {}
_MOST_KNOWN = 10_000


def step_function(fn: Callable[..., Any]) -> StepFunction:
    """Reads a function, once for all closures of one code; raises `FlowMisused` for what cannot be a step."""
    key = getattr(fn, "__code__", fn)
    try:
        known = _known.get(key)
    except TypeError:  # a callable without a hash
        return _read(fn)
    if known is None:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        known = _known[key] = _read(fn)
    return known


def _read(fn: Callable[..., Any]) -> StepFunction:
    if not callable(fn):
        hint = ": give the function and its arguments, flow.step(f, x)" if inspect.isawaitable(fn) else ""
        if inspect.iscoroutine(fn):
            fn.close()
        raise FlowMisused(f"flow.step got {fn!r}, which is not a function{hint}")
    inner = fn.fn if isinstance(fn, Kind) else fn
    name = fn.name if isinstance(fn, Kind) else getattr(inner, "__name__", None)
    target = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    parameters, returns = _signature(inner)
    context = next(((at, each.name) for at, each in enumerate(parameters) if _is_context(inner, each)), None)
    return StepFunction(
        name=None if name == "<lambda>" else name,
        target=target,
        is_async=inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__),
        context=context,
        by_name=context is not None and parameters[context[0]].kind is inspect.Parameter.KEYWORD_ONLY,
        decode=_decoder(inner, returns),
        own=getattr(inner, _MARK, {}),
    )


def result_decoder(fn: Callable[..., Any]) -> Callable[[Any], Any]:
    """Reads a result as the function's annotation says; plain JSON without one."""
    return _decoder(fn, _signature(fn)[1])


def _signature(fn: Any) -> tuple[list[inspect.Parameter], Any]:
    try:
        signature = signature_of(fn)
    except (TypeError, ValueError):
        return [], inspect.Signature.empty
    return list(signature.parameters.values()), signature.return_annotation


def _is_context(fn: Any, parameter: inspect.Parameter) -> bool:
    if parameter.annotation is inspect.Parameter.empty:
        return False
    try:
        return resolve(fn, parameter, "flow.step") is Context
    except InvalidJob:
        return False


def _decoder(fn: Any, returns: Any) -> Callable[[Any], Any]:
    if returns is inspect.Signature.empty or returns is None:
        return _plain
    parameter = inspect.Parameter("result", inspect.Parameter.KEYWORD_ONLY, annotation=returns)
    try:
        type_ = resolve(fn, parameter, "flow.step")
        if type_ is Any or type_ is object:
            return _plain
        decoder = msgspec.json.Decoder(type_, dec_hook=revive)
        decoder.decode(b"null") if type_ is type(None) else None
    except Exception:
        return _plain  # not a type that JSON can be decoded into

    def decode(value: Any) -> Any:
        try:
            return decoder.decode(value or b"null")
        except codec.FAULTS as error:
            raise codec.unread("result", error) from error

    return decode


def _plain(value: Any) -> Any:
    return codec.decode(value or b"null", what="result")
