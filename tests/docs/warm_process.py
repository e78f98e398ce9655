"""Forks `headway` commands and page runners from a process that has imported Headway already.

Importing it takes a third of a second, which every page and every command would spend anew. `python -m
tests.docs.warm_process SOCKET` is the process that forks. `_CLIENT` takes the place of `headway` on the PATH: it hands
over its arguments, environment, folder and open files, passes signals on, and ends as the forked process does. (The
crash tests fork too, in crash/forked_programs.py: their processes are started from Python, these from a shell.)
"""

from __future__ import annotations

import marshal
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

_CLIENT = """\
import marshal, os, sys, _signal, _socket
SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2)
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({socket!r})
ignored = [int(each) for each in SIGNALS if _signal.getsignal(each) == _signal.SIG_IGN]
for each in SIGNALS:
    _signal.signal(each, lambda number, _frame: server.send(bytes([number])))
request = marshal.dumps(({script!r}, sys.argv[1:], os.getcwd(), dict(os.environ), ignored))
files = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))
server.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
server.sendall(request)
end = server.recv(2)
if end[:1] == b"s":
    _signal.signal(end[1], _signal.SIG_DFL)
    os.kill(os.getpid(), end[1])
os._exit(end[1] if end else 70)
"""

HEADWAY = "headway"  # the script of `headway` itself
_ENDS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
NOT_FORKED = "NOT_FORKED"  # a variable: the command that the installed program runs


class WarmProcess:
    """Starts the process that forks; ends it, and whatever it forked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "socket"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.docs.warm_process", str(self._socket)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,  # which closes when this process ends, however it does
            env={name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
            | {"PYTHONUNBUFFERED": "1"},
        )
        end = time.monotonic() + 60
        while not self._socket.exists():
            assert self._process.poll() is None, "it ended at its start"
            assert time.monotonic() < end, "it did not start"
            time.sleep(0.01)

    def program(self, name: str, script: str) -> Path:
        """A program of this name, alone in its folder, that runs a script in a forked process."""
        path = self._folder / f"bin-{name}" / name
        path.parent.mkdir(exist_ok=True)  # asked for again by a module whose tests come in two parts
        client = _CLIENT.format(socket=str(self._socket), script=script)
        code = self._folder / f"{name}.py"
        code.write_text(client, "utf-8")
        installed = shlex.quote(str(Path(sys.executable).with_name(name)))
        forked = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(code))}"
        path.write_text(f'#!/bin/sh\n[ "$1" = "${NOT_FORKED}" ] && exec {installed} "$@"\nexec {forked} "$@"\n')
        path.chmod(0o755)
        return path

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


class _Server:
    """Has one thread only, so that a fork copies no lock that another one holds."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path + ".new")
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._clients: dict[int, socket.socket] = {}  # by process id
        self._ends, self._end = socket.socketpair()  # a byte for each forked process that ended
        self._ends.setblocking(False)
        self._end.setblocking(False)
        signal.set_wakeup_fd(self._end.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _ENDS:
            signal.signal(number, signal.SIG_IGN)  # it ends when its parent does, and kills what it forked first
        self._selector.register(self._ends, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        os.rename(path + ".new", path)  # whoever finds it can connect

    def serve(self) -> Any:
        """Returns in each forked process, with what it was asked to run, and at the end, with None."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    if (asked := self._fork(self._listener.accept()[0])) is not None:
                        return asked
                elif key.fileobj is self._ends:
                    self._reap()
                elif key.fileobj is sys.stdin:
                    for pid in self._clients:
                        _kill(pid)
                    return None
                else:
                    self._pass_on(key.data)

    def _fork(self, client: socket.socket) -> Any:
        size, files, _, _ = socket.recv_fds(client, 4, 3)
        sent = _exactly(client, int.from_bytes(size, "big"))
        if not sent:  # its client was killed before it said what to run
            for fd in files:
                os.close(fd)
            client.close()
            return None
        request = marshal.loads(sent)
        pid = os.fork()
        if pid:
            for fd in files:
                os.close(fd)
            self._clients[pid] = client
            self._selector.register(client, selectors.EVENT_READ, pid)
            return None
        for other in (client, self._listener, self._ends, self._end, *self._clients.values()):
            other.close()
        self._selector.close()
        _become(request, files)
        return request

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._ends.recv(4096)
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            client = self._clients.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            with suppress(OSError):
                client.sendall(bytes([ord("s"), -code] if code < 0 else [ord("c"), code]))
            self._forget(client)
            client.close()

    def _pass_on(self, pid: int) -> None:
        """Pass signals on to the forked process, and kill it if its client was killed."""
        client = self._clients.get(pid)
        if client is None:
            return  # it ended just now
        signals = b""
        with suppress(ConnectionError):
            signals = client.recv(16)
        for number in signals:
            os.kill(pid, number)
        if not signals:
            self._forget(client)
            _kill(pid)

    def _forget(self, client: socket.socket) -> None:
        with suppress(KeyError):
            self._selector.unregister(client)


def _exactly(client: socket.socket, size: int) -> bytes:
    """Nothing, if there is less."""
    found = b""
    while len(found) < size:
        if not (more := client.recv(size - len(found))):
            return b""
        found += more
    return found


def _kill(pid: int) -> None:
    """End it and what it started."""
    for kill in (os.kill, os.killpg):  # it has a group of its own only a moment after it was forked
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _become(request: Any, files: list[int]) -> None:
    """Take over what a process has when it is started."""
    _, _, folder, environment, ignored = request
    os.setsid()  # so that all that it starts can be ended with it
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, *_ENDS):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    for number, fd in enumerate(files):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


def _run() -> None:
    import_module("tests.imported_ahead")
    asked = _Server(sys.argv[1]).serve()
    if asked is None:
        return
    script, arguments, *_ = asked
    sys.path.remove(str(Path(__file__).parents[2]))  # where `python -m` found this module
    sys.argv[:] = [script, *arguments]
    if script == HEADWAY:
        from headway import __main__

        sys.modules["__main__"] = __main__  # what processes that it spawns import
        __main__.main()
    else:
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    _run()
