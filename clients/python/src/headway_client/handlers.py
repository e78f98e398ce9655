"""Handlers: the functions that run jobs, and how a payload becomes their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headway_client.annotations import signature_of, type_of
from headway_client.context import Context
from headway_client.convert import check_model, from_json, is_model
from headway_client.errors import ConfigError

START = "start"


@dataclass(frozen=True)
class Handler:
    """A function for a kind, or for one step of a machine."""

    kind: str
    step: str | None
    call: Callable[..., Any]
    is_async: bool
    model: tuple[str, Any] | None  # the parameter that takes the whole payload or state
    names: Mapping[str, Any]  # otherwise: the parameters, with their types
    takes_any: bool
    context: str | None  # the parameter that takes the context

    def arguments(self, ctx: Context) -> dict[str, Any]:
        """Raises `TypeError` or `ValueError` for a payload that does not fit."""
        given = ctx.fields["state"]
        if given is None:
            given = ctx.fields["payload"]
        said: dict[str, Any] = {} if self.context is None else {self.context: ctx}
        if self.model is not None:
            name, kind = self.model
            return said | {name: from_json(given, kind)}
        if not isinstance(given, dict):
            raise TypeError(f"{self.kind} takes arguments by name, and its payload is not an object")
        values = {name: from_json(value, self.names.get(name, Any)) for name, value in given.items()}
        if not self.takes_any:
            signature_of(self.call).bind(**said, **values)
        return said | values


def handler(kind: str, step: str | None, call: Callable[..., Any]) -> Handler:
    """Raises `ConfigError` for a function whose parameters say nothing about what they take."""
    model: tuple[str, Any] | None = None
    context: str | None = None
    names: dict[str, Any] = {}
    takes_any = False
    for parameter in signature_of(call).parameters.values():
        hint = Context if parameter.name == "ctx" else type_of(call, parameter, kind)
        check_model(hint, kind)
        if parameter.kind is parameter.POSITIONAL_ONLY or parameter.kind is parameter.VAR_POSITIONAL:
            raise ConfigError(f"the handler of {kind} is called by names: {parameter} cannot be")
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif hint is Context:
            context = parameter.name
        elif parameter.name in ("payload", "state") or is_model(hint):
            if model is not None:
                raise ConfigError(f"the handler of {kind} takes the payload twice: {model[0]} and {parameter.name}")
            model = (parameter.name, hint)
        else:
            names[parameter.name] = hint
    if model is not None and names:
        # several parameters, one of which is a model of its own: arguments by name
        names[model[0]] = model[1]
        model = None
    return Handler(kind, step, call, inspect.iscoroutinefunction(call), model, names, takes_any, context)
