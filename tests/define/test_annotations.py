"""Annotations that only type checkers can evaluate: Python 3.14 evaluates them when somebody asks for a signature."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASKS = re.compile(
    r"\bget_type_hints\(|\binspect\.(?:signature|get_annotations|getfullargspec)\(|^from inspect import", re.M
)
# the two places that know how to ask, and two that ask about functions and classes of ours
MAY = {
    "src/headway/define/annotations.py",
    "clients/python/src/headway_client/annotations.py",
    "src/headway/store/actors.py",
    "clients/python/src/headway_client/values.py",
}


def test_only_one_place_asks_for_the_annotations_of_what_users_wrote() -> None:
    paths = [path for folder in ("src/headway", "clients/python/src") for path in (ROOT / folder).rglob("*.py")]
    assert {str(path.relative_to(ROOT)) for path in paths if ASKS.search(path.read_text("utf-8"))} == MAY
