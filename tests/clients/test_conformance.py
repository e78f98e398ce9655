"""The Python client does what clients/conformance.json says; test_typescript.py runs the same with the other."""

from __future__ import annotations

from tests.clients.conformance import SAID, run_all
from tests.clients.served import Served


def test_the_python_client_conforms(served: Served) -> None:
    assert len(run_all(served)) == len(SAID["scenarios"]) >= 20
