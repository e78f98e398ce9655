"""Compiles the tests on all cores before one process collects them.

Pytest rewrites the asserts of a test file when it is first imported, and keeps the outcome beside the file. For all
files that takes a dozen seconds.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent


def compile_on_all_cores(config: pytest.Config) -> None:
    """Import what is not compiled yet, in a child for each core."""
    if config.getoption("--processes") <= 1 or not hasattr(os, "fork"):
        return
    roots = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("test_*.py")))]
    stale = [file for file in files if _TESTS in file.parents and not _is_compiled(file)]
    cores = os.cpu_count() or 1
    children = [_forked(stale[first::cores]) for first in range(min(cores, len(stale)))]
    for child in children:
        os.waitpid(child, 0)


def _is_compiled(file: Path) -> bool:
    written = file.stat().st_mtime
    return any(kept.stat().st_mtime >= written for kept in file.parent.glob(f"__pycache__/{file.stem}.*-pytest-*.pyc"))


def _forked(files: list[Path]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        for file in files:
            # whatever is wrong with it, its test will say
            with suppress(Exception):
                import_module(".".join(file.relative_to(_TESTS.parent).with_suffix("").parts))
    finally:
        os._exit(0)
