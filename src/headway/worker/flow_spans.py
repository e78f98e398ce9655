"""The spans of a flow's operations, below the span of the execution that carried them out, where traces are on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from headway.define.flow_run import Failed, Internal, Operation
from headway.model.journal import Entry
from headway.model.outcome import Snooze
from headway.worker.error_text import shown_message, storable
from headway.worker.spans import tell

if TYPE_CHECKING:
    from headway.telemetry.tracing import Tracing


class FlowSpans:
    """Each try of a step has its span; what a flow waits for has one from when this execution asked for it. An
    answer that is read from the journal has none: it had one when it came."""

    def __init__(self, tracing: Tracing | None) -> None:
        self._tracing = tracing
        self._asked: dict[str, int] = {}

    def begin_step(self, operation: Operation) -> Any:
        """The span, current for the rest of this task, in which the step is tried."""
        if self._tracing is None:
            return None
        kind = operation.what.verb if isinstance(operation.what, Internal) else "step"
        try:
            span = self._tracing.operation(kind, operation.place)
            self._tracing.make_current(span)
        except Exception as error:
            tell(error)
            return None
        return span

    def end_step(self, span: Any, error: BaseException | None) -> None:
        if self._tracing is None or span is None:
            return
        failed = None if isinstance(error, Snooze) else error
        kind, text = (None, None) if failed is None else (type(failed).__name__, storable(shown_message(str(failed))))
        try:
            self._tracing.end_operation(span, error=text, error_type=kind)
        except Exception as fault:
            tell(fault)

    def asked(self, place: str) -> None:
        """The function begins to wait."""
        if self._tracing is not None:
            self._asked[place] = time.time_ns()

    def answered(self, operation: Operation, entry: Entry) -> None:
        """What it waited for has come."""
        if self._tracing is None or operation.kind == "step":
            return
        failed = msgspec.json.decode(entry.value or "{}", type=Failed).kind if entry.kind == "failed" else None
        began_ns = self._asked.pop(operation.place, None)
        try:
            span = self._tracing.operation(operation.kind, operation.place, began_ns=began_ns)
            self._tracing.end_operation(span, error=entry.error, error_type=failed)
        except Exception as error:
            tell(error)
