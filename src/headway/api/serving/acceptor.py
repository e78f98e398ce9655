"""Accepts connections for one of several processes, none of which takes many more than the others."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import socket
import tempfile
from collections.abc import Callable
from typing import IO

_LEAD = 2  # a process with so many connections more than another one leaves the next to that
_PATIENCE_S = 0.002  # how long it leaves them; then it takes some anyway: the other one may be busy, or have died
_TAKEN_ANYWAY = 8
_EXHAUSTED_S = 0.1  # how long it waits when it has no more files
_SLOT = 4  # bytes of a count
_FULL = 2**32 - 1  # the count of a process that accepts nothing more


class Shares:
    """How many connections each process of a server has, in memory that they share."""

    def __init__(self, memory: mmap.mmap, index: int) -> None:
        self._counts = memoryview(memory).cast("I")
        self._index = index
        self.set(0)  # an earlier process may have died with some

    @staticmethod
    def file(processes: int) -> IO[bytes]:
        """A file without a name, which the processes inherit; in memory where the system can do that."""
        if hasattr(os, "memfd_create"):
            file: IO[bytes] = open(os.memfd_create("headway-shares"), "r+b")  # noqa: SIM115
        else:
            file = tempfile.TemporaryFile()  # noqa: SIM115
        file.truncate(processes * _SLOT)
        return file

    @classmethod
    def inherited(cls, fd: int, index: int) -> Shares:
        """For one of several processes, from the descriptor of that file."""
        return cls(mmap.mmap(fd, 0), index)

    @classmethod
    def alone(cls) -> Shares:
        """For the only process."""
        return cls(mmap.mmap(-1, _SLOT), 0)

    def set(self, count: int) -> None:
        """Tell the others how many this process has."""
        self._counts[self._index] = count

    def is_ahead(self) -> bool:
        """Whether another process has clearly fewer."""
        return self._counts[self._index] >= min(self._counts) + _LEAD


class Acceptor:
    """Accepts what comes to a socket that several processes may listen on. The event loop of each is woken, and the
    first one would take every connection there is: of two, one could have all clients that stay connected."""

    def __init__(
        self,
        listener: socket.socket,
        shares: Shares,
        *,
        connect: Callable[[socket.socket], None],
        count: Callable[[], int],
    ) -> None:
        """`connect` is called with each connection, and `count` says how many there are."""
        self._listener = listener
        self._shares = shares
        self._connect = connect
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    def publish(self) -> None:
        """Tell the others how many connections there are; from time to time, since some end."""
        self._shares.set(self._count())

    def stop(self) -> None:
        """Accept nothing more; the others need not wait for this process."""
        self._shares.set(_FULL)
        self._loop.remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        self.publish()
        while not self._shares.is_ahead():
            if not self._accept_one():
                return
        self._leave_to_others(_PATIENCE_S)

    def _accept_some(self) -> None:
        """After a pause."""
        self._pause = None
        for _ in range(_TAKEN_ANYWAY):
            if not self._accept_one():
                break
        if self._pause is None:
            self._listen()

    def _accept_one(self) -> bool:
        """Whether there was one."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._leave_to_others(_EXHAUSTED_S)
            return False
        connection.setblocking(False)
        self._connect(connection)
        self.publish()
        return True

    def _leave_to_others(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(seconds, self._accept_some)
