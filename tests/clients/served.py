"""A real `headway serve` for the clients: started again whenever it dies, as an init system would."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import httpx2

from headway import Flow, Headway
from tests.crash.forked_programs import ForkedProgram
from tests.crash.processes import BRISK

KINDS = {
    "play": {"queue": "conformance"},
    "play_briefly": {"queue": "conformance", "timeout": "100ms"},
    "play_steps": {"queue": "conformance"},
    "play_apart": {"queue": "apart"},
    "play_never": {"queue": "line"},
    "play_killed": {"queue": "killed"},
    "play_stopped": {"queue": "stopped"},
    "play_deaf": {"queue": "deaf"},
    "play_giving": {"queue": "giving"},
    "play_strange": {"queue": "strange"},
    "play_again": {"queue": "again"},
    "play_filed": {"queue": "filed", "spill": True},
    "play_traced": {"queue": "traced"},
    "perform": {},
    "perform_steps": {},
    "perform_waits": {},
    "perform_kid": {"queue": "kids"},
    "welcome": {"queue": "mail"},
    "checkout": {"queue": "mail"},
}


# a lease that a busy machine does not lose, and that a killed worker's jobs do not wait for too long
SETTINGS = BRISK | {"lease": "10s", "heartbeat": "1s"}


class Served:
    """A server on a port of its own, with keys; `pid_file` says which process it is at the moment."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self._folder = url, folder
        self.pid_file = folder / "server.pid"
        self._declare()
        self._ended = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as unused:
            self._port = int(unused.getsockname()[1])
        self._program: ForkedProgram | None = None
        self._start()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def until_ready(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if httpx2.get(f"{self.address}/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.02)
        raise AssertionError((self._folder / "server.log").read_text()[-3_000:])

    def stop(self) -> None:
        self._ended.set()
        # first the thread: it may be about to start another one
        self._thread.join(60)
        if self._program is not None:
            self._program.kill()

    def _declare(self) -> None:
        code = Headway(self.url)
        for kind, options in KINDS.items():
            code.job(name=kind, max_attempts=3, backoff="20ms", **options)(_nothing)  # type: ignore[arg-type]
        code.flow(name="recorded", max_attempts=1)(_recorded)
        code.enqueue("recorded", {"order": 4}, correlation_id="recorded")
        code.run(until_idle=True)  # a worker declares its kinds
        self.keys = {
            "HEADWAY_KEY": code.tenant("default").create_api_key("app", "operator").text,
            "WORKER_KEY": code.create_api_key("worker", "worker").text,
            "ADMIN_KEY": code.create_api_key("admin", "superadmin").text,
        }
        code.close()

    def _start(self) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        env |= {"HEADWAY_URL": self.url} | {f"HEADWAY_{name.upper()}": value for name, value in SETTINGS.items()}
        env["HEADWAY_ARTIFACTS"] = str(self._folder / "artifacts")
        arguments = ["serve", "--port", str(self._port)]
        self._program = ForkedProgram("headway", arguments, env, self._folder / "server.log")
        self.pid_file.write_text(str(self._program.pid))

    def _keep_alive(self) -> None:
        while not self._ended.wait(0.05):
            if self._program is None or self._program.poll() is not None:
                self._start()


async def _nothing() -> None: ...


async def _recorded(flow: Flow, order: int) -> None:
    await flow.step(reserve, order)
    await flow.step(charge)


def reserve(order: int) -> dict[str, int]:
    return {"order": order}


def charge() -> None:
    raise ValueError("declined")
