"""The async verbs are those that tools/async_twins.py makes of the blocking ones."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.app.groups import GroupHandle

ROOT = Path(__file__).parents[2]
# the one word that cannot have an "a" before it
NAMES = {"wait": "await_"}
# asks nobody, or gives what both colours enter
ONE_COLOUR = {
    "build_event",
    "build_signal",
    "build_job",
    "job_builder",
    "known_definition",
    "configure",
    "include",
    "machine",
    "step",
    "middleware",
    "enqueue_middleware",
    "on",
    "on_shutdown",
    "on_startup",
    "reserve",
    "tenant",
    "working",
    "lifespan",
    "wake",
    "serve_metrics",
}


def test_the_async_verbs_are_generated_from_the_blocking_ones() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "async_twins.py"))["modules"]()
    stale = [path.name for path, text in made.items() if path.read_text("utf-8") != text]
    assert not stale, "run python tools/async_twins.py"
    there = {path.name for path in (ROOT / "src" / "headway" / "app" / "aio").glob("*.py")}
    assert there == {path.name for path in made} | {"__init__.py"}


@pytest.mark.parametrize("kind", [Headway, GroupHandle])
def test_every_verb_has_an_async_twin_with_the_same_parameters(kind: Any) -> None:
    methods = {name: value for name, value in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}
    blocking = {name for name, value in methods.items() if not inspect.iscoroutinefunction(value)} - ONE_COLOUR
    assert len(blocking) >= 4
    for name in blocking:
        twin = methods[NAMES.get(name, f"a{name}")]
        assert inspect.iscoroutinefunction(twin), name
        assert inspect.signature(twin) == inspect.signature(methods[name]), name
        assert twin.__doc__ or not methods[name].__doc__, name
