"""`headway transfer`: its flags, its answers, and what it says when it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headway
from headway import Context, Headway
from headway.errors import StoreMoved
from headway.testing import drain

Cli = Any


def test_a_file_is_moved_into_postgresql(cli: Cli, app: Headway, url: str, postgres_migrated_url: str) -> None:
    app.configure(strict_kinds=False)
    app.enqueue("welcome", {"n": 1})

    @app.job(queue="files")
    def stores(ctx: Context) -> None:
        ctx.artifact("report.csv", "a;b")

    stores.using(idempotency_key="so that it is moved").enqueue()
    drain(app, ["files"])
    way = ("transfer", url, postgres_migrated_url)
    assert cli.json(*way, "--dry-run")["rows"]["jobs"] == 2
    assert "jobs" in cli.ok(*way, "--dry-run")
    assert " rows to postgresql://" in cli.refused(*way, code=2)  # no terminal to ask
    assert "no transfer from" in cli.refused(*way, "--abort", code=1)
    assert "--abort takes neither" in cli.refused(*way, "--abort", "--history", code=2)
    assert "there is no database file" in cli.refused("transfer", "sqlite:///no.db", postgres_migrated_url, code=2)
    assert not Path("no.db").exists()

    done = cli.json(*way, "--yes")
    assert {part["table"]: part["rows"] for part in done["tables"]}["jobs"] == 2
    assert done["target"] == headway.transfer(url, postgres_migrated_url).target
    with pytest.raises(StoreMoved, match=r"the work of this database was moved to postgresql://.*: use that one"):
        app.enqueue("welcome")
    again = cli(*way, "--yes")
    assert "is in" in again.stdout
    assert "artifacts stay in " in again.stderr
    assert "headway.db-artifacts: name that folder in the setting artifacts" in again.stderr
    there = Headway(postgres_migrated_url, strict_kinds=False)
    assert there.counts() == {"queued": 1, "succeeded": 1}
    there.close()

    back = ("transfer", postgres_migrated_url, url.replace("headway.db", "back.db"))
    assert "copied" in cli(*back, "--yes", "--history").stderr
