"""The TypeScript client: its own tests in one process of Node.js for each store, and what it is made of."""

from __future__ import annotations

import json
import subprocess

import pytest

import headway
from tests.clients.node import PACKAGE, built, environment
from tests.clients.served import Served
from tools.typescript_wire import WIRE, derived


def test_the_typescript_client(served: Served, request: pytest.FixtureRequest) -> None:
    package = built(request)
    env = environment(HEADWAY_API=served.address, SERVER_PID_FILE=str(served.pid_file), **served.keys)
    command = ["node", "--enable-source-maps", "--trace-warnings", "build/main.js"]
    done = subprocess.run(command, cwd=package, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-4_000:]
    assert "Warning" not in done.stderr, done.stderr


def test_the_wire_is_as_the_server_says_it() -> None:
    assert WIRE.read_text("utf-8") == derived(), "run make format"


def test_the_package_holds_what_it_needs(request: pytest.FixtureRequest) -> None:
    package = json.loads((PACKAGE / "package.json").read_text())
    lock = (PACKAGE / "package-lock.json").read_text()
    assert package["version"] == json.loads(lock)["version"] == headway.__version__
    assert f'"{headway.__version__}"' in (PACKAGE / "src" / "version.ts").read_text()
    assert list(package["dependencies"]) == ["zod"]
    assert "http" not in lock, "it names a registry: .npmrc leaves the addresses out"
    for path in [*PACKAGE.glob("src/*.ts"), *PACKAGE.glob("test/*.ts")]:
        lines = path.read_text("utf-8").splitlines()
        assert lines[0].startswith("/** "), f"{path.name} does not say what it is for"
        if path != WIRE:
            long = [line for line in lines if len(line) > 120 or line != line.rstrip() or "\t" in line]
            assert not long, f"{path.name}: {long}"

    built(request)
    command = ["npm", "pack", "--dry-run", "--json", "--loglevel", "error"]
    done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=True)
    packed = {each["path"] for each in json.loads(done.stdout)[0]["files"]}
    modules = {path.stem for path in PACKAGE.glob("src/*.ts")}
    compiled = {f"dist/{name}.{kind}" for name in modules for kind in ("js", "d.ts")}
    assert packed == compiled | {"package.json", "README.md", "LICENSE"}
    assert (PACKAGE / "LICENSE").read_bytes() == (PACKAGE.parents[1] / "LICENSE").read_bytes()
