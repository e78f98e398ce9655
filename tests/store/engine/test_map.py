"""Both stores have the same map: a verb is in the same chapter and file on either side."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from headway.store.ops import Ops
from headway.store.postgres.ops import PostgresOps
from headway.store.sqlite.ops import SqliteOps

VERBS = [name for name, _ in inspect.getmembers(Ops, inspect.isfunction) if not name.startswith("_")]


def where(ops: Any, verb: str) -> list[str]:
    """The chapter and the file of a verb."""
    return str(getattr(ops, verb).__module__).split(".")[3:]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_in_the_same_file_on_both_stores(verb: str) -> None:
    assert where(PostgresOps, verb) == where(SqliteOps, verb)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "version"])
def test_a_verb_is_in_the_chapter_that_the_contract_has_it_in(verb: str) -> None:
    contract = next(each for each in Ops.__mro__ if verb in vars(each))
    assert contract.__module__ == f"headway.store.ops.{where(PostgresOps, verb)[0]}"
