"""What the pages show of TypeScript runs, and prints what they say; the shop of the examples takes an order."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.clients.node import PACKAGE, ROOT, built, compiled, environment, project
from tests.clients.served import Served
from tests.docs.docs_pages import Block, blocks_of
from tests.docs.docs_runner import matches

PAGE = ROOT / "docs" / "how-to" / "typescript-client.md"
SHOP = ROOT / "examples" / "shop_typescript"


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
def test_the_page_and_the_shop(served: Served, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    built(request)
    folder = tmp_path / "shop"
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
    admin = {"Authorization": f"Bearer {served.keys['ADMIN_KEY']}"}
    for kind in ("order", "receipt"):
        url = f"{served.address}/api/v1/admin/jobs/definitions"
        assert httpx2.post(url, headers=admin, json={"key": kind}).status_code == 201
    worker = subprocess.Popen(
        ["node", "build/worker.js"], cwd=folder, env=env | {"HEADWAY_KEY": served.keys["WORKER_KEY"]}
    )
    server = subprocess.Popen(
        ["node", "build/server.js"], cwd=folder, env=env | {"PORT": "0"}, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        listening = re.fullmatch(r"listening on (\d+)\n", server.stdout.readline())
        assert listening is not None
        url = f"http://127.0.0.1:{listening[1]}/api/orders"
        order = {
            "id": "42",
            "email": "ada@example.com",
            "items": [{"sku": "tea", "price": 3.5}, {"sku": "pot", "price": 9}],
        }
        placed, again = (httpx2.post(url, json=order) for _ in range(2))
        assert (placed.status_code, again.status_code) == (202, 200)
        assert placed.json()["job"] == again.json()["job"]
        assert httpx2.post(url, json=order | {"items": []}).status_code == 400
        job = placed.json()["job"]
        shop = {"Authorization": f"Bearer {served.keys['HEADWAY_KEY']}"}
        signal_url = f"{served.address}/api/v1/jobs/{job}/signal"
        assert httpx2.post(signal_url, headers=shop, json={"name": "paid", "payload": "card"}).status_code == 201
        found = httpx2.get(url, params={"job": job, "wait": "60"}, timeout=90).json()
        assert found == {
            "status": "succeeded",
            "result": {"order": "42", "total": 12.5, "paid": "card", "receipt": "receipt for order 42: 12.50"},
            "error": None,
        }, json.dumps(found)
        assert httpx2.get(url, params={"job": "nothing"}).status_code == 404
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        for process in (worker, server):
            process.kill()
            process.wait()
        server.stdout.close()
