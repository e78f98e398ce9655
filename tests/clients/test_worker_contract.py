"""Both clients' workers keep the contract of workers over HTTP, and ours what of it is not about HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.node import built
from tests.clients.served import Served
from tests.clients.worker_contract import keep


@pytest.mark.parametrize("client", ["python", "typescript", "engine"])
def test_the_contract(served: Served, client: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if client == "typescript":
        built(request)
    keep(served, client, tmp_path)
