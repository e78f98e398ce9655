"""The pace of polls, and the examples in the worker's docstrings."""

from __future__ import annotations

import doctest
import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.worker.intervals import poll_interval


@given(
    fleet=st.integers(0, 1_000),
    since_work_s=st.floats(0, 10_000),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_a_fleet_asks_once_per_pace_whatever_its_size(fleet: int, since_work_s: float, jitter: float) -> None:
    each = poll_interval(
        pace_ms=25, idle_pace_ms=100, heartbeat_ms=20_000, fleet=fleet, since_work_s=since_work_s, jitter=jitter
    )
    fleet = max(fleet, 1)
    polls, other = fleet / each * (0.75 + jitter / 2), (fleet - 1) / 20 + (fleet > 1)
    budget = 40 if since_work_s < 60 else 10
    assert polls >= budget / 2 - 1e-6
    assert polls + other <= max(budget, other + budget / 2) + 1e-6
    if other <= budget / 2:
        assert polls + other >= budget - 1e-6


@pytest.mark.parametrize("name", ["batch_size", "hooks", "intervals"])
def test_examples(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"headway.worker.{name}"))
    assert results.attempted
    assert not results.failed
