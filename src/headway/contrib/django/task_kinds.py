"""Django's tasks as kinds: each function is a kind of its own, named by its path, run by the worker."""

from __future__ import annotations

import inspect
from datetime import datetime
from typing import Any

from django.utils import timezone

from headway.contrib.django.application import DjangoHeadway
from headway.contrib.django.framework import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from headway.contrib.django.results import traceback_of
from headway.define import Context
from headway.worker.error_text import error_text

TASKS: dict[str, Task[Any, Any]] = {}
"""The tasks of the modules that are imported, by path."""


def define(task: Task[Any, Any], app: DjangoHeadway, *, spill: bool) -> None:
    """Make a kind of the task, unless its function has one."""
    path = task.module_path
    if path in TASKS:
        if TASKS[path].func is not task.func:  # its module was imported again
            TASKS[path] = task
        return
    TASKS[path] = task
    runs = _arun if inspect.iscoroutinefunction(task.func) else _run
    app.job(name=path, queue=task.queue_name, spill=spill)(runs)


def _run(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
    running = _Running(ctx, args, kwargs)
    try:
        return running.succeeded(running.task.func(*running.args, **kwargs))
    except (Exception, SystemExit) as error:
        running.failed(error)
        raise


async def _arun(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
    running = _Running(ctx, args, kwargs)
    try:
        return running.succeeded(await running.task.func(*running.args, **kwargs))
    except (Exception, SystemExit) as error:
        running.failed(error)
        raise


class _Running:
    """One execution, as Django's signals and contexts show it."""

    def __init__(self, ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._ctx = ctx
        self.task = TASKS[ctx.kind]
        now = timezone.now()
        self._result: TaskResult[Any] = TaskResult(
            task=self.task,
            id=ctx.job_id,
            status=TaskResultStatus.RUNNING,
            enqueued_at=None,
            started_at=now,
            finished_at=None,
            last_attempted_at=now,
            args=args,
            kwargs=kwargs,
            backend=ctx.meta.get("backend", self.task.backend),
            errors=[],
            # only their number is known here: it is what context.attempt says
            worker_ids=[str(ctx.worker_id)] * ctx.attempt,
        )
        self.args = [TaskContext(task_result=self._result), *args] if self.task.takes_context else args
        task_started.send(type(self.task.get_backend()), task_result=self._result)

    def succeeded(self, value: Any) -> Any:
        value = normalize_json(value)
        object.__setattr__(self._result, "_return_value", value)
        self._finished(TaskResultStatus.SUCCESSFUL, timezone.now())
        return value

    def failed(self, error: BaseException) -> None:
        """Tell of it, unless it will be tried again."""
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        self._result.errors.append(TaskError(exception_class_path=path, traceback=traceback_of(error_text(error))))
        if self._ctx.tries + 1 >= self._ctx.claim.max_attempts:
            self._finished(TaskResultStatus.FAILED, timezone.now())

    def _finished(self, status: TaskResultStatus, now: datetime) -> None:
        object.__setattr__(self._result, "status", status)
        object.__setattr__(self._result, "finished_at", now)
        task_finished.send(type(self.task.get_backend()), task_result=self._result)
