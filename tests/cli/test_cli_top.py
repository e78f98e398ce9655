"""`headway top`: once where there is no terminal, live where there is one."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

from headway import Headway


def test_it_prints_once_without_a_terminal(cli, app: Headway) -> None:
    app.tenant("acme").enqueue("send_email", {"to": "x"}, queue="mail")
    shown = cli.ok("top")
    assert "1 queued" in shown
    assert "no worker listens to queue mail" in shown
    found = cli.json("top", "--tenant", "acme")
    assert found["counts"] == {"queued": 1}
    assert [queue["name"] for queue in found["queues"]] == ["mail"]
    assert cli.json("top", "--tenant", "globex")["counts"] == {}


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
