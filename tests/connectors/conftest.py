"""An app whose worker may reach loopback, on each store in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import Headway

FILE = """
artifacts = "{artifacts}"
[connectors]
allow_networks = ["127.0.0.1/32"]
[connectors.http.request]
max_attempts = 3
[connectors.webhook.deliver]
[secrets.SHOP_TOKEN]
kinds = ["connector.*"]
tenants = ["*"]
hosts = ["127.0.0.1", "shop.test", "*.mall.test"]
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "headway.toml"
    file.write_text(FILE.format(artifacts=tmp_path / "artifacts"))
    monkeypatch.setenv("HEADWAY_CONFIG", str(file))
    return file


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, configured: Path) -> Iterator[Headway]:
    if request.param == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('sqlite_migrated_path')}"
    else:
        url = str(request.getfixturevalue("postgres_migrated_url"))
    app = Headway(url)
    yield app
    app.close()
