"""Batches: kinds whose function takes a list of calls and answers each of them."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from headway.define.annotations import hints_of, resolve, show, signature_of
from headway.define.arguments import Arguments
from headway.define.context import Context
from headway.define.enqueuer import Binding
from headway.define.kind import Kind
from headway.define.option_types import KindOptions
from headway.errors import InvalidJob, InvalidOutcome, InvalidPayload
from headway.model.codec import is_model

A = TypeVar("A")

WAIT_MS = 50
"""How long the first call waits for others unless `batch_wait` says: a poll or two of a busy queue."""

_P = inspect.Parameter
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)

Answer = tuple[Any, BaseException | None]
"""The answer to one call of a batch: a value, or the error that it failed with."""


class Call(Generic[A]):
    """One call of a batch: a job of its own, with its own arguments, context and outcome.

    `args` is an object of the class that the function's annotation names, `list[Call[Document]]`; a dict without one.
    """

    __slots__ = ("args", "ctx")

    def __init__(self, args: A, ctx: Context) -> None:
        self.args = args
        self.ctx = ctx

    @property
    def job_id(self) -> str:
        return self.ctx.job_id

    @property
    def attempt(self) -> int:
        """The number of this execution of the job, from 1."""
        return self.ctx.attempt

    def __repr__(self) -> str:
        return f"Call({self.args!r}, job_id={self.job_id!r})"


class BatchKind(Kind[..., Any]):
    """A kind whose calls run together, up to `size` of them; each is a job of its own."""

    size: int
    wait_ms: int
    calls_async: bool
    """Whether the function is async. `is_async` is False: no single call of a batch can be interrupted."""

    def __init__(self, fn: Callable[..., Any], options: KindOptions, *, binding: Binding | None = None) -> None:
        super().__init__(fn, options, binding=binding)
        self.calls_async, self.is_async = self.is_async, False
        self.size = self.options.batch or 1
        self.wait_ms = WAIT_MS if self.options.batch_wait_ms is None else self.options.batch_wait_ms

    def _read_parameters(self, fn: Callable[..., Any]) -> Arguments:
        return _CallArguments(_item_type(fn, self.name), self.name)

    def invocation(self, ctx: Context) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """The call that joins a batch; raises `InvalidPayload`."""
        return self.fn, (self.call(ctx),), {}

    def call(self, ctx: Context) -> Call[Any]:
        args, _ = self.decode(ctx.claim.payload, ctx.secret)
        return Call(args[0], ctx)

    def answers(self, returned: Any, calls: int) -> list[Answer]:
        """What the function returned, by call; raises `InvalidOutcome` if that is not one answer for each."""
        if returned is None:
            return [(None, None)] * calls
        if not isinstance(returned, list | tuple):
            raise InvalidOutcome(
                f"{self.name} returned {type(returned).__name__}, and it takes a batch: return a list with one answer "
                "for each call, in their order, or None if all of them succeeded"
            )
        if len(returned) != calls:
            raise InvalidOutcome(
                f"{self.name} returned {len(returned)} answers for {calls} calls: return one for each call, in their "
                "order, or None if all of them succeeded"
            )
        return [(None, each) if isinstance(each, BaseException) else (each, None) for each in returned]


class _CallArguments(Arguments):
    """The arguments of one call: the fields of a class, or any fields of a dict."""

    __slots__ = ("_type",)

    def __init__(self, type_: Any, kind: str) -> None:
        self._type = type_
        super().__init__(_function_of(type_, kind), kind)

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> str:
        if len(args) == 1 and not kwargs and self._type is not dict and isinstance(args[0], self._type):
            item = args[0]
            return self.pack_named({name: getattr(item, name) for name in self.names}, limit)
        if args:
            wants = "its fields by name" if self._type is dict else f"the fields of {show(self._type)} by name, or one"
            raise InvalidJob(f"{self._kind}: give {wants}")
        return self.pack_named(kwargs, limit)

    def pack_named(self, given: Mapping[str, Any], limit: int) -> str:
        text = super().pack_named(given, limit)
        if self._type is not dict and not self._unknown(text):
            self._made(super().unpack(text)[1])
        return text

    def unpack(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self._made(super().unpack(text)[1]),), {}

    def _made(self, fields: dict[str, Any]) -> Any:
        if self._type is dict:
            return fields
        try:
            return self._type(**fields)
        except (TypeError, ValueError) as error:  # what its own validation says
            raise InvalidPayload(f"{self._kind}: {show(self._type)} refuses these arguments: {error}") from error


def _item_type(fn: Callable[..., Any], kind: str) -> Any:
    """The class of a call's arguments: `Document` of a parameter annotated `list[Call[Document]]`."""
    parameters = list(signature_of(fn).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in (_P.POSITIONAL_ONLY, _P.POSITIONAL_OR_KEYWORD):
        raise InvalidJob(
            f"{kind}: with batch its function takes one list of calls, def {kind}(calls: list[Call]); each call has "
            "its own arguments and context, call.args and call.ctx"
        )
    annotation = resolve(fn, parameters[0], kind)
    if annotation is Any or annotation is list:
        return dict
    item = (*get_args(annotation), None)[0] if get_origin(annotation) in _LISTS else None
    if item is Call or item is Any:
        return dict
    if get_origin(item) is not Call:
        raise InvalidJob(
            f"{kind}: {parameters[0].name} is annotated {show(annotation)}: with batch it is a list of calls, "
            "list[Call] or list[Call[Document]]"
        )
    (found,) = get_args(item)
    return dict if found is Any or (get_origin(found) or found) in (dict, collections.abc.Mapping) else found


def _function_of(type_: Any, kind: str) -> Callable[..., Any]:
    """A function with the fields of the class as its parameters: they are checked and decoded like any arguments."""

    def fields(**given: Any) -> None:
        """Never called."""

    if type_ is not dict:
        parameters = [_P(name, _P.KEYWORD_ONLY, **field) for name, field in _fields(type_, kind).items()]
        fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return fields


def _fields(type_: Any, kind: str) -> dict[str, dict[str, Any]]:
    """The fields of a class, with annotation and default."""
    try:
        hints = hints_of(type_)
    except (NameError, TypeError) as error:
        raise InvalidJob(
            f"{kind}: the annotations of {show(type_)} cannot be resolved ({error}): import their names, and define "
            "their classes, at module level"
        ) from error
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return {
            field.name: _field(hints[field.name], field.default, field.default_factory, msgspec.NODEFAULT)
            for field in msgspec.structs.fields(type_)
        }
    if dataclasses.is_dataclass(type_):
        return {
            field.name: _field(hints[field.name], field.default, field.default_factory, dataclasses.MISSING)
            for field in dataclasses.fields(type_)
            if field.init
        }
    if is_model(type_):
        return {
            name: {"annotation": hints[name]} | ({} if field.is_required() else {"default": field.get_default()})
            for name, field in type_.model_fields.items()
        }
    raise InvalidJob(
        f"{kind}: Call[{show(type_)}] does not name the fields of its arguments: use a dataclass, a msgspec Struct or "
        "a pydantic model, or Call alone for a dict"
    )


def _field(annotation: Any, default: Any, factory: Any, none: Any) -> dict[str, Any]:
    if default is none and factory is none:
        return {"annotation": annotation}
    return {"annotation": annotation, "default": factory() if default is none else default}
