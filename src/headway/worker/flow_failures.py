"""What ended a flow's function: which operation failed, and how that is told."""

from __future__ import annotations

from headway.errors import ChildFailed, StepFailed
from headway.worker.error_text import TRACE_AFTER, error_text


def text_of(error: BaseException) -> str:
    """For a failed step with where that raised: where the flow waited for it tells less."""
    text = error_text(error)
    if not isinstance(error, StepFailed) or not error.trace:
        return text
    return f"{text.partition(TRACE_AFTER)[0]}{TRACE_AFTER}{error.trace}"


def failed_operation(error: BaseException | None) -> int | None:
    """The number of the answer that ended the function, where that was an operation's failure."""
    if isinstance(error, StepFailed | ChildFailed):
        return error.seq or None
    if isinstance(error, BaseExceptionGroup):
        found = [failed_operation(each) for each in error.exceptions]
        numbers = [number for number in found if number is not None]
        return min(numbers) if len(numbers) == len(found) else None
    return None
