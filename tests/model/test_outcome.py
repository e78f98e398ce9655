"""The outcomes that a handler may raise."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from headway.errors import HeadwayError, InvalidJob
from headway.model.outcome import Cancel, Retry, Snooze


def test_delays_are_durations_of_any_form() -> None:
    assert Retry("5m").delay == timedelta(minutes=5)
    assert Retry(2.5).delay == timedelta(seconds=2.5)
    assert Retry().delay is None
    assert Snooze(timedelta(hours=1)).delay == timedelta(hours=1)


@pytest.mark.parametrize("delay", [-1, "soon", float("nan"), timedelta(seconds=-1), True, "-5s"])
def test_a_wrong_delay_fails_where_it_is_written(delay: object) -> None:
    with pytest.raises(InvalidJob, match="delay="):
        Retry(delay)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="delay="):
        Snooze(delay)  # type: ignore[arg-type]


def test_reasons_are_what_they_say() -> None:
    assert str(Retry("1s", "rate limited")) == "rate limited"
    assert str(Retry()) == "the handler asked for a retry"
    assert str(Cancel("no such user")) == "no such user"
    assert str(Cancel()) == "the handler canceled its job"
    assert str(Snooze("90s")) == "snoozed for 0:01:30"


def test_outcomes_are_no_errors_of_headway_and_survive_pickling() -> None:
    for outcome in (Retry("5m", "why"), Snooze("1s"), Cancel("why")):
        assert not isinstance(outcome, HeadwayError)
        again = pickle.loads(pickle.dumps(outcome))
        assert type(again) is type(outcome)
        assert str(again) == str(outcome)
        assert vars(again) == vars(outcome)
