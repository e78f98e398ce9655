"""What the tests of triggers share."""

from __future__ import annotations

import pytest


@pytest.fixture
def paid(db):
    """A trigger on "paid" that was there before."""
    made = db.listener("paid", name="on-paid", dedupe_window_ms=300_000)
    db.advance("1s")
    return made
