"""Each line of the lists is in the code, once, and the tests that should notice exist; `make mutants` breaks them."""

from __future__ import annotations

import re

import pytest

from tools.mutants import ROOT, Mutant, mutants, verdict

MUTANTS = mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_line_is_in_the_code_and_its_tests_exist(mutant: Mutant) -> None:
    count = (ROOT / mutant.file).read_text("utf-8").count(mutant.line)
    assert count == 1, f"its line is {count} times in {mutant.file}: mend the list"
    assert mutant.becomes != mutant.line
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        defined = rf"^(?:async )?def {re.escape(name.partition('[')[0])}\("
        assert re.search(defined, (ROOT / path).read_text("utf-8"), re.MULTILINE), test


def test_each_has_a_name_of_its_own_and_there_are_enough() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 60


def test_tests_that_were_skipped_have_not_passed() -> None:
    said = "s.   [100%]\n1 passed, 1 skipped in 0.96s\n"
    assert [verdict(code, said) for code in (0, 1, 4)] == ["skipped", "failed", "could not run"]
    assert verdict(0, "..   [100%]\n2 passed in 0.96s\n") == "passed"
