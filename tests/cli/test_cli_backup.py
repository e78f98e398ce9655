"""`headway backup` and `app.backup`: a checked copy of a file that is in use, or nothing."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.errors import NotAllowed, StoreError
from headway.testing import drain

Cli = Any


def test_a_copy_is_whole_private_and_never_overwrites(cli: Cli, app: Headway, folder: Path) -> None:
    @app.job
    def double(n: int) -> int:
        return 2 * n

    for n in range(3):
        double.enqueue(n=n)
    os.umask(0o022)
    done = cli.json("backup", "copy.db")
    copy = folder / "copy.db"
    assert (done["path"], done["bytes"]) == (str(copy), copy.stat().st_size)
    assert (done["rows"]["jobs"], stat.S_IMODE(copy.stat().st_mode)) == (3, 0o600)
    assert sorted(path.name for path in folder.glob("copy*")) == ["copy.db"]
    drain(app)

    assert "exists already: name another file" in cli.refused("backup", "copy.db", code=1)
    assert "checked" in cli.ok("backup", "copy.db", "--force")
    assert "is the database itself" in cli.refused("backup", "headway.db", "--force", code=1)
    with pytest.raises(StoreError, match=r"failed: .*The database was not touched"):
        app.backup(folder / "missing" / "copy.db")
    assert sorted(path.name for path in folder.glob("*.part*")) == []

    seen: list[tuple[int, int]] = []
    asyncio.run(app.abackup(folder / "second.db", progress=lambda *pages: seen.append(pages)))
    assert seen[-1][0] == seen[-1][1] > 0
    for name, url in (("copy.db", "sqlite"), ("second.db", "sqlite+stdlib")):
        restored = Headway(f"{url}:///{folder / name}")
        assert restored.counts()["succeeded"] == 3
        assert restored.backup(folder / f"again-{name}").rows["jobs"] == 3  # with either library
        restored.close()


def test_a_copy_is_one_moment_of_a_file_that_others_write(app: Headway, folder: Path) -> None:
    app.configure(strict_kinds=False)
    stop, wrote = threading.Event(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            app.group([app.build_job("pair", {"n": n}) for n in range(2)])
            wrote.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert wrote.wait(30)
        rows = [app.backup(folder / f"copy-{n}.db").rows for n in range(5)]
    finally:
        stop.set()
        writer.join(30)
    assert all(found["jobs"] == 2 * found["groups"] > 0 for found in rows)


def test_postgresql_is_told_its_own_tool(cli: Cli, postgres_migrated_url: str, folder: Path) -> None:
    said = cli.refused("--url", postgres_migrated_url, "backup", "work.dump", code=3)
    assert "pg_dump --format=custom --schema=headway --file=work.dump" in said
    app = Headway(postgres_migrated_url)
    with pytest.raises(NotAllowed, match="PostgreSQL has its own backups: pg_dump"):
        app.backup("work.dump")
    app.close()
    assert not (folder / "work.dump").exists()
