"""Helpers for test suites of applications that use Headway: on real databases, by the real path.

    from headway.testing import assert_enqueued, drain, on_database

    def test_a_new_user_is_welcomed(headway_url):
        with on_database(app, headway_url):
            sign_up("ada")
            assert_enqueued(app, welcome, payload={"name": "ada"}, queue="mail", count=1)
            assert drain(app).succeeded == 1

pytest finds the fixtures `headway_sqlite_url`, `headway_postgres_url`, `headway_url` (each in turn) and
`headway_app` by itself; importing this module does not import pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.testing.clock import HeldTime, held
    from headway.testing.database import on_database
    from headway.testing.drained import adrain, drain
    from headway.testing.enqueued import all_enqueued, assert_enqueued, refute_enqueued
    from headway.testing.flows import Playing, play, playing, replay
    from headway.testing.inline_mode import inline
    from headway.testing.kept_artifacts import artifacts_of
    from headway.testing.one_step import aperform_step, perform_step, step_context
    from headway.testing.performed import aperform, context, perform
    from headway.testing.stepped import Stepping, stepping

__all__ = [
    "HeldTime",
    "Playing",
    "Stepping",
    "adrain",
    "all_enqueued",
    "aperform",
    "aperform_step",
    "artifacts_of",
    "assert_enqueued",
    "context",
    "drain",
    "held",
    "inline",
    "on_database",
    "perform",
    "perform_step",
    "play",
    "playing",
    "refute_enqueued",
    "replay",
    "step_context",
    "stepping",
]

pytest_plugins = ("headway.testing.plugin",)  # for pytest, which loads this module by an entry point

# loaded on first use: pytest imports this module in every run, also of projects without Headway
_HOMES = {
    "HeldTime": "clock",
    "Playing": "flows",
    "Stepping": "stepped",
    "adrain": "drained",
    "all_enqueued": "enqueued",
    "aperform": "performed",
    "aperform_step": "one_step",
    "artifacts_of": "kept_artifacts",
    "assert_enqueued": "enqueued",
    "context": "performed",
    "drain": "drained",
    "held": "clock",
    "inline": "inline_mode",
    "on_database": "database",
    "perform": "performed",
    "perform_step": "one_step",
    "play": "flows",
    "playing": "flows",
    "replay": "flows",
    "refute_enqueued": "enqueued",
    "step_context": "one_step",
    "stepping": "stepped",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headway.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"headway.testing.{home}"), name)
    return value
