"""Both stores have the same map: a verb lives in the same chapter and file on either."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from headway.store.ops import Ops
from headway.store.postgres.ops import PostgresOps
from headway.store.sqlite.ops import SqliteOps

VERBS = sorted(name for name, _ in inspect.getmembers(Ops, inspect.isfunction) if not name.startswith("_"))


def home(ops: type[Any], verb: str) -> list[str]:
    """The chapter and file of a verb, such as jobs and claim."""
    return inspect.unwrap(getattr(ops, verb)).__module__.split(".")[3:]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_lives_in_the_same_file_on_both_stores(verb: str) -> None:
    assert home(SqliteOps, verb) == home(PostgresOps, verb)
    assert len(home(SqliteOps, verb)) == 2, "in a chapter, not in what gathers the verbs"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "version"])
def test_a_verb_lives_in_the_chapter_of_its_contract(verb: str) -> None:
    contract = next(each for each in Ops.__mro__ if verb in vars(each))
    assert contract.__module__ == f"headway.store.ops.{home(SqliteOps, verb)[0]}"
