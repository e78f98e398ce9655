"""The page about testing names every helper, and every part of a machine that is stepped by hand."""

from __future__ import annotations

import re

from headway import testing
from headway.testing import Stepping
from tests.docs import docs_pages
from tests.docs.docs_pages import section, table

PAGE = docs_pages.ROOT / "docs" / "how-to" / "test-your-jobs.md"


def test_every_helper_is_on_the_page() -> None:
    told = set(re.findall(r"`(\w+)", docs_pages.prose_of(PAGE)))
    assert set(testing.__all__) - {"HeldTime", "Stepping"} <= told


def test_every_part_of_a_machine_in_hand_is_in_the_table() -> None:
    cells = [row[0] for row in table(section(PAGE, "Machines"))]
    told = {name for cell in cells for name in re.findall(r"(\w+)(?:\([^)]*\))?(?:,|`|$)", cell)}
    made = {name for name in {*vars(Stepping), "id"} if not name.startswith("_")}
    assert made <= told, made - told
