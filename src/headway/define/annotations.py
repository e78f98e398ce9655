"""Resolves the annotations of a handler to types that JSON can be decoded into."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from headway.define.context import Context
from headway.errors import InvalidJob
from headway.model.codec import is_model

_ZONED = Annotated[datetime, msgspec.Meta(tz=True)]


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The function's signature; on Python 3.14 without evaluating annotations that only type checkers can evaluate."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(fn, annotation_format=Format.FORWARDREF)
    return inspect.signature(fn)


def hints_of(type_: type) -> dict[str, Any]:
    """The types of a class's fields; raises `NameError` where only type checkers can evaluate one."""
    return typing.get_type_hints(type_, include_extras=True)


def resolve(fn: Callable[..., Any], parameter: inspect.Parameter, kind: str, given: type = Context) -> Any:
    """The type that the parameter is annotated with: Any without one. `given`, `Context` or `Flow`, is what the worker
    passes: it may be imported for type checkers only."""
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return Any
    try:
        resolved = _evaluate(fn, annotation)
    except Exception as error:
        text = getattr(annotation, "__forward_arg__", annotation)
        if isinstance(text, str) and _names(given, text):
            return given  # imported for type checkers only
        raise InvalidJob(
            f"{kind}: the annotation {text!r} of parameter {parameter.name} cannot be resolved "
            f"({type(error).__name__}: {error}): import its names at module level, not under TYPE_CHECKING"
        ) from error
    members = get_args(resolved) if _is_union(resolved) else (resolved,)
    return given if any(each is given or get_origin(each) is given for each in members) else resolved


def decodable(annotation: Any, parameter: str, kind: str) -> Any:
    """The annotation as msgspec decodes it; raises `InvalidJob` for a type that cannot be made from JSON."""
    if annotation is object:
        return Any
    annotation = _with_zones(annotation)
    try:
        info = msgspec.inspect.type_info(annotation)
    except Exception as error:
        raise InvalidJob(
            f"{kind}: parameter {parameter} cannot be decoded from JSON: {error}; "
            "annotate it with other types, or with Any"
        ) from error
    for custom in _customs(info, set()):
        if not is_model(custom):
            raise InvalidJob(
                f"{kind}: parameter {parameter} is annotated {show(custom)}, which cannot be made from JSON: "
                "use plain types, a dataclass, a msgspec Struct, a pydantic model, or Any, "
                "and pass the id of what cannot be stored"
            )
    return annotation


def show(annotation: Any) -> str:
    """A type's name for a message."""
    return getattr(annotation, "__qualname__", None) or str(annotation)


def _evaluate(fn: Callable[..., Any], annotation: Any) -> Any:
    inner = inspect.unwrap(getattr(fn, "func", fn))
    inner = getattr(inner, "__func__", inner)
    if not hasattr(inner, "__globals__"):
        inner = type(inner).__call__  # a callable object
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return _hint(holder, inner.__globals__, None)
    except NameError:
        # classes that are local to the function that defines the handler, as in tests
        return _hint(holder, inner.__globals__, _locals_around(inner))


def _hint(holder: Any, globalns: dict[str, Any], localns: dict[str, Any] | None) -> Any:
    return typing.get_type_hints(holder, globalns=globalns, localns=localns, include_extras=True)["it"]


def _locals_around(fn: Any) -> dict[str, Any]:
    """The local names of the running functions that the handler is nested in."""
    parts = fn.__qualname__.split(".<locals>.")
    enclosing = {".<locals>.".join(parts[:depth]) for depth in range(1, len(parts))}
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    while enclosing and frame is not None:
        if frame.f_globals is fn.__globals__ and frame.f_code.co_qualname in enclosing:
            enclosing.remove(frame.f_code.co_qualname)
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _names(given: type, text: str) -> bool:
    parts = [part.partition("[")[0].strip().rpartition(".")[2] for part in text.strip("'\"").split("|")]
    return given.__name__ in parts


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _with_zones(annotation: Any) -> Any:
    """The annotation with every plain datetime requiring a time zone."""
    if annotation is datetime:
        return _ZONED
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if not arguments or origin in (Annotated, typing.Literal) or not all(map(_is_type, arguments)):
        return annotation
    changed = tuple(map(_with_zones, arguments))
    if changed == arguments:
        return annotation
    if _is_union(annotation):
        return Union[changed]  # noqa: UP007 - a tuple of types
    return origin[changed] if origin is not None else annotation


def _is_type(argument: Any) -> bool:
    return not isinstance(argument, list)  # as in Callable[[int], str]


def _customs(info: Any, seen: set[int]) -> Iterator[Any]:
    """The classes inside a type that msgspec leaves to a decoding hook."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        yield info.cls
    elif isinstance(info, tuple | list):
        for each in info:
            yield from _customs(each, seen)
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in info.__struct_fields__:
            member = getattr(info, name)
            if isinstance(member, tuple | list | msgspec.inspect.Type | msgspec.inspect.Field):
                yield from _customs(member, seen)
