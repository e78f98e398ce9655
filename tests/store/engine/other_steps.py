"""A library whose schema has a version more than ours: version 20, of steps that a test gives."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.store.postgres import store as postgres_store
from headway.store.postgres.engine import catalogue as postgres_catalogue
from headway.store.postgres.engine import migrate as postgres_migrate
from headway.store.sqlite.engine import catalogue as sqlite_catalogue
from headway.store.sqlite.engine import migrate as sqlite_migrate
from headway.store.steps import read_steps

NEXT = 20


def add_version(patch: pytest.MonkeyPatch, folder: Path, dialect: str, scripts: Mapping[str, str]) -> None:
    """Let this process have the steps, given as the texts of files in 0020/."""
    if dialect == "sqlite":
        shutil.copytree(sqlite_migrate._FOLDER, folder, dirs_exist_ok=True)
        _write(folder / "0020", scripts)
        _patch(patch, sqlite_migrate, _FOLDER=folder, _STEPS=read_steps(folder), VERSION=NEXT)
        patch.setattr(sqlite_catalogue, "_FOLDER", folder)
    else:
        shutil.copytree(str(postgres_migrate._FOLDER), folder, dirs_exist_ok=True)
        _write(folder / "engine/migrations/0020", scripts)
        steps = read_steps(folder / "engine/migrations")
        _patch(patch, postgres_migrate, _FOLDER=folder, _STEPS=steps, VERSION=NEXT)
        patch.setattr(postgres_store, "VERSION", NEXT)
        patch.setattr(postgres_catalogue, "_FOLDER", folder)
        patch.setattr(postgres_migrate, "script", postgres_catalogue.script.__wrapped__)
        patch.setattr(postgres_catalogue, "script", postgres_catalogue.script.__wrapped__)


def _patch(patch: pytest.MonkeyPatch, module: ModuleType, **values: Any) -> None:
    for name, value in values.items():
        patch.setattr(module, name, value)


def _write(folder: Path, scripts: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(text)
