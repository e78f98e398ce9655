"""What tests of secrets ask for: a process that knows none, and a workshop on each store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway import secrets

sys.path.insert(0, str(Path(__file__).parent.parent / "worker"))

from workshop import Workshop


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """What a test makes known to the process, its process forgets."""
    secrets.forget()
    yield
    secrets.forget()


@pytest.fixture
def shop(live_store: Any) -> Workshop:
    return Workshop(live_store)
