"""`headway dev`: one link, one login, and new code without a restart by hand."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx

from headway import Headway
from headway.cli.dev.watched_files import WatchedFiles
from tests.crash.processes import until

APP = """
from headway import Headway
app = Headway("sqlite:///work.db")

@app.job
def greet(name: str) -> str:
    return "hello"
"""


def test_a_link_logs_in_once_and_new_code_is_run(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    said = tmp_path / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "headway", "dev", "shop:app", "--port", "0", "--no-open"],
            cwd=tmp_path,
            stdout=out,
            stderr=out,
        )
    try:
        until(lambda: "worker started" in said.read_text() and '"ready"' in said.read_text(), "both run")
        link = re.search(r"http://\S+", said.read_text())
        assert link is not None
        with httpx.Client() as visitor:
            first = visitor.get(link[0])
            assert first.status_code == 303
            address = link[0].partition("/login")[0]
            assert "Overview" in visitor.get(f"{address}/").text
        with httpx.Client() as other:
            assert other.get(link[0]).status_code == 401
        until(lambda: '"status": 401' in said.read_text(), "what was refused is logged")
        assert '"status": 200' not in said.read_text()
        with contextlib.closing(Headway(f"sqlite:///{tmp_path}/work.db")) as app:
            job = app.enqueue("greet", {"name": "you"})
            assert app.result(job.id, timeout=30).unwrap() == "hello"
            (tmp_path / "shop.py").write_text(APP.replace('"hello"', '"hello again"'))
            until(lambda: said.read_text().count("worker started") == 2, "it starts again")
            assert "changed    shop.py" in said.read_text()
            job = app.enqueue("greet", {"name": "you"})
            assert app.result(job.id, timeout=30).unwrap() == "hello again"
            until(lambda: said.read_text().count('"ready"') == 2, "the server runs again")
            first_link, next_link = re.findall(r"http://\S+", said.read_text())
            assert [httpx.get(each).status_code for each in (first_link, next_link)] == [401, 303]
            (tmp_path / "shop.py").write_text("def broken(:")
            until(lambda: "waiting    for the next change" in said.read_text(), "it says that nothing runs")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert [key.revoked_at is not None for key in app.api_keys()] == [True]
            assert app.workers() == []
    finally:
        process.kill()
        process.wait()


def test_only_an_apps_own_files_are_watched(tmp_path: Path) -> None:
    for folder in ("pkg", ".git", "node_modules", "env"):
        (tmp_path / folder).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "app.py").write_text("1")
    watched = WatchedFiles(str(tmp_path))
    assert watched.changed() is None
    for name in ("notes.txt", ".git/x.py", "node_modules/x.py", "env/x.py"):
        (tmp_path / name).write_text("2")
        assert watched.changed() is None
    (tmp_path / "pkg" / "mod.py").write_text("3")
    assert watched.changed() == os.path.join("pkg", "mod.py")
    assert watched.changed() is None
    (tmp_path / "app.py").unlink()
    assert watched.changed() == "app.py"
