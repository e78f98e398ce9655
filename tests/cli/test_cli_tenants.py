"""`headway tenants`, on both stores."""

from __future__ import annotations

from typing import Any

from headway import Headway


def test_tenants_are_made_listed_renamed_suspended_and_deleted(cli: Any, either: Headway) -> None:
    made = cli.json("tenants", "create", "acme", "--tz", "Asia/Tokyo")
    assert (made["slug"], made["suspended_at"], made["tz"]) == ("acme", None, "Asia/Tokyo")
    assert cli.json("tenants", "change", "acme", "--no-tz")["tz"] is None
    assert cli.ok("tenants", "change", "acme", "--tz", "UTC") == "acme: new schedules start with UTC\n"
    assert "--tz or --no-tz" in cli.refused("tenants", "change", "acme", code=2)
    assert cli.ok("tenants", "rename", "acme", "acme-inc") == "acme: renamed to acme-inc\n"
    either.enqueue("mail", tenant="acme-inc")
    assert cli.ok("tenants", "suspend", "acme-inc") == "acme-inc: suspended\n"
    head, *rows = cli.ok("tenants").splitlines()
    assert head.split() == ["NAME", "ID", "CREATED", "STATE", "ZONE"]
    assert rows[0].split()[:2] == ["acme-inc", made["id"]]
    assert "suspended" in rows[0]
    assert "tenant acme-inc is suspended" in cli.refused("enqueue", "mail", "--tenant", "acme-inc", code=1)
    job = either.jobs()[0].id
    either.run(until_idle=True)
    assert either.why(job).reasons[0] == "tenant acme-inc is suspended: it runs after headway tenants resume acme-inc"
    assert cli.ok("tenants", "resume", made["id"]) == f"{made['id']}: resumed\n"
    assert "1 jobs" in cli.ok("tenants", "delete", "acme-inc", "--dry-run")
    assert "--yes" in cli.refused("tenants", "delete", "acme-inc", code=2)
    assert cli.json("tenants", "delete", "acme-inc", "--yes")["rows"]["jobs"] == 1
    assert [each["slug"] for each in cli.json("tenants", "list")] == ["default"]
    assert "never used again" in cli.refused("tenants", "create", "acme", code=1)
    assert "there is no tenant acme" in cli.refused("tenants", "suspend", "acme", code=1)
