"""Node.js for the tests of the TypeScript client: compiles it where it has changed, and runs programs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "typescript"
_TSC = PACKAGE / "node_modules" / ".bin" / "tsc"
_COMPILE = (str(_TSC), "--singleThreaded", "-p")  # several threads check the same types several times
_SOURCES = ("src", "test")


def built(request: pytest.FixtureRequest) -> Path:
    """The folder of the package, compiled. Where there is no Node.js the test does not run, and says so."""
    if shutil.which("npm") is None or not _TSC.exists() or not _is_new_enough():
        said = "the TypeScript client was not tested: it needs Node.js 20, npm, and make .venv/node"
        (pytest.fail if request.config.getoption("--need-node") else pytest.skip)(said)
    lock = PACKAGE / "node_modules" / ".compiled"
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # tests run in several processes
        sources = [path for folder in _SOURCES for path in (PACKAGE / folder).rglob("*.ts")]
        configs = [PACKAGE / "package.json", PACKAGE / "tsconfig.json"]
        newest = str(max(path.stat().st_mtime_ns for path in [*sources, *configs])) + f" of {len(sources)}"
        if Path(lock).read_text() != newest or not (PACKAGE / "dist").exists():
            for project in (".", "test"):
                done = subprocess.run([*_COMPILE, project], cwd=PACKAGE, capture_output=True, text=True)
                assert done.returncode == 0, done.stdout + done.stderr
            held.truncate(0)
            held.write(newest)
    return PACKAGE


def _is_new_enough() -> bool:
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.removeprefix("v").partition(".")[0]) >= 20


def environment(**more: str) -> dict[str, str]:
    """Of a program: nothing of Headway's but what is given."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")} | more


def project(folder: Path) -> None:
    """Make this folder find the client and its packages, as npm install would."""
    modules = folder / "node_modules"
    (modules / "@headway").mkdir(parents=True)
    (modules / "@headway" / "client").symlink_to(PACKAGE)
    for name in ("zod", "@types"):
        (modules / name).symlink_to(PACKAGE / "node_modules" / name)


def compiled(folder: Path) -> None:
    """Compile the project of this folder, as strictly as its tsconfig.json says."""
    done = subprocess.run([*_COMPILE, "."], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
