"""The retry policy as pure functions."""

from __future__ import annotations

import pytest

from headway.errors import JobFailed, NotFinished
from headway.model.job import Outcome
from headway.model.retry import backoff_ms


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999999])
@pytest.mark.parametrize("failures", [1, 2, 9, 10, 60])
def test_a_backoff_never_exceeds_its_cap(failures: int, jitter: float) -> None:
    waits = backoff_ms(failures, 1_000, 300_000, jitter)
    assert 0.75 * min(1_000 * 2 ** (failures - 1), 300_000) <= waits <= 300_000


def test_at_the_cap_waits_still_differ() -> None:
    assert backoff_ms(30, 1_000, 60_000, 0.0) == 45_000
    assert backoff_ms(30, 1_000, 60_000, 0.5) == 52_500
    assert backoff_ms(2, 1_000, 60_000, 0.5) == 2_000


def test_an_outcome_gives_its_value_or_raises() -> None:
    assert Outcome("succeeded", 7).unwrap() == 7
    with pytest.raises(JobFailed, match="the job ended dead: ValueError: no") as caught:
        Outcome("dead", error="ValueError: no").unwrap()
    assert (caught.value.status, caught.value.error) == ("dead", "ValueError: no")
    with pytest.raises(NotFinished, match="running"):
        Outcome("running").unwrap()
