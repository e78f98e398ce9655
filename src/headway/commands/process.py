"""Process: the worker's side of a supervised program, from its start until all its descendants are gone."""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from headway.logs import get_logger

log = get_logger("headway.worker")

StreamName = Literal["stdout", "stderr"]

REAP_S = 5.0
"""How long a killed program may take to be gone before its supervisor is killed, too."""
_SCRIPT = str(Path(__file__).with_name("supervisor.py"))
_HEAD = struct.Struct("!cI")
_END = struct.Struct("!i?iddQQQI")
_STREAMS: dict[bytes, StreamName] = {b"O": "stdout", b"E": "stderr"}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor is told to run."""

    program: str
    argv: tuple[str, ...]
    opened: tuple[tuple[int, str, str, str, str], ...] = ()  # which of argv, before, path, after, and its folder
    env: dict[str, str]
    cwd: str
    stdin: bytes | None  # None: nothing to read
    limits: dict[str, int]
    keep_out: int  # bytes of each tail
    keep_err: int
    grace_s: float
    max_output: int | None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended: its exit code, or -N if signal N ended it."""

    exit_code: int
    flooded: bool  # it was killed for writing more than max_output
    left: int  # processes that could not be killed
    user_s: float
    system_s: float
    max_rss: int  # bytes, of its largest process
    stdout_size: int  # of all that it wrote
    stderr_size: int
    stdout: bytes  # the last of it
    stderr: bytes


class NotStarted(Exception):
    """The program could not be started; `stage` is supervisor, under, fork, start, cwd, limits or exec."""

    def __init__(self, stage: str, code: int) -> None:
        super().__init__(f"{stage}: {os.strerror(code)}")
        self.stage = stage
        self.code = code


class SupervisorLost(Exception):
    """The supervisor was killed, and the program with it."""


class Process:
    """One program under its supervisor: `run` returns when all its descendants are gone, cancelled or not."""

    def __init__(
        self,
        order: Order,
        *,
        on_start: Callable[[int], None],
        on_output: Callable[[StreamName, int, bytes], None],
    ) -> None:
        self._order = order
        self._on_start = on_start
        self._on_output = on_output
        self._supervisor: subprocess.Popen[bytes]
        self._orders: socket.socket
        self._frames: socket.socket
        self._control: asyncio.StreamWriter | None = None
        self.ended: Ended | None = None

    async def run(self) -> Ended:
        """Run it to its end; raises `NotStarted` and `SupervisorLost`.

        Cancelled, it asks the program to end, and raises CancelledError once nothing of it is left.
        """
        try:
            self._supervisor, self._orders, self._frames = _start()
        except OSError as error:
            raise NotStarted("supervisor", error.errno or 0) from error
        # no await since its start, so a cancellation cannot miss it
        task = asyncio.ensure_future(self._attend())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._end(task)
            raise

    async def _end(self, task: asyncio.Future[Ended]) -> None:
        """Ask it to end, and wait for that."""
        until = time.monotonic() + self._order.grace_s + REAP_S
        words = b"T"
        while not task.done():
            if words and self._control is not None:
                self._control.write(words)
                words = b""
            if time.monotonic() > until:
                self._supervisor.kill()
            try:
                await asyncio.wait({task}, timeout=0.02 if words else 0.5)
            except asyncio.CancelledError:
                # cancelled again: the worker must end at once, or the timeout passed meanwhile
                words += b"H"
        error = task.exception()
        if error is not None and not isinstance(error, NotStarted | SupervisorLost):
            log.error("the supervisor of a command failed", exc_info=error)

    async def _attend(self) -> Ended:
        """Send the order, read the frames, and wait for the supervisor to end."""
        reader, listening = await asyncio.open_unix_connection(sock=self._frames)
        _, control = await asyncio.open_unix_connection(sock=self._orders)
        try:
            order = marshal.dumps(msgspec.structs.asdict(self._order))
            control.write(struct.pack("!I", len(order)) + order)
            self._control = control
            await self._hear(reader)
        finally:
            listening.close()
            control.close()
            await self._see_off()
        if self.ended is None:
            await asyncio.to_thread(_sweep, self._order.env)
            raise SupervisorLost
        return self.ended

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                letter, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
                body = await reader.readexactly(size)
            except asyncio.IncompleteReadError:
                return
            match letter:
                case b"O" | b"E":
                    self._on_output(_STREAMS[letter], int.from_bytes(body[:8]), body[8:])
                case b"S":
                    self._on_start(int.from_bytes(body, signed=True))
                case b"F":
                    raise NotStarted(body[4:].decode(), int.from_bytes(body[:4]))
                case b"X":
                    self.ended = _ended(body)

    async def _see_off(self) -> None:
        """Reap the supervisor: its socket is closed, so it has ended or is about to."""
        for attempt in range(1_000):
            if self._supervisor.poll() is not None:
                return
            if attempt == 500:
                self._supervisor.kill()
            await asyncio.sleep(0.001 if attempt < 20 else 0.01)


def _start() -> tuple[subprocess.Popen[bytes], socket.socket, socket.socket]:
    """Start by vfork, in about 1 ms; gives the supervisor, the socket for orders to it, and the one that its frames
    come from. No child watcher is needed: when that one closes, it has ended.

    Sockets, not pipes: uvloop closes a pipe's descriptor twice, and a thread that opened a file in between would lose
    it.
    """
    orders, stdin = socket.socketpair()
    frames, stdout = socket.socketpair()
    with stdin, stdout:
        try:
            supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", _SCRIPT],
                stdin=stdin.fileno(),
                stdout=stdout.fileno(),
                stderr=subprocess.DEVNULL,
                # only those variables that some builds of Python need to start
                env={name: value for name in ("LD_LIBRARY_PATH",) if (value := os.environ.get(name)) is not None},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            orders.close()
            frames.close()
            raise
    return supervisor, orders, frames


def _ended(body: bytes) -> Ended:
    code, flooded, left, user_s, system_s, max_rss, out, err, tail = _END.unpack_from(body)
    return Ended(
        exit_code=code,
        flooded=flooded,
        left=left,
        user_s=user_s,
        system_s=system_s,
        max_rss=max_rss,
        stdout_size=out,
        stderr_size=err,
        stdout=body[_END.size : _END.size + tail],
        stderr=body[_END.size + tail :],
    )


def _sweep(env: dict[str, str]) -> None:
    """Kill what an execution left behind after its supervisor died: processes with its marks in their environment."""
    marks = [f"{name}={env[name]}".encode() for name in ("HEADWAY_JOB_ID", "HEADWAY_ATTEMPT") if name in env]
    if len(marks) < 2:
        return
    for _ in range(20):
        found = list(_marked(marks))
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.05)


def _marked(marks: list[bytes]) -> Iterator[int]:
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            try:
                entries = Path("/proc", name, "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(mark in entries for mark in marks):
                yield int(name)
