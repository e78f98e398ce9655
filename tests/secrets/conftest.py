"""What tests of secrets ask for: a process that knows none, and a workshop on each store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headway import secrets
from tests.worker_harness import Workshop


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """What a test makes known to the process, its process forgets."""
    secrets.forget()
    yield
    secrets.forget()


@pytest.fixture
def shop(live_store: Any) -> Workshop:
    return Workshop(live_store)
