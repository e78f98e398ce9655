"""`headway webhooks`, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Headway

Cli = Any


def test_add_list_rotate_test_remove(cli: Cli, either: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("webhooks").stderr.startswith("no webhook endpoints in ")
    add = ("webhooks", "add", "https://shop.example/hook", "--events", "headway.job.dead, order.*")
    assert "HEADWAY_WEBHOOK_SECRET is not set" in cli.refused(*add, code=2)
    monkeypatch.setenv("HEADWAY_WEBHOOK_SECRET", "a master secret of more than 32 characters")
    said = cli.ok(*add, "--ordered", "--ed25519", "--timeout", "5s").splitlines()
    assert said[0] == "shop.example: https://shop.example/hook gets headway.job.dead, order.*"
    assert said[1].startswith("secret      whsec_")
    assert said[2].startswith("public key  whpk_")
    found = either.get_connector("shop.example")
    assert found.options == {"ordered": True, "signatures": ["v1", "v1a"], "timeout": "5s"}
    assert "headway.job.dead, order.*" in cli.ok("webhooks", "list")
    assert said[1].split()[1] not in cli.ok("connectors", "show", "shop.example")
    rotated = cli.json("webhooks", "rotate", "shop.example", "--overlap", "2h")
    assert (rotated["endpoint"]["secret_version"], rotated["secret"] != said[1].split()[1]) == (2, True)
    job = either.get(cli.ok("webhooks", "test", "shop.example").strip())
    assert (job.kind, job.payload["type"]) == ("connector.webhook.deliver", "headway.webhook.test")
    either.create_connector("api", "https://api.example")
    assert "is no webhook endpoint" in cli.refused("webhooks", "remove", "api", "--yes", code=1)
    assert "is no webhook endpoint" in cli.refused("webhooks", "rotate", "api", code=2)
    assert cli.ok("webhooks", "remove", "shop.example", "--yes") == "shop.example: removed\n"
    assert either.triggers() == []
