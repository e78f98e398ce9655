"""`headway connectors`, on both stores."""

from __future__ import annotations

from typing import Any

from headway import Headway
from headway.model.connector import Connector

Cli = Any


def test_create_list_show_change_delete(cli: Cli, either: Headway) -> None:
    assert cli("connectors").stderr.startswith("no connectors in ")
    said = cli.ok(
        "connectors", "create", "shop", "https://shop.example/v1", "--bearer", "SHOP_TOKEN", "--header", "X-Account=7",
        "--option", "timeout=5s", "--description", "the shop",
    )  # fmt: skip
    assert said == "shop: https://shop.example/v1, revision 1\n"
    found = either.get_connector("shop")
    assert found.headers == {"X-Account": "7", "Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]}
    assert found.options == {"timeout": "5s"}
    lines = cli.ok("connectors", "list").splitlines()
    assert lines[0].split() == ["NAME", "TENANT", "KIND", "ENABLED", "CHANGED", "URL", "FOR"]
    assert set(cli.json("connectors")[0]) == set(Connector.__struct_fields__)
    assert "SHOP_TOKEN" in cli.ok("connectors", "show", "shop")
    assert cli.ok("connectors", "change", "shop", "--header", "X-Account=8", "--disable").endswith(" revision 2\n")
    changed = either.get_connector("shop")
    assert (changed.headers["X-Account"], changed.enabled, len(changed.headers)) == ("8", False, 2)
    assert "no: somebody disabled it" in cli.ok("connectors", "show", "shop")
    assert cli.json("connectors", "change", "shop", "--options", "{}", "--enable")["options"] == {}
    assert "nothing to change" in cli.refused("connectors", "change", "shop", code=2)
    assert "secrets are not stored" in cli.refused(
        "connectors", "create", "mall", "https://m.example", "--header", "Authorization=Bearer abc", code=2
    )
    assert 'has no connector "mall"' in cli.refused("connectors", "show", "mall", code=1)
    assert cli.ok("connectors", "delete", "shop", "--yes") == "shop: deleted\n"
    assert either.connectors() == []
