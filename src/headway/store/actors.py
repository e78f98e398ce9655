"""Checks the actor of every verb that takes one, in one place for both stores."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import msgspec

from headway.model.actor import Caller, check_actor
from headway.store.ops import Op, Statement, Steps

C = TypeVar("C", bound=type)


def checks_actors(ops: C) -> C:
    """Make each verb that has an `actor` refuse one that the audit cannot store, before anything is sent. Where `ops`
    has an `origin`, the statement that tells the database about a request, verbs of a caller over HTTP begin with it.
    """
    for name, verb in inspect.getmembers(ops, inspect.isfunction):
        if not name.startswith("_") and "actor" in inspect.signature(verb).parameters:
            setattr(ops, name, _checked(verb, getattr(ops, "origin", None)))
    return ops


def _checked(verb: Callable[..., Any], origin: str | None) -> Callable[..., Any]:
    @wraps(verb)
    def checked(*args: Any, actor: str | None = None, **options: Any) -> Any:
        op = verb(*args, actor=check_actor(actor), **options)
        return _from(actor, op, origin) if origin is not None and isinstance(actor, Caller) else op

    return checked


def _from(caller: Caller, op: Op[Any], origin: str) -> Op[Any]:
    def steps() -> Steps[Any]:
        yield Statement(origin, (caller.request_id, caller.address, caller.called or ""))
        return (yield from op.steps())

    return msgspec.structs.replace(op, steps=steps, atomic=True)
