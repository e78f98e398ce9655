"""Notices that the server in which the API is mounted has been told to stop."""

from __future__ import annotations

import asyncio
import signal

_EVERY_S = 0.5


async def host_stops() -> None:
    """Returns once uvicorn, in this process, has had its signal.

    It tells applications only after the last connection has closed, which an open stream would put off for ever. Its
    signal handler is a method of the server, though, and can be asked. Other servers end streams by themselves, or
    cannot be seen: then this never returns.
    """
    while True:
        await asyncio.sleep(_EVERY_S)
        if _has_had_its_signal():
            return


def _has_had_its_signal() -> bool:
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", None) is True
