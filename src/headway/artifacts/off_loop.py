"""Runs what blocks beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def in_thread(fn: Callable[..., T], *args: Any) -> T:
    """What `fn` gives or raises, in a daemon thread of its own: an object store that hangs must not keep the process
    from ending, as it would in a thread of asyncio's."""
    loop = asyncio.get_running_loop()
    # a pair and not an exception: a future takes no StopIteration
    ended: asyncio.Future[tuple[T, None] | tuple[None, BaseException]] = loop.create_future()

    def work() -> None:
        end: tuple[T, None] | tuple[None, BaseException]
        try:
            end = (fn(*args), None)
        except BaseException as error:
            end = (None, error)
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            loop.call_soon_threadsafe(say, end)

    def say(end: tuple[T, None] | tuple[None, BaseException]) -> None:
        if not ended.done():
            ended.set_result(end)

    threading.Thread(target=work, name="headway-artifacts", daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return cast(T, value)
