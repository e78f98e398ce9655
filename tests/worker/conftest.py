"""What worker tests ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.worker.ledger import Ledger
from tests.worker_harness import WorkerHarness


@pytest.fixture
def harness(live_store: Any) -> WorkerHarness:
    return WorkerHarness(live_store)


@pytest.fixture
def ledger(live_store: Any) -> Ledger:
    return Ledger(live_store)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[logging.LogRecord]]:
    """The log records that contain a text."""
    caplog.set_level(logging.INFO, logger="headway")
    return lambda text: [record for record in caplog.records if text in record.getMessage()]
