"""What tests of secrets ask for: a process that knows none, and a workshop on each store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headway import secrets
from tests.secrets.planted_secrets import BY_NAME, BY_REFERENCE, IN_URL, PIN
from tests.worker_harness import WorkerHarness


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """What a test makes known to the process, its process forgets."""
    secrets.forget()
    yield
    secrets.forget()


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", BY_NAME)
    monkeypatch.setenv("PLANTED_PLAIN", BY_REFERENCE)
    monkeypatch.setenv("PLANTED_PIN", PIN)
    monkeypatch.setenv("PLANTED_ADDRESS", f"postgresql://app:{IN_URL}@db.example.com/main")


@pytest.fixture
def harness(live_store: Any) -> WorkerHarness:
    return WorkerHarness(live_store)
