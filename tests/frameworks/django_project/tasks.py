"""The project's tasks, found by their module's name."""

from __future__ import annotations

from typing import Any

from django.db import connections

from tests.frameworks.django_project.framework import TaskContext, task

USED: list[Any] = []
"""Whether Django's connection was open when a task began, and what a task did."""


class Broken(Exception):
    """Raised by a task."""


@task
def add(a: int, b: int = 0) -> int:
    connection = connections["work"]
    USED.append(connection.connection is not None)
    with connection.cursor() as cursor:
        cursor.execute("select 1")
    return a + b


@task(queue_name="mail", priority=10)
async def add_later(a: int, b: int = 0) -> int:
    return a + b


@task(takes_context=True)
def attempts(context: TaskContext, until: int) -> tuple[str, int]:
    if context.attempt < until:
        raise Broken(f"attempt {context.attempt}")
    return context.task_result.id, context.attempt


@task(backend="stubborn")
def text(much: int) -> str:
    return "x" * much


@task
def stops() -> None:
    raise SystemExit("enough")


@task
def breaks(builtin: bool) -> None:
    raise (ValueError if builtin else Broken)("on purpose")


@task
def gives_what_json_has_not() -> object:
    return object()
