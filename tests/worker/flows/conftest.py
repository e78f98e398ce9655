"""What tests of flows ask for beside what other tests of workers do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker_harness import WorkerHarness


@pytest.fixture
def still(store: Any) -> WorkerHarness:
    """A harness whose store's time stands still until `clock.advance`; less than a second passes by itself."""
    return WorkerHarness(store)
