"""The application's startup and shutdown functions: before the first claim, after the last job."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headway.errors import HeadwayError
from headway.logs import get_logger

log = get_logger("headway.worker")

Lifespan = Callable[[], Any]


async def start_up(fn: Lifespan) -> None:
    """Call it, plain or async; an error stops the worker before it claims anything."""
    try:
        answer = fn()
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        raise HeadwayError(
            f"startup function {_name(fn)} raised {type(error).__name__}: {error}: no job was claimed"
        ) from error


async def shut_down(fn: Lifespan) -> None:
    """Call it, plain or async; an error is logged, and the other shutdown functions still run."""
    try:
        answer = fn()
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        log.error(f"shutdown function {_name(fn)} failed", exc_info=error)


def _name(fn: Lifespan) -> str:
    return getattr(fn, "__qualname__", repr(fn))
