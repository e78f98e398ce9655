"""A backend of Django Tasks: an enqueue is a job in Django's own transaction, a result is read from the job."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from headway.contrib.django.application import the_app
from headway.contrib.django.framework import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from headway.contrib.django.results import result_of
from headway.contrib.django.task_kinds import TASKS, define
from headway.define.option_types import UsingOptions
from headway.errors import InvalidJob, NotFound
from headway.model.spill import is_reference

_OURS = frozenset({"queue", "priority", "scheduled_for", "delay", "conn", "meta"})  # Django has its own words for them
_TOP_PRIORITY = 100
"""Django's highest, which becomes 0 here: Django runs larger numbers first, Headway smaller ones."""


class HeadwayBackend(BaseTaskBackend):
    """`TASKS = {"default": {"BACKEND": "headway.contrib.django.HeadwayBackend"}}`.

    OPTIONS are options of `using()` for all its tasks: `{"max_attempts": 5, "timeout": "1m"}`. Without max_attempts a
    task that raises has failed, as Django's own backends have it. `"spill": True` lets large return values become
    artifacts; it is the option of the tasks that are defined for this backend, whichever they are enqueued by.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._using = {name: value for name, value in self.options.items() if name != "spill"}
        known = set(UsingOptions.__annotations__) - _OURS
        if unknown := sorted(set(self._using) - known):
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}] has the option {unknown[0]!r}: OPTIONS takes {', '.join(sorted({*known, 'spill'}))}"
            )

    def validate_task(self, task: Task[Any, Any]) -> None:
        """As Django checks it. Every task comes here when it is defined, which makes it a kind that workers run."""
        super().validate_task(task)
        define(task, the_app(), spill=bool(self.options.get("spill")))

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Store a job in the transaction that Django's connection is in; outside of one, it is stored at once."""
        self.validate_task(task)
        app = the_app()
        kind = app.kinds[task.module_path].using(
            **{"max_attempts": 1, **self._using},
            queue=task.queue_name,
            priority=_TOP_PRIORITY - task.priority,
            scheduled_for=task.run_after and _aware(task.run_after),
            meta={"backend": self.alias},
        )
        result: TaskResult[Any] = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        # it has turned them into JSON by now, or refused them
        job = app.enqueue(kind.build(args=result.args, kwargs=result.kwargs), conn=app.connection)
        if not job.created:  # a unique key of OPTIONS, which another job has
            return self.get_result(job.id)
        object.__setattr__(result, "id", job.id)
        # as get_result will say it: the time of the database
        object.__setattr__(result, "enqueued_at", app._run(app._get(job.id), app.connection).created_at)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """The job as a result; a job that this transaction enqueued is found, too."""
        app = the_app()
        try:
            job = app._run(app._get(result_id, raw=True), app.connection)
        except (NotFound, InvalidJob) as error:
            raise TaskResultDoesNotExist(result_id) from error
        attempts = app._run(app._attempts(result_id, raw=True), app.connection)
        task = _task_of(job.kind)
        if task is None:
            raise TaskResultDoesNotExist(f"job {result_id} is of kind {job.kind}, which is not a task")
        if is_reference(job.result):
            outcome = app._with_value(app._run(app._peek(job.id, raw=False), app.connection))
            job = msgspec.structs.replace(job, result=outcome.value)
        return result_of(job, attempts, task, top_priority=_TOP_PRIORITY)


def _task_of(path: str) -> Task[Any, Any] | None:
    if path not in TASKS and "." in path:
        import_module(path.rpartition(".")[0])
    return TASKS.get(path)


def _aware(moment: Any) -> Any:
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)
