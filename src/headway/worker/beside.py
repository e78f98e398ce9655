"""Runs a worker beside other work, in an event loop that somebody else runs: a web server's, for instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.logs import get_logger
from headway.worker.summary import Summary
from headway.worker.worker import Worker

log = get_logger("headway.worker")


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Worker]:
    """Run the worker while the block runs. The block begins when the worker claims; at its end the worker claims no
    more, and its jobs have the grace period to finish.

    No signal handler is set. Raises what the worker raises at its start. If the end itself is canceled, the worker ends
    at once: it gives its jobs back first.
    """
    running = asyncio.create_task(worker.run(), name="headway worker")
    started = asyncio.create_task(worker.started.wait())
    try:
        await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        running.add_done_callback(_tell_of_error)
        yield worker
    finally:
        started.cancel()
        await _end(worker, running)


async def _end(worker: Worker, running: asyncio.Task[Summary]) -> None:
    if running.done():
        return
    if not worker.is_stopping:
        worker.stop()
    try:
        # shielded: a cancellation would cut off the worker's own orderly end
        await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.done():
            worker.stop()  # the second time: at once
            await asyncio.wait((running,))
        raise


def _tell_of_error(running: asyncio.Task[Summary]) -> None:
    """At once: the block that would raise it may go on for days."""
    if not running.cancelled() and (error := running.exception()) is not None:
        log.error("the worker beside this application ended: nothing is claimed here any more", exc_info=error)
