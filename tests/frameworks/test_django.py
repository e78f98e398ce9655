"""Headway in a Django project, on each store: the checks need a process in which Django's settings are their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKS = Path(__file__).parent / "django_project" / "checks.py"


def test_a_django_project_works_with_headway(tmp_path: Path, postgres_url: str) -> None:
    own = {"SHOP_ARTIFACTS": str(tmp_path / "artifacts"), "HEADWAY_URL": "", "PYTEST_ADDOPTS": ""}
    # both at a time: each mostly waits
    running = {
        database: subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CHECKS)],
            env=os.environ | own | {"SHOP_DATABASE": database},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for database in (str(tmp_path / "shop.sqlite3"), postgres_url)
    }
    for database, process in running.items():
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, f"{database}\n{output}"
