"""A library of tomorrow: its schema has a version more than ours, or more steps of the same version."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.store import migrate
from headway.store.postgres import store as postgres_store
from headway.store.postgres.engine import catalogue as postgres_catalogue
from headway.store.postgres.engine import migrate as postgres_migrate
from headway.store.sqlite.engine import catalogue as sqlite_catalogue
from headway.store.sqlite.engine import migrate as sqlite_migrate
from headway.store.steps import read_steps

NEXT = 20


def add_version(
    patch: pytest.MonkeyPatch, folder: Path, dialect: str, scripts: Mapping[str, str], version: int = NEXT
) -> None:
    """Let this process have the steps, given as the texts of files of the version's folder."""
    named = f"{version:04}"
    if dialect == "sqlite":
        shutil.copytree(sqlite_migrate._FOLDER, folder, dirs_exist_ok=True)
        _write(folder / named, scripts)
        _patch(patch, sqlite_migrate, _FOLDER=folder, _STEPS=read_steps(folder), VERSION=version)
        patch.setattr(sqlite_catalogue, "_FOLDER", folder)
    else:
        shutil.copytree(str(postgres_migrate._FOLDER), folder, dirs_exist_ok=True)
        _write(folder / "engine/migrations" / named, scripts)
        steps = read_steps(folder / "engine/migrations")
        _patch(patch, postgres_migrate, _FOLDER=folder, _STEPS=steps, VERSION=version)
        patch.setattr(postgres_store, "VERSION", version)
        patch.setattr(postgres_catalogue, "_FOLDER", folder)
        patch.setattr(postgres_migrate, "script", postgres_catalogue.script.__wrapped__)
        patch.setattr(postgres_catalogue, "script", postgres_catalogue.script.__wrapped__)


def _patch(patch: pytest.MonkeyPatch, module: ModuleType, **values: Any) -> None:
    for name, value in values.items():
        patch.setattr(module, name, value)


def _write(folder: Path, scripts: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(text)


def ended_by_itself(db: Any, statements: int) -> bool:
    """Migrate in a process that is killed before its n-th statement, if it has so many."""
    if (pid := os.fork()) == 0:
        left = [statements]

        def count(request: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return request

        try:
            for module in (sqlite_migrate, postgres_migrate):
                whole = module.Statement
                module.Statement = lambda *args, whole=whole: count(whole(*args))  # type: ignore[attr-defined]
            migrate.apply(db.store)
            os._exit(0)
        finally:
            os._exit(9)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL)
    return status == 0
