"""`headway transfer`: its flags, its answers, and what it says when it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headway
from headway import Headway
from headway.errors import StoreMoved

Cli = Any


def test_a_file_is_moved_into_postgresql(cli: Cli, app: Headway, url: str, postgres_migrated_url: str) -> None:
    app.configure(strict_kinds=False)
    app.enqueue("welcome", {"n": 1})
    way = ("transfer", url, postgres_migrated_url)
    assert cli.json(*way, "--dry-run")["rows"]["jobs"] == 1
    assert "jobs" in cli.ok(*way, "--dry-run")
    assert "move 2 rows to postgresql://" in cli.refused(*way, code=2)  # no terminal to ask: the job and the tenant
    assert "no transfer from" in cli.refused(*way, "--abort", code=1)
    assert "--abort takes neither" in cli.refused(*way, "--abort", "--history", code=2)
    assert "there is no database file" in cli.refused("transfer", "sqlite:///no.db", postgres_migrated_url, code=2)
    assert not Path("no.db").exists()

    done = cli.json(*way, "--yes")
    assert {part["table"]: part["rows"] for part in done["tables"]}["jobs"] == 1
    assert done["target"] == headway.transfer(url, postgres_migrated_url).target
    with pytest.raises(StoreMoved, match=r"the work of this database was moved to postgresql://.*: use that one"):
        app.enqueue("welcome")
    assert "is in" in cli.ok(*way, "--yes")
    there = Headway(postgres_migrated_url, strict_kinds=False)
    assert there.counts() == {"queued": 1}
    there.close()

    back = ("transfer", postgres_migrated_url, url.replace("headway.db", "back.db"))
    assert "copied" in cli(*back, "--yes", "--history").stderr
