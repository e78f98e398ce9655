"""Runs Django's own tests of its task backends, from its source archive, against Headway's, by hand:

    pip download --no-deps --no-binary :all: 'django>=6' && tar xzf django-*.tar.gz
    python -m tests.frameworks.django_own django-*/tests

Django has two backends of its own: one stores tasks and never runs them, the other runs them at once. Headway's stands
in for both: for the second, a worker runs each task as soon as it is enqueued.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from threading import Thread
from typing import Any

import django
from django.conf import settings

DATABASE: dict[str, Any] = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": "own.sqlite3",
    "TEST": {"NAME": "own.sqlite3"},
}
if url := os.environ.get("HEADWAY_URL_OF_TESTS"):
    from psycopg.conninfo import conninfo_to_dict

    words = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    parts = conninfo_to_dict(url)
    DATABASE = {"ENGINE": "django.db.backends.postgresql", **{ours: parts.get(its, "") for ours, its in words.items()}}

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # some of the tests read results in async code

settings.configure(
    SECRET_KEY="only for these tests",
    USE_TZ=True,
    DATABASES={"default": DATABASE},
    INSTALLED_APPS=["headway.contrib.django"],
    TASKS={"default": {"BACKEND": "headway.contrib.django.HeadwayBackend", "QUEUES": []}},
    HEADWAY={"pace": "1h", "idle_pace": "1h"},
)
django.setup()

from django.tasks.backends import dummy, immediate  # noqa: E402
from django.test import SimpleTestCase  # noqa: E402
from django.test.runner import DiscoverRunner  # noqa: E402

from headway.contrib.django import HeadwayBackend, app  # noqa: E402
from headway.testing import drain  # noqa: E402


class Stores(HeadwayBackend):
    """In place of `DummyBackend`: its `results` and `clear` are for tests."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._ids: list[str] = []

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        self._ids.append(result.id)
        return result

    @property
    def results(self) -> list[Any]:
        return list(map(self.get_result, self._ids))

    def clear(self) -> None:
        while self._ids:
            app.cancel(self._ids[-1])
            app.delete(self._ids.pop())


class RunsAtOnce(HeadwayBackend):
    """In place of `ImmediateBackend`."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        worker = Thread(target=drain, args=(app,))
        worker.start()
        worker.join()
        return self.get_result(result.id)


class Tests(DiscoverRunner):  # type: ignore[misc]
    def build_suite(self, *args: Any, **kwargs: Any) -> Any:
        suite = super().build_suite(*args, **kwargs)
        for case in suite:
            if why := NOT_OURS.get(case.id().partition("_backend.")[2]):
                setattr(case, case._testMethodName, partial(case.skipTest, why))
        return suite

    def teardown_databases(self, *args: Any, **kwargs: Any) -> None:
        """Leave it to the next run, which makes it anew: threads of Django's still have it open."""
        app.close()


_HAS_IT = "says that the backend cannot do what Headway's can"
_WAITS = "Headway's tasks do wait: workers see them when the transaction has committed"
NOT_OURS = {
    "ImmediateBackendTestCase.test_cannot_get_result": _HAS_IT,
    "ImmediateBackendTestCase.test_cannot_refresh_result": _HAS_IT,
    "ImmediateBackendTestCase.test_cannot_pass_run_after": _HAS_IT,
    "DummyBackendTestCase.test_refresh_result": "changes the object that DummyBackend has in memory",
    "DummyBackendTestCase.test_refresh_result_async": "changes the object that DummyBackend has in memory",
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": "the task runs in another process than its caller",
    "ImmediateBackendTransactionTestCase.test_doesnt_wait_until_transaction_commit_by_default": _WAITS,
}

FILES = ("tasks", "dummy_backend", "immediate_backend")  # the others of the folder have backends of their own
if __name__ == "__main__":
    dummy.DummyBackend, immediate.ImmediateBackend = Stores, RunsAtOnce  # the tests name them by path, too
    SimpleTestCase.databases = {"default"}
    sys.path.insert(0, sys.argv[1])
    sys.exit(bool(Tests(interactive=False).run_tests([f"tasks.test_{each}" for each in FILES])))
