"""What tests of flows ask for beside what other tests of workers do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headway import Headway
from tests.worker_harness import WorkerHarness


@pytest.fixture
def still(store: Any) -> WorkerHarness:
    """A harness whose store's time stands still until `clock.advance`; less than a second passes by itself."""
    return WorkerHarness(store)


@pytest.fixture
def app(live_store: Any) -> Iterator[Headway]:
    """An application on a database of each store in turn."""
    where = live_store.url if live_store.dialect == "postgres" else f"sqlite:///{live_store.path}"
    app = Headway(where)
    yield app
    app.close()
