"""Checks the actor of every verb that takes one, in one place for both stores."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from headway.model.actor import check_actor

C = TypeVar("C", bound=type)


def checks_actors(ops: C) -> C:
    """Make each verb that has an `actor` refuse one that the audit cannot store, before anything is sent."""
    for name, verb in inspect.getmembers(ops, inspect.isfunction):
        if not name.startswith("_") and "actor" in inspect.signature(verb).parameters:
            setattr(ops, name, _checked(verb))
    return ops


def _checked(verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def checked(*args: Any, actor: str | None, **options: Any) -> Any:
        return verb(*args, actor=check_actor(actor), **options)

    return checked
