"""`headway keys`, on both stores."""

from __future__ import annotations

from typing import Any

from headway import Headway
from headway.model.key_text import read_key


def test_keys_are_made_listed_and_revoked(cli: Any, either: Headway) -> None:
    assert "headway keys create NAME --role ROLE" in cli("keys").stderr
    made = cli("keys", "create", "shop", "--role", "producer", "--tenant", "acme", "--kind", "welcome")
    key = read_key(made.stdout.strip())
    assert key is not None
    assert made.stderr == f"key {key.id} (shop), producer: store it now, it is not shown again\n"
    shown = cli.json("keys", "create", "ops", "--role", "superadmin", "--expires", "90d", "--test")
    assert shown["text"].startswith("hw_test_")
    assert (shown["role"], shown["tenant_id"], shown["last_used_at"]) == ("superadmin", None, None)
    assert cli.json("keys", "show", shown["id"]) == {name: shown[name] for name in shown if name != "text"}
    page = cli.ok("keys", "show", key.id)
    assert ("role          producer" in page, "queues        –" in page, "last used at  –" in page) == (True,) * 3
    assert cli.ok("keys", "revoke", shown["id"]) == f"{shown['id']} (ops): revoked\n"
    head, *rows = cli.ok("keys", "list").splitlines()
    assert head.split() == ["ID", "NAME", "ROLE", "TENANT", "ONLY", "LAST", "USED", "STATE"]
    assert [row.split() for row in rows] == [
        [key.id, "shop", "producer", "acme", "kind", "welcome", "never", "valid"],
        [shown["id"], "ops", "superadmin", "all", "–", "never", "revoked"],
    ]
    assert [each["name"] for each in cli.json("keys", "list", "--tenant", "acme")] == ["shop"]
    assert either.audit_log(action="key.revoked")[0].detail == f"{shown['id']} (ops)"


def test_what_keys_refuses(cli: Any, either: Headway) -> None:
    assert "'root' is not one of" in cli.refused("keys", "create", "shop", "--role", "root", code=2)
    for verb in ("revoke", "show"):
        assert "there is no key 0123456789ab" in cli.refused("keys", verb, "0123456789ab", code=1)
