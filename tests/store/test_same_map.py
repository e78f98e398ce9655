"""Both stores have the same map: a verb lives in the same chapter and file on either."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from headway.store.ops import Ops
from headway.store.postgres.ops import PostgresOps
from headway.store.sqlite.ops import SqliteOps

VERBS = sorted(name for name, _ in inspect.getmembers(Ops, inspect.isfunction) if not name.startswith("_"))


def home(ops: type[Any], verb: str) -> str:
    """The chapter and file of a verb, such as jobs/claim."""
    module = inspect.unwrap(getattr(ops, verb)).__module__
    return "/".join(module.split(".")[3:])


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_lives_in_the_same_file_on_both_stores(verb: str) -> None:
    assert home(SqliteOps, verb) == home(PostgresOps, verb)
    assert home(SqliteOps, verb).count("/") == 1, "in a chapter, not in what gathers the verbs"
