"""One execution of a job: calls its handler, and turns what that gave or raised into what the server is told."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import traceback
from concurrent.futures import Future
from functools import partial
from typing import Any, get_args

from headway_client.context import Context
from headway_client.convert import to_json
from headway_client.handlers import Handler
from headway_client.outcomes import Cancel, Done, Fatal, Retry, StepOutcome, duration
from headway_client.threads import Ended, Threads

log = logging.getLogger("headway.worker")
_LONGEST_ERROR = 16_000
_OUTCOMES = get_args(StepOutcome)
CANCELED = "canceled"
"""Why a job stops that somebody canceled."""


class Running:
    def __init__(self, ctx: Context, worker_id: str) -> None:
        self.ctx = ctx
        self.worker_id = worker_id
        self.key = (ctx.job_id, ctx.fence)
        self.name = {"id": ctx.job_id, "fence": ctx.fence}
        self.task: asyncio.Task[None] | None = None
        self.thread: Future[Ended] | None = None
        self.stop_reason = ""
        self.dropped = False  # its outcome is not reported any more
        self.keeps_slot = False  # its thread runs on: a thread cannot be ended
        self.ended_at: float | None = None
        self._begun = False
        self._since = time.monotonic()

    def begin(self) -> None:
        """Raises CancelledError if it was stopped before: a task that is canceled before it begins never runs, and
        would not say how it ended."""
        self._begun = True
        if self.dropped or self.stop_reason:
            raise asyncio.CancelledError

    async def call(self, handler: Handler, threads: Threads) -> Any:
        timeout_ms = self.ctx.fields["timeout_ms"]
        try:
            arguments = handler.arguments(self.ctx)
        except (TypeError, ValueError) as error:
            raise Fatal(f"the payload does not fit the handler: {error}") from error
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                if handler.is_async:
                    return await handler.call(**arguments)
                inside = partial(contextvars.copy_context().run, partial(handler.call, **arguments))
                self.thread = threads.submit(inside)
                value, raised = await asyncio.wrap_future(self.thread)
        except TimeoutError:
            if timeout_ms is None or time.monotonic() - self._since < timeout_ms / 1_000:
                raise  # the handler's own
            self.ctx.ask_to_stop()
            self._leave_thread()
            raise TimeoutError(f"timed out after {timeout_ms / 1_000:g} s") from None
        except asyncio.CancelledError:
            self._leave_thread()
            raise
        if raised is not None:
            raise raised
        return value

    def end_of(self, value: Any, *, is_step: bool) -> dict[str, Any]:
        """What to report for what the handler returned."""
        self.ended_at = time.monotonic()
        if not is_step:
            if isinstance(value, Done):
                value = value.result
            elif self.stop_reason == CANCELED and (self.thread is None or self.ctx.saw_canceled):
                return {"status": "canceled"}  # an async handler was interrupted, a plain function has looked
            elif self.ctx.gave_way:
                log.info("it returned early, because the worker stops: it is given back")
                self.dropped = True
        if isinstance(value, _OUTCOMES):
            outcome = value.said()
            if self.ctx.signals:
                outcome["signals"] = [signal.id for signal in self.ctx.signals]
            return {"outcome": outcome, "continue": not (self.ctx.must_end or self.ctx.worker_stops)}
        return {"result": to_json(value)}

    def end_of_error(self, error: BaseException) -> dict[str, Any]:
        self.ended_at = time.monotonic()
        if self.stop_reason == CANCELED:
            # it was asked to stop, and that is why it ended, whatever the handler raised then
            return {"status": "canceled", "error": _traceback(error)}
        match error:
            case Cancel():
                log.info("the handler canceled its job", extra={"error": str(error)})
                return {"status": "canceled", "error": str(error) or "the handler canceled its job"}
            case Retry():
                log.info("the handler asked for a retry", extra={"error": str(error)})
                said: dict[str, Any] = {"error": str(error)}
                return said if error.delay is None else said | {"delay": duration(error.delay)}
            case Fatal():
                log.error("the job is dead: another try could not help", extra={"error": str(error)})
                return {"error": str(error) or "the handler gave up", "retry": False}
            case TimeoutError() if str(error).startswith("timed out after"):
                log.warning(str(error))
                return {"status": "timeout", "error": str(error)}
        log.warning("attempt failed", exc_info=error)
        return {"error": _traceback(error)}

    def end_of_stop(self) -> dict[str, Any]:
        """It was asked to stop, and did."""
        self.ended_at = time.monotonic()
        if self.stop_reason == CANCELED:
            return {"status": "canceled"}
        return {"error": self.stop_reason or "the worker stopped before it ended", "delay": 0}

    def stop(self, reason: str) -> None:
        """An async handler gets CancelledError, a plain function sees `ctx.canceled`."""
        self.stop_reason = reason
        self.ctx.ask_to_stop()
        if self.thread is None and self._begun and self.task is not None:
            self.task.cancel()

    def drop(self) -> None:
        self.dropped = True
        self.ctx.ask_to_stop()
        if self._begun and self.task is not None and self.ended_at is None:
            self.task.cancel()

    def _leave_thread(self) -> None:
        if self.thread is not None and not self.thread.done() and not self.thread.cancel():
            self.keeps_slot = True
            if not self.ctx.worker_stops:  # it has a last moment then
                log.warning("its thread runs on and keeps its slot: a thread cannot be ended")


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_LONGEST_ERROR:]
