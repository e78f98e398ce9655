"""Helpers for test suites of applications that use Headway: on real databases, by the real path.

    from headway.testing import assert_enqueued, drain, held

    def test_a_new_user_is_welcomed(headway_url):
        with on_database(app, headway_url):
            sign_up("ada")
            assert_enqueued(app, welcome, payload={"name": "ada"}, queue="mail", count=1)
            assert drain(app).succeeded == 1

pytest finds the fixtures `headway_sqlite_url`, `headway_postgres_url`, `headway_url` (each in turn) and
`headway_app` by itself; importing this module imports no pytest.
"""

from headway.testing.clock import HeldTime, held
from headway.testing.database import on_database
from headway.testing.drained import adrain, drain
from headway.testing.eager import inline
from headway.testing.enqueued import all_enqueued, assert_enqueued, refute_enqueued
from headway.testing.performed import aperform, context, perform

pytest_plugins = ("headway.testing.plugin",)  # read by pytest alone, which comes here by an entry point

__all__ = [
    "HeldTime",
    "adrain",
    "all_enqueued",
    "aperform",
    "assert_enqueued",
    "context",
    "drain",
    "held",
    "inline",
    "on_database",
    "perform",
    "refute_enqueued",
]
