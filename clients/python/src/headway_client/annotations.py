"""What the user's functions and classes are annotated with; only type checkers can evaluate some of it."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from headway_client.context import Context
from headway_client.errors import ConfigError

_HOW = "import its names at module level, not under TYPE_CHECKING"


def signature_of(call: Callable[..., Any]) -> inspect.Signature:
    """The function's signature; on Python 3.14 without evaluating annotations that only type checkers can evaluate."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(call, annotation_format=Format.FORWARDREF)
    return inspect.signature(call)


def type_of(call: Callable[..., Any], parameter: inspect.Parameter, kind: str) -> Any:
    """The type of the parameter: Any without one, `Context` for the context. Raises `ConfigError` if nobody knows."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return Any
    inner = inspect.unwrap(getattr(call, "func", call))
    inner = getattr(inner, "__func__", inner)
    if not hasattr(inner, "__globals__"):
        inner = type(inner).__call__  # a callable object
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        found = typing.get_type_hints(holder, globalns=inner.__globals__)["it"]
    except Exception as error:
        text = getattr(annotation, "__forward_arg__", annotation)
        if isinstance(text, str) and text.strip("'\"").rpartition(".")[2] == "Context":
            return Context  # imported for type checkers only
        raise ConfigError(
            f"the handler of {kind}: the annotation {text!r} of {parameter.name} cannot be evaluated "
            f"({type(error).__name__}: {error}): {_HOW}"
        ) from error
    return found


def fields_of(kind: Any) -> dict[str, Any]:
    """The types of a class's fields; raises `TypeError` where nobody knows."""
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        raise TypeError(f"an annotation of {kind.__name__} cannot be evaluated ({error}): {_HOW}") from error
