"""The worker in sh and curl of the examples: it runs a job, loses its lease, and is told so."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headway import Headway
from tests.connectors.loopback import answer, serving

WORKER = Path(__file__).parents[3] / "examples" / "worker.sh"
COMMAND = r"""#!/bin/sh
read -r payload
case $payload in
  *hang*) : > hangs; exec sleep 60;;
  *wait*) : > waits; exec sleep 60;;
  *bad*) printf 'no\033 "good"' >&2; exit 3;;
  *prose*) echo "all is well"; exit;;
esac
printf '{"got":%s}' "$payload"
"""


def _until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.02)


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
def test_a_worker_in_sh(app: Headway, served: str, tmp_path: Path) -> None:
    lines = [line for line in WORKER.read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 40
    command = tmp_path / "work"
    command.write_text(COMMAND)
    command.chmod(0o700)
    key = app.create_api_key("sh", "worker", tenant=None).text
    payload = {"fence": 7, "of": ["a\n\\c\t", {"tries": 1}]}
    good = app.enqueue("report", payload, queue="mail").id
    prose = app.enqueue("report", {"what": "prose"}, queue="mail", max_attempts=1).id
    bad = app.enqueue("report", {"what": "bad"}, queue="mail", max_attempts=1).id
    slow = app.enqueue("report", {"what": "hang"}, queue="mail").id
    env = os.environ | {"HEADWAY_API": served, "HEADWAY_KEY": key, "HEADWAY_BEAT": "0.1"}
    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        worker = subprocess.Popen(
            ["sh", str(WORKER), "mail", str(command)], cwd=tmp_path, env=env, stderr=stderr, start_new_session=True
        )
    try:
        _until((tmp_path / "hangs").exists)  # earlier, the claim's answer may still be on its way
        assert app.result(good).value == {"got": payload}
        assert (app.get(prose).status, app.get(prose).error) == ("dead", "its result was refused: is its output JSON?")
        assert (app.get(bad).status, app.get(bad).error) == ("dead", "no good")
        # somebody declares it dead: its next heartbeat is refused, it stops the command and drops the job
        app.declare_dead(app.get(slow).worker_id or "")
        _until(lambda: f"not this worker's job any more: {slow}" in errors.read_text())
        assert (app.get(slow).status, app.attempts(slow)[0].status) == ("scheduled", "lost")
        # one that somebody cancels is stopped, and says why: it did not fail
        app.cancel(slow)
        stopped = app.enqueue("report", {"what": "wait"}, queue="mail").id
        _until((tmp_path / "waits").exists)
        app.cancel(stopped)
        _until(lambda: app.get(stopped).status == "canceled")
        assert (app.attempts(stopped)[0].status, app.get(stopped).error) == ("canceled", "canceled")
        again = app.enqueue("report", {"n": 2}, queue="mail").id
        _until(lambda: app.get(again).status == "succeeded")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
def test_a_worker_in_sh_outlasts_a_server_that_is_away(app: Headway, served: str, tmp_path: Path) -> None:
    """Neither its command nor its result is lost when a heartbeat and the end of the job find no server."""
    away = {"heartbeat": 1, "complete": 1}

    def proxy(asked: Any) -> bytes:
        verb = asked.target.rpartition("/")[2]
        if away.get(verb):
            away[verb] -= 1
            return answer(503, "<html>", connection="close")
        if verb == "heartbeat":
            (tmp_path / "beat").touch()
        headers = {name: asked.headers[name] for name in ("authorization", "content-type")}
        said = httpx2.request(asked.method, served + asked.target, content=asked.body, headers=headers, timeout=60)
        return answer(said.status_code, said.content, connection="close")

    command = tmp_path / "work"
    command.write_text("#!/bin/sh\nuntil [ -e beat ]; do sleep 0.05; done\necho 7\n")
    command.chmod(0o700)
    job = app.enqueue("report", {}, queue="mail", max_attempts=1).id
    with serving(proxy) as front:
        key = app.create_api_key("sh", "worker", tenant=None).text
        env = os.environ | {"HEADWAY_API": front.url, "HEADWAY_KEY": key, "HEADWAY_BEAT": "0.1"}
        worker = subprocess.Popen(
            ["sh", str(WORKER), "mail", str(command)], cwd=tmp_path, env=env, start_new_session=True
        )
        try:
            assert app.result(job, timeout=30).value == 7
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
    assert (away, [each.status for each in app.attempts(job)]) == ({"heartbeat": 0, "complete": 0}, ["succeeded"])
