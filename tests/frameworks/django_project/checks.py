"""The contract of a backend of Django Tasks, as Django documents it, and what Headway adds. Run by test_django.py."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import django
import pytest

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.frameworks.django_project.settings"
django.setup()

from asgiref.sync import sync_to_async  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.checks import run_checks  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections, transaction  # noqa: E402
from django.test import Client, override_settings  # noqa: E402

from headway.contrib.django import app  # noqa: E402
from headway.contrib.django.application import database_url  # noqa: E402
from headway.testing import drain  # noqa: E402
from tests.frameworks.django_project import more, tasks  # noqa: E402
from tests.frameworks.django_project.framework import (  # noqa: E402
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    default_task_backend,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
SUCCESSFUL, FAILED = TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED


@pytest.fixture(scope="module", autouse=True)
def _schema() -> Any:
    for alias, says in (("default", False), ("work", True), ("work", False)):
        out = StringIO()
        call_command("migrate", database=alias, run_syncdb=True, stdout=out)
        assert ("Headway: migrate up to version 1" in out.getvalue()) is says, (alias, out.getvalue())
    assert not run_checks()
    yield
    app.close()
    connections.close_all()


def test_a_task_is_enqueued_run_and_its_result_read() -> None:
    began = datetime.now(UTC) - timedelta(minutes=1)
    result = tasks.add.enqueue(1, b=2)
    assert (result.status, result.args, result.kwargs, result.backend) == (READY, [1], {"b": 2}, "default")
    assert (result.errors, result.worker_ids, result.attempts, result.is_finished) == ([], [], 0, False)
    assert default_task_backend.get_result(result.id) == result
    with pytest.raises(ValueError, match="has not finished"):
        _ = result.return_value
    job = app.get(result.id)
    assert (job.kind, job.queue, job.priority, job.max_attempts) == (tasks.__name__ + ".add", "default", 100, 1)
    assert drain(app).succeeded == 1
    result.refresh()
    assert (result.status, result.return_value, result.attempts, result.errors) == (SUCCESSFUL, 3, 1, [])
    found = tasks.add.get_result(result.id)
    assert (found.task, found.id, found.args, found.return_value) == (tasks.add, result.id, [1], 3)
    times = (found.enqueued_at, found.started_at, found.last_attempted_at, found.finished_at)
    assert began < times[0] <= times[1] == times[2] <= times[3]
    with pytest.raises(TaskResultMismatch):
        tasks.breaks.get_result(result.id)


def test_an_async_task_and_the_async_verbs() -> None:
    async def story() -> None:
        result = await tasks.add_later.aenqueue(4, b=5)
        await app.arun(until_idle=True)
        found = await tasks.add_later.aget_result(result.id)
        assert (found.return_value, found.task.queue_name, found.task.priority) == (9, "mail", 10)
        await result.arefresh()
        assert result.status == SUCCESSFUL
        await app.aclose()
        await sync_to_async(connections.close_all)()

    asyncio.run(story())


def test_priorities_queues_and_times_are_the_jobs_own() -> None:
    later = datetime.now(UTC) + timedelta(hours=3)
    low, high = tasks.add.using(priority=-100).enqueue(1), tasks.add.using(priority=100).enqueue(2)
    put_off = tasks.add.using(run_after=later, queue_name="mail").enqueue(3)
    assert [app.get(each.id).priority for each in (low, high)] == [200, 0]
    job = app.get(put_off.id)
    assert (job.status, job.scheduled_for, job.queue) == ("scheduled", later, "mail")
    found = tasks.add.get_result(put_off.id)
    assert (found.status, found.task.run_after, found.task.queue_name) == (READY, later, "mail")
    assert drain(app).succeeded == 2
    started = {each.id: tasks.add.get_result(each.id).started_at for each in (low, high)}
    assert started[high.id] <= started[low.id]
    app.cancel(put_off.id)
    put_off.refresh()
    assert (put_off.status, put_off.is_finished) == (FAILED, True)
    for wrong in (
        {"priority": 101},
        {"priority": 1.5},
        {"queue_name": "elsewhere"},
        {"run_after": datetime(2031, 1, 1)},  # noqa: DTZ001
    ):
        with pytest.raises(InvalidTask):
            tasks.add.using(**wrong)
    backend = default_task_backend
    assert all(
        (backend.supports_defer, backend.supports_priority, backend.supports_async_task, backend.supports_get_result)
    )


def test_a_task_that_raises_has_failed_and_says_why() -> None:
    told: list[Any] = []

    def tell(task_result: Any, **_: Any) -> None:
        told.append((task_result.id, task_result.errors[0].traceback.splitlines()[-1]))

    ours, builtin, unfit, stopped = (
        tasks.breaks.enqueue(False),
        tasks.breaks.enqueue(builtin=True),
        tasks.gives_what_json_has_not.enqueue(),
        tasks.stops.enqueue(),
    )
    task_finished.connect(tell)
    assert drain(app).dead == 4
    task_finished.disconnect(tell)
    for result, error in ((ours, tasks.Broken), (builtin, ValueError), (unfit, TypeError), (stopped, SystemExit)):
        result.refresh()
        assert (result.status, [each.exception_class for each in result.errors]) == (FAILED, [error])
        first, *_, last = result.errors[0].traceback.splitlines()
        assert first == "Traceback (most recent call last):"
        assert error.__name__ in last
        assert result.errors[0].traceback.endswith("\n")
        assert (result.id, last) in told
        with pytest.raises(ValueError, match="failed"):
            _ = result.return_value


def test_return_values_are_read_whatever_they_are() -> None:
    results = {much: tasks.text.enqueue(much) for much in (0, 5, 20_000)}
    assert drain(app).succeeded == 3
    for much, result in results.items():  # the last is an artifact
        result.refresh()
        assert result.return_value == "x" * much
    assert len(app.artifacts(results[20_000].id)) == 1


def test_a_task_that_is_there_already_is_the_result() -> None:
    first = tasks.add.using(backend="once").enqueue(1)
    again = tasks.add.using(backend="once").enqueue(7)
    assert (again.id, again.args, again.enqueued_at) == (first.id, [1], first.enqueued_at)
    assert drain(app).succeeded == 1


def test_a_backend_may_try_again_and_the_context_counts() -> None:
    result = tasks.attempts.using(backend="stubborn").enqueue(3)
    drain(app, with_scheduled=True)
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, [result.id, 3], 3)
    assert [error.exception_class for error in result.errors] == [tasks.Broken] * 2
    assert task_backends["stubborn"].get_result(result.id).backend == "stubborn"


def test_an_enqueue_is_part_of_the_transaction() -> None:
    with transaction.atomic(using="work"):
        lost = tasks.add.enqueue(1)
        assert tasks.add.get_result(lost.id).status == READY, "seen from inside"
        transaction.set_rollback(True, using="work")
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(lost.id)
    woken: list[str | None] = []
    app._wake.add(lambda queue, news: woken.append(queue) is None)
    with transaction.atomic(using="work"):
        kept = tasks.add.enqueue(1)
        with transaction.atomic(using="work"):
            inner = tasks.add_later.enqueue(2)
            transaction.set_rollback(True, using="work")
        assert (app.count_jobs(ids=[kept.id]), woken) == (0, []), "not seen from outside, and nobody is woken"
    assert (app.count_jobs(ids=[kept.id]), woken) == (1, ["default"])
    for unknown in (inner.id, str(uuid4()), "no id at all"):
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(unknown)
    assert drain(app).succeeded == 1


def test_arguments_that_json_has_not_are_refused() -> None:
    before = app.count_jobs(status="queued")
    with pytest.raises(TypeError):
        tasks.add.enqueue(object())
    assert tasks.add.enqueue((1, 2), b={"c": (3,)}).args == [[1, 2]]
    assert app.count_jobs(status="queued") == before + 1
    with pytest.raises(ImproperlyConfigured, match=r"'retries': OPTIONS takes .*max_attempts"):
        type(task_backends["default"])("default", {"OPTIONS": {"retries": 3}})
    drain(app)


def test_signals_tell_of_each_task() -> None:
    told: list[tuple[str, str, Any]] = []
    receivers = {
        signal: lambda name=name, **said: told.append((name, said["task_result"].id, said["task_result"].status))
        for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished))
    }
    for signal, receiver in receivers.items():
        signal.connect(receiver, weak=False)
    good, bad = tasks.add.enqueue(1), tasks.breaks.enqueue(True)
    drain(app)
    for signal, receiver in receivers.items():
        signal.disconnect(receiver)
    assert told[:2] == [("enqueued", good.id, READY), ("enqueued", bad.id, READY)]
    assert sorted(told[2:]) == sorted(
        [
            *((name, each.id, status) for each in (good, bad) for name, status in [("started", RUNNING)]),
            ("finished", good.id, SUCCESSFUL),
            ("finished", bad.id, FAILED),
        ]
    )


def test_connections_are_closed_around_each_job() -> None:
    tasks.USED.clear()
    for _ in range(3):
        tasks.add.enqueue(1)
    assert drain(app, concurrency=1).succeeded == 3
    assert tasks.USED == [False] * 3  # CONN_MAX_AGE is 0: none is kept from the job before


def test_the_management_command_is_the_command_line_of_this_project(capsys: Any) -> None:
    job = more.count_jobs.using(conn=app.connection).enqueue()
    call_command("headway", "worker", "--until-idle", "--pace", "25ms")
    assert app.get(job.id).result >= 1
    call_command("headway", "jobs", "show", job.id, "--json")
    assert job.id in capsys.readouterr().out
    with pytest.raises(SystemExit):
        call_command("headway", "jobs", "show", str(uuid4()))
    # jobs of Headway's own are no tasks
    with pytest.raises(TaskResultDoesNotExist, match="not a task"):
        default_task_backend.get_result(job.id)


def test_staff_with_the_permission_follow_the_link_in_the_admin() -> None:
    User.objects.create_superuser("root", password="secret")
    User.objects.create_user("guest", password="secret", is_staff=True)
    for name, sees in (("root", True), ("guest", False)):
        client = Client()
        assert client.login(username=name, password="secret")
        assert ("/admin/headway/work/" in client.get("/admin/").content.decode()) is sees
        answer = client.get("/admin/headway/work/")
        assert (answer.status_code, answer.headers.get("Location")) == (302, "/work/") if sees else (403, None)


def test_a_database_that_headway_cannot_use_is_named() -> None:
    with pytest.raises(ImproperlyConfigured, match="'default' is in memory"):
        database_url("default")
    with (
        override_settings(HEADWAY={"gracee": 1}),
        pytest.raises(ImproperlyConfigured, match=r"HEADWAY in Django's settings: .*gracee"),
    ):
        type(app)()
