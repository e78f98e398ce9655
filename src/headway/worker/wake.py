"""Wake-ups: an enqueue wakes a worker of its own process, or by a hint one in another process of this machine.

Each worker binds a datagram socket in a folder that only its user can enter, named after the database. A hint is the
name of a queue, or `EVENTS`. Hints are best effort: one that is lost costs a few milliseconds, since workers poll as
well.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import stat
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress

_AT_MOST_EVERY_S = 0.001  # for each queue
_LIST_AT_MOST_EVERY_S = 0.05  # the folder: workers come and go rarely
_TARGETS = 3  # how many sockets a hint tries until one takes it
_LONGEST = 1_024  # bytes of a hint; the name of a queue has 128 characters at most
_REFRESH_S = 60.0
_AT_ONCE = 100  # hints that a worker reads before its other work goes on
_FIRST, _PASSED_ON = b"1", b"2"

EVENTS = "*events"
"""Stands for a queue where an event was emitted; no queue can have this name."""

News = tuple[str | None, str | None]
"""The tenant and the kind of a job that was enqueued; None: not known."""

Listener = Callable[[str | None, frozenset[News]], bool]
"""Gets the queue, and what came there; returns whether this worker has a free slot there, so that no other needs to be
woken."""


class Wake:
    """Tells the workers of this process, from any thread, that a queue got work."""

    def __init__(self, hint: Callable[[str], None] | None = None) -> None:
        self._hint = hint
        self._listeners: tuple[Listener, ...] = ()
        self._pid = 0

    def poke(self, queue: str | None, news: frozenset[News] = frozenset()) -> None:
        """Call it after the commit, so that a claim finds the job. None: any queue may have work. No news: what came is
        not known."""
        # a forked child has a copy of the listeners, but their event loops run in the parent
        listeners = self._listeners if self._listeners and os.getpid() == self._pid else ()
        taken = [listener(queue, news) for listener in listeners]
        if self._hint is not None and queue is not None and True not in taken:
            self._hint(queue)

    def add(self, listener: Listener) -> None:
        if self._pid != os.getpid():
            self._listeners = ()
            self._pid = os.getpid()
        self._listeners = (*self._listeners, listener)

    def remove(self, listener: Listener) -> None:
        self._listeners = tuple(known for known in self._listeners if known != listener)


def folder_of(install_id: str | None) -> str | None:
    """Where the workers of this database bind their sockets; None if the platform has no Unix sockets.

    $HEADWAY_RUNTIME_DIR, or a folder of this user in /tmp: not $XDG_RUNTIME_DIR, which a service may not have."""
    if install_id is None or not hasattr(socket, "AF_UNIX"):
        return None
    base = os.environ.get("HEADWAY_RUNTIME_DIR") or os.path.join(tempfile.gettempdir(), f"headway-{os.getuid()}")
    return os.path.join(base, install_id)


class Hints:
    """Sends hints to the workers of one database, from any thread."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}
        self._workers: dict[str, frozenset[str]] = {}  # by the path of the socket: its queues
        self._listed_at = 0.0
        self._seen_at = 0

    def send(self, queue: str) -> None:
        """Wake one worker of the queue, if there is any; at most once a millisecond for each queue."""
        now = time.monotonic()
        if now >= self._next.get(queue, 0.0):
            self._next[queue] = now + _AT_MOST_EVERY_S
            self._send(queue, _FIRST, but=None)

    def pass_on(self, queue: str, *, but: str) -> None:
        """Hand a hint on to another worker than the one with this socket."""
        self._send(queue, _PASSED_ON, but=but)

    def _send(self, queue: str, mark: bytes, *, but: str | None) -> None:
        paths = [path for path, queues in self._listed().items() if queue in queues and path != but]
        if not paths:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for path in random.sample(paths, min(_TARGETS, len(paths))):
                if _delivered(sender, path, mark + queue.encode()):
                    return

    def _listed(self) -> dict[str, frozenset[str]]:
        now = time.monotonic()
        if now < self._listed_at + _LIST_AT_MOST_EVERY_S or not self._lock.acquire(blocking=False):
            return self._workers
        try:
            self._listed_at = now
            changed_at = os.stat(self._folder).st_mtime_ns
            if changed_at != self._seen_at:
                self._workers = dict(_workers_in(self._folder))
                # a change a moment later may have the same time: list it once more then
                self._seen_at = changed_at if time.time_ns() - changed_at > 100_000_000 else 0
        except OSError:
            self._workers, self._seen_at = {}, 0
        finally:
            self._lock.release()
        return self._workers


class HintListener:
    """The socket of one worker. `wake` is called with the queue and returns whether a slot is free there; if not, the
    hint is passed on to another worker, once."""

    def __init__(self, folder: str, queues: Iterable[str], wake: Callable[[str], bool]) -> None:
        self.path = os.path.join(folder, uuid.uuid4().hex[:16])
        self._folder = folder
        self._queues = frozenset(queues)
        self._wake = wake
        self._others = Hints(folder)
        self._socket: socket.socket | None = None
        self._refresh: asyncio.TimerHandle | None = None

    def open(self) -> bool:
        """Bind the socket and listen on the running event loop; False where the folder is not this user's own."""
        event_loop = asyncio.get_running_loop()
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            _make_private(self._folder)
            bound.setblocking(False)
            bound.bind(self.path)
            # the list comes last, so that a sender who finds it finds the socket, too
            _write(self.path + ".queues", "\n".join(sorted(self._queues)))
            event_loop.add_reader(bound.fileno(), self._read, bound)
        except (OSError, NotImplementedError):
            bound.close()
            _remove(self.path)
            return False
        self._socket = bound
        self._refresh = event_loop.call_later(_REFRESH_S, self._open_again)
        return True

    def serve(self, queues: Iterable[str]) -> None:
        """Take hints for these queues from now on."""
        self._queues = frozenset(queues)
        if self._socket is not None:
            with suppress(OSError):
                _write(self.path + ".queues", "\n".join(sorted(self._queues)))

    def close(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
            _remove(self.path)
            with suppress(OSError):
                os.rmdir(self._folder)  # empty: this was the last worker

    def _open_again(self) -> None:
        """A cleaner of /tmp may have removed the files."""
        if os.path.exists(self.path) and os.path.exists(self.path + ".queues"):
            self._refresh = asyncio.get_running_loop().call_later(_REFRESH_S, self._open_again)
        else:
            self.close()
            self.open()

    def _read(self, bound: socket.socket) -> None:
        hinted: dict[str, bool] = {}
        for _ in range(_AT_ONCE):
            try:
                hint = bound.recv(_LONGEST)
            except OSError:
                break
            queue = hint[1:].decode(errors="replace")
            if queue in self._queues:
                hinted[queue] = hinted.get(queue, False) or hint[:1] == _FIRST
        for queue, may_pass_on in hinted.items():
            if not self._wake(queue) and may_pass_on:
                self._others.pass_on(queue, but=self.path)


def _delivered(sender: socket.socket, path: str, hint: bytes) -> bool:
    try:
        sender.sendto(hint, path)
    except BlockingIOError:
        return True  # its buffer is full of hints: it will claim anyway
    except ConnectionRefusedError:
        _remove(path)  # its worker was killed
        return False
    except OSError:
        return False
    return True


def _workers_in(folder: str) -> list[tuple[str, frozenset[str]]]:
    found = []
    for name in os.listdir(folder):
        if name.endswith(".queues"):
            path = os.path.join(folder, name)
            with suppress(OSError), open(path, encoding="utf-8") as file:
                found.append((path.removesuffix(".queues"), frozenset(file.read().split("\n"))))
    return found


def _make_private(folder: str) -> None:
    """Make the folder and the one above it for this user alone; raises `OSError` where they are somebody else's."""
    for path in (os.path.dirname(folder), folder):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{path} is not this user's own")


def _write(path: str, text: str) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def _remove(path: str) -> None:
    for each in (path + ".queues", path):
        with suppress(OSError):
            os.unlink(each)
