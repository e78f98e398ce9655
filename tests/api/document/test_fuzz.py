"""A fuzzer finds nothing: a few cases here; `make fuzz` sends more than 20,000."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.api.document import fuzz


def test_a_fuzzer_finds_nothing(tmp_path: Path) -> None:
    code, found, said = fuzz.run(f"sqlite:///{tmp_path}/fuzz.db", examples=5, phases="fuzzing", seed=7, only=r"/jobs$")
    assert code == 0, said
    assert not Counter({status: count for status, count in found.items() if status >= 500})
    assert sum(found.values()) > 5
