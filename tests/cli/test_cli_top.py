"""`headway top`: once where there is no terminal, live where there is one."""

from __future__ import annotations

import doctest
import io
import os
import pty
import select
import subprocess
import sys

from rich.console import Console

from headway import Headway
from headway.cli.care.top import Top, screen


def test_it_prints_once_without_a_terminal(cli, app: Headway) -> None:
    app.tenant("acme").enqueue("send_email", {"to": "x"}, queue="mail")
    shown = cli.ok("top")
    assert "1 queued" in shown
    assert "no worker listens to queue mail" in shown
    found = cli.json("top", "--tenant", "acme")
    assert found["counts"] == {"queued": 1}
    assert [queue["name"] for queue in found["queues"]] == ["mail"]
    assert cli.json("top", "--tenant", "globex")["counts"] == {}


def test_a_small_terminal_is_filled_and_told_what_is_left_out(app: Headway) -> None:
    for number in range(9):
        app.enqueue("send_email", {"to": "x"}, queue=f"mail-{number}")
    found = Top(app.overview(), {"queued": 12_345, "dead": 67_890}, app.queues(), [])
    out = io.StringIO()
    Console(file=out, width=80, soft_wrap=True).print(screen(found, "queued", "q quit", height=24, width=80))
    lines = out.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith("67,890+ dead")
    assert lines[3].startswith("wait p95")
    assert [line.strip() for line in lines].count("and 5 more") == 2
    assert sum("no worker listens" in line for line in lines) == 4
    assert doctest.testmod(sys.modules[Top.__module__]).failed == 0


def test_keys_pause_sort_and_end_it_and_the_terminal_is_put_back(tmp_path) -> None:
    import termios

    url = f"sqlite:///{tmp_path}/work.db"
    app = Headway(url)
    app.enqueue("send_email", {"to": "x"}, queue="mail")
    app.close()
    own, others = pty.openpty()
    before = termios.tcgetattr(others)
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", "--url", url, "top"], stdin=others, stdout=others, stderr=others
    )
    try:
        _until(own, b"1 queued")
        os.write(own, b"p")
        _until(own, b"paused")
        os.write(own, b"sq")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert termios.tcgetattr(others) == before
    os.close(own)
    os.close(others)


def _until(fd: int, wanted: bytes) -> None:
    said = b""
    while wanted not in said:
        ready, _, _ = select.select([fd], [], [], 30)
        assert ready, said
        said += os.read(fd, 65_536)
