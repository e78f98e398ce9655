"""Both stores have the same map: a verb lives in the same chapter and file on either."""

from __future__ import annotations

import inspect
from typing import Any

from headway.store.ops import Ops
from headway.store.postgres.ops import PostgresOps
from headway.store.sqlite.ops import SqliteOps

VERBS = sorted(name for name, _ in inspect.getmembers(Ops, inspect.isfunction) if not name.startswith("_"))


def home(ops: type[Any], verb: str) -> list[str]:
    """The chapter and file of a verb, such as jobs and claim."""
    return inspect.unwrap(getattr(ops, verb)).__module__.split(".")[3:]


def test_a_verb_lives_in_the_same_file_on_both_stores() -> None:
    homes = {verb: (home(SqliteOps, verb), home(PostgresOps, verb)) for verb in VERBS}
    assert {verb: each for verb, each in homes.items() if each[0] != each[1]} == {}
    # in a chapter, not in what gathers the verbs
    assert {verb: each for verb, each in homes.items() if len(each[0]) != 2} == {}


def test_a_verb_lives_in_the_chapter_of_its_contract() -> None:
    elsewhere = {}
    for verb in set(VERBS) - {"version"}:
        contract = next(each for each in Ops.__mro__ if verb in vars(each)).__module__
        if contract != f"headway.store.ops.{home(SqliteOps, verb)[0]}":
            elsewhere[verb] = (contract, home(SqliteOps, verb))
    assert elsewhere == {}
