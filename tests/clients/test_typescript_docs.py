"""What the pages show of TypeScript runs, and prints what they say; the shop of the examples takes an order."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from headway.cli import main
from tests.clients.node import PACKAGE, ROOT, built, compiled, environment, project
from tests.clients.served import Served
from tests.docs.docs_pages import Block, blocks_of
from tests.docs.docs_runner import matches

PAGE = ROOT / "docs" / "how-to" / "typescript-client.md"
SHOP = ROOT / "examples" / "shop_typescript"


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
def test_the_page_and_the_shop(served: Served, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    built(request)
    folder = tmp_path / "examples" / "shop_typescript"
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "typescript").symlink_to(PACKAGE)
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("node_modules", "build"))
    project(folder)
    # beside the shop, so that one compiler reads the types: all blocks of the page as one program, and the README's
    blocks = blocks_of(PAGE)
    (folder / "page.ts").write_text("\n".join(each.text for each in blocks if each.language == "ts"))
    for number, block in enumerate(blocks_of(PACKAGE / "README.md")):
        (folder / f"readme{number}.ts").write_text(block.text)
    compiled(folder)
    env = environment(HEADWAY_API=served.address, HEADWAY_LOG_LEVEL="error", **served.keys)
    _page(folder, blocks, env)
    _shop(folder, served, env)


def _page(folder: Path, blocks: list[Block], env: dict[str, str]) -> None:
    done = subprocess.run(["node", "build/page.js"], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    said = "\n".join(each.text for each in blocks if each.language == "output")
    assert matches(said, done.stdout), done.stdout


def _shop(folder: Path, served: Served, env: dict[str, str]) -> None:
    """The commands of the shop's README, word for word, but for its ports and for what npm would install."""
    start, pay = (each.text for each in blocks_of(SHOP / "README.md") if each.language == "sh")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        shop = f"localhost:{unused.getsockname()[1]}"
    start = start.replace("http://127.0.0.1:8420", served.address).replace("localhost:3000", shop)
    start = re.sub(r"\$\(headway ([^)]*)\)", lambda found: _headway(served, found[1]), start)
    scripts = json.loads((folder / "package.json").read_text())["scripts"]
    assert scripts.pop("build") == "tsc"  # the test has compiled it
    runs = "".join(f"'run {name}') exec {command} ;; " for name, command in scripts.items())
    npm = f'npm() {{ case "$*" in {runs} ci | install | "run build") ;; *) echo "npm $*"; false; esac; }}'
    script = f"{npm}\nheadway() {{ [ $1 = serve ]; }}\n{start}\necho $? > code; jobs -p > pids"
    env = {name: value for name, value in env.items() if not name.endswith("_KEY")} | {"PORT": shop.partition(":")[2]}
    try:
        with (folder / "said").open("w") as said:
            subprocess.run(["bash", "-c", script], cwd=folder, env=env, stdout=said, stderr=said, timeout=120)
        printed = (folder / "said").read_text()
        placed = re.search(r'{"job":"(.*)","created":true}$', printed)
        assert placed is not None, printed
        job = placed[1]
        _, signal_, look = pay.replace("localhost:3000", shop).replace("$JOB", job).splitlines()
        assert _headway(served, signal_.removeprefix("headway "))
        found = subprocess.run(["bash", "-c", look], capture_output=True, check=True, timeout=120).stdout
        receipt = "receipt for order 42: 3.50"
        assert json.loads(found) == {
            "status": "succeeded",
            "result": {"order": "42", "total": 3.5, "paid": "card", "receipt": receipt},
            "error": None,
        }
        order = json.loads(re.findall(r"--json '(.*)'", start)[-1])
        url = f"http://{shop}/api/orders"
        again = httpx2.post(url, json=order)
        assert (again.status_code, again.json()) == (200, {"job": job, "created": False})
        assert httpx2.post(url, json=order | {"items": []}).status_code == 400
        assert httpx2.get(url, params={"job": "nothing"}).status_code == 404
    finally:
        for pid in (folder / "pids").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def _headway(served: Served, arguments: str) -> str:
    done = CliRunner().invoke(main, shlex.split(arguments), env={"HEADWAY_URL": served.url})
    assert done.exit_code == 0, done.output
    return str(done.stdout.strip())
