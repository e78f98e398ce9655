"""The process that forks the programs of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.warm_process import WarmProcess


@pytest.fixture(scope="session")
def warm_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    warm = WarmProcess(tmp_path_factory.mktemp("programs"))
    yield warm
    warm.close()
