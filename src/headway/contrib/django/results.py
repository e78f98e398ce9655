"""A job and its attempts as a Django `TaskResult`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from headway.contrib.django.framework import Task, TaskError, TaskResult, TaskResultStatus
from headway.model.job import Attempt, Job

_STATUS = {
    "running": TaskResultStatus.RUNNING,
    "succeeded": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
    "failed": TaskResultStatus.FAILED,
    "canceled": TaskResultStatus.FAILED,
}
_WITHOUT_EXCEPTION = {"timeout": "builtins.TimeoutError"}
_HEAD = re.compile(r"[A-Za-z_][\w.]*(?=:|\n|\Z)")


def result_of(job: Job, attempts: Sequence[Attempt], task: Task[Any, Any], *, top_priority: int) -> TaskResult[Any]:
    """The result of a job that was read raw, whose task this is; what still waits, for whatever, is ready."""
    payload, meta = _decoded(job.payload), _decoded(job.meta) or {}
    changed = task.using(
        priority=top_priority - job.priority, queue_name=job.queue, backend=meta.get("backend", task.backend)
    )
    if job.scheduled_for is not None and not job.fence:
        changed = changed.using(run_after=job.scheduled_for)
    result: TaskResult[Any] = TaskResult(
        task=changed,
        id=job.id,
        status=_STATUS.get(job.status, TaskResultStatus.READY),
        enqueued_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        last_attempted_at=attempts[-1].started_at if attempts else None,
        args=payload["args"],
        kwargs=payload["kwargs"],
        backend=changed.backend,
        errors=[_error(attempt) for attempt in attempts if attempt.error],
        worker_ids=[str(attempt.worker_id) for attempt in attempts],
    )
    object.__setattr__(result, "_return_value", _decoded(job.result))
    return result


def _decoded(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _error(attempt: Attempt) -> TaskError:
    text = str(attempt.error)
    if attempt.status == "failed" and (head := _HEAD.match(text)):
        path = _path(head[0], text)
    else:
        path = _WITHOUT_EXCEPTION.get(attempt.status, "headway.errors.HeadwayError")
    return TaskError(exception_class_path=path, traceback=traceback_of(text))


def traceback_of(text: str) -> str:
    """The traceback of an error as Headway stores it, as Python prints it: its last line is the error."""
    head, found, rest = text.partition("\n\nTraceback (")
    return f"Traceback ({rest}\n" if found else f"{head}\n"


def _path(name: str, text: str) -> str:
    """The first line has the class's name; the last line of the traceback has its module, unless it is built in."""
    found = re.findall(rf"^((?:\w+\.)*){re.escape(name)}(?:: |$)", text, re.MULTILINE)
    return f"{found[-1] or 'builtins.'}{name}"
