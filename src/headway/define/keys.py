"""Keys that a kind makes from its jobs' arguments: by a template like "dest_{dest_id}", or by a function."""

from __future__ import annotations

import difflib
import inspect
import string
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any
from uuid import UUID

from headway.define.annotations import signature_of
from headway.errors import InvalidJob
from headway.model.codec import check_text

Key = str | int | UUID | None
KeyOf = Key | Callable[..., Key]
Source = str | Callable[..., Any]

KEYS = ("train", "partition", "concurrency_key", "rate_key")
LIMIT = 255

_P = inspect.Parameter
_TYPES = "str, int or UUID"


def literal(value: object, option: str) -> str | None:
    """A literal key as text, or None for no key."""
    if isinstance(value, Enum):
        value = value.value
    match value:
        case None:
            return None
        case str():
            return check_text(value, option, limit=LIMIT)
        case UUID() | int() if not isinstance(value, bool):
            return str(value)
    raise InvalidJob(f"{option}={value!r} is {type(value).__name__}, which is no key: give {_TYPES}, or None for none")


def source(value: object) -> Source | None:
    """The template or function that makes the key; None if the option is a literal key."""
    if isinstance(value, str):
        return value if "{" in value or "}" in value else None
    return value if callable(value) else None


class KeyMaker:
    """Makes one option's key for each job of a kind; checked at definition."""

    __slots__ = ("_kind", "_make", "option")

    def __init__(self, option: str, source: Source, *, kind: str, names: Collection[str], open_ended: bool) -> None:
        """`names` are the parameters of the kind's function; `open_ended`: it takes others too (**kwargs)."""
        self.option = option
        self._kind = kind
        fault = f"{kind}: {option}={_shown(source)}"
        if isinstance(source, str):
            self._make = _template(source, fault, names, open_ended)
        else:
            self._make = _function(source, fault, names, open_ended)

    def make(self, values: Mapping[str, Any]) -> str | None:
        """The key of a job with these arguments; raises `InvalidJob` naming the kind and the option."""
        made = self._make(values)
        try:
            return literal(made, self.option)
        except InvalidJob as error:
            raise InvalidJob(f"{self._kind}: {error}") from None


def _template(text: str, fault: str, names: Collection[str], open_ended: bool) -> Callable[[Mapping[str, Any]], Key]:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise InvalidJob(f"{fault} is not a template ({error}): write {{{{ and }}}} for plain braces") from None
    for _, field, spec, conversion in parts:
        if field is None:
            continue
        if not field.isidentifier() or spec or conversion:
            raise InvalidJob(
                f"{fault}: {{{field or ''}}} is not the name of a parameter, and a template takes nothing else: "
                "give a function of the arguments instead"
            )
        if field not in names and not open_ended:
            raise InvalidJob(f"{fault} names {field}, which is not a parameter{_hint(field, names)}")

    def make(values: Mapping[str, Any]) -> str:
        return "".join(before + ("" if field is None else _part(values, field, fault)) for before, field, _, _ in parts)

    return make


def _part(values: Mapping[str, Any], field: str, fault: str) -> str:
    value = values.get(field)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str | int | UUID) and not isinstance(value, bool):
        return str(value)
    got = "None" if value is None else type(value).__name__
    raise InvalidJob(
        f"{fault}: the argument {field} is {got}, which makes no key (only {_TYPES} do): "
        "give a function of the arguments, which may return None for no key"
    )


def _function(
    fn: Callable[..., Any], fault: str, names: Collection[str], open_ended: bool
) -> Callable[[Mapping[str, Any]], Key]:
    try:
        parameters = list(signature_of(fn).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidJob(f"{fault} has no signature to read ({error}): wrap it in a function") from error
    if inspect.iscoroutinefunction(fn):
        raise InvalidJob(f"{fault} is async, and a key is made before anything is awaited: make it a plain def")
    wanted: list[str] = []
    takes_all = False
    for parameter in parameters:
        match parameter.kind:
            case _P.VAR_KEYWORD:
                takes_all = True
            case _P.VAR_POSITIONAL | _P.POSITIONAL_ONLY:
                raise InvalidJob(f"{fault}: it gets arguments by name, so {parameter.name} cannot go by position")
            case _ if parameter.name in names or open_ended:
                wanted.append(parameter.name)
            case _ if parameter.default is _P.empty:
                raise InvalidJob(
                    f"{fault} asks for {parameter.name}, which is not a parameter{_hint(parameter.name, names)}"
                )

    def make(values: Mapping[str, Any]) -> Key:
        given = values if takes_all else {name: values[name] for name in wanted if name in values}
        try:
            made: Key = fn(**given)
        except Exception as error:
            raise InvalidJob(
                f"{fault} raised {type(error).__name__}: {error}: nothing was enqueued; correct the function, "
                "or let it return None for no key"
            ) from error
        return made

    return make


def _shown(source: Source) -> str:
    return repr(source) if isinstance(source, str) else getattr(source, "__qualname__", repr(source))


def _hint(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f": did you mean {close[0]}?"
    return f": it takes {', '.join(names)}" if names else ": it takes none"
