"""The one writer of a process: runs all waiting ops in one transaction and answers them after the commit."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from headway.errors import HeadwayError, StoreError
from headway.store.ops import Steps
from headway.store.patience import comes_last, lock_patience_s
from headway.store.run import drive
from headway.store.sqlite.engine.connection import Connection
from headway.store.sqlite.engine.errors import LONGEST_PAUSE_S, Patience, explain, is_busy, is_of_the_file
from headway.store.sqlite.engine.file import File, Identity

T = TypeVar("T")

_LARGEST_GROUP = 256
_OWN_GROWTH = 1.5  # of the pauses of a caller who waits for the lock: the fewer try for it, the more is written
_GROWTH = 1.02  # of the thread's, for whose ops many wait
_LONG_WRITE_S = 0.1
"""After a write that took longer, the writer pauses for a moment: SQLite has no queue for its lock, so other processes,
which have been trying for it at intervals, would lose to one that writes much without a break."""
_LEAST_LEFT_S = 0.001
_LEFT = 0.5
"""While other processes write, too, the writer leaves them the lock after each group for this part of the time that it
took: with more ops waiting it would else have the lock again at once, hundreds of milliseconds long."""
_SHARED_S = 5.0  # since another process wrote: as long it may write again
_MOST_PASSED = 8  # groups of others that pass an op which comes last


class _Request:
    """One op on its way through the writer; `done` is for a waiting thread, `future` for an event loop."""

    value: Any = None
    error: BaseException | None = None
    done: threading.Lock | None = None
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    patience_s = float("inf")  # for a lock whose holder writes nothing
    comes_last = False

    def __init__(self, steps: Callable[[], Steps[Any]]) -> None:
        self.steps = steps

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.future is not None and self.future.done()


class Writer:
    """Group commit. Every op has its own savepoint, so that a failing op fails alone.

    A thread writes the queued ops, so that an event loop never waits for the disk. A blocking caller that finds the
    writer idle runs its op itself, which saves two thread switches. It never runs other callers' ops, so that a signal
    that interrupts it fails only its own.

    Ops that come last are written alone, when others do not wait: in their group these would wait as long as they take.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._turn = threading.Lock()  # its holder may use the connection
        self._later: deque[_Request] = deque()  # those that come last
        self._passed = 0  # groups since they wait
        self._next = False  # the thread has ops and waits for its turn
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._going = False
        self._conn: Connection | None = None
        self._identity: Identity | None = None
        self._seen = (0, 0)  # how far others had written when the lock was looked at last
        self._version = 0  # of the file, which others change
        self._shared_until = float("-inf")  # until then others are presumed to write

    def run(self, steps: Callable[[], Steps[T]]) -> T:
        """Run an op and wait for its commit."""
        request = _Request(steps)
        if self._next or self._turn.locked() or not self._queue.empty():
            request.done = threading.Lock()
            request.done.acquire()
            self._submit(request)
            request.done.acquire()
        else:
            with self._turn:
                self._write([request])
        if request.error is not None:
            raise request.error
        value: T = request.value
        return value

    async def arun(self, steps: Callable[[], Steps[T]]) -> T:
        """The same without blocking the event loop."""
        request = _Request(steps)
        request.loop = asyncio.get_running_loop()
        request.future = request.loop.create_future()
        request.patience_s = lock_patience_s.get()
        request.comes_last = comes_last.get()
        self._submit(request)
        value: T = await request.future
        return value

    def stop(self) -> None:
        """Run what waits, then end the thread and close the connection."""
        with self._starting:
            if self._thread is not None:
                self._queue.put(None)
                self._thread.join()
                self._thread = None
        with self._turn:
            self.disconnect()
        if not self._queue.empty():
            self._start()  # an op was queued behind the stop

    def pause(self, timeout: float) -> bool:
        """Stop writing until `resume`; False if an op is still being written after the timeout."""
        return self._turn.acquire(timeout=timeout)

    def resume(self) -> None:
        self._turn.release()

    def disconnect(self) -> None:
        """Close the connection; the next op opens a new one."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _submit(self, request: _Request) -> None:
        self._queue.put(request)
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="headway-sqlite-writer", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        self._going = True
        while self._going or self._later:
            group = self._next_group()
            if group:
                self._next = True
                with self._turn:
                    self._next = False
                    began = time.monotonic()
                    self._write(group, self._add_queued)
                    took_s = time.monotonic() - began
                    is_shared = self._is_shared()
                _answer(group)
                if took_s > _LONG_WRITE_S:
                    time.sleep(LONGEST_PAUSE_S)
                elif is_shared and (self._later or not self._queue.empty()):
                    time.sleep(min(max(_LEAST_LEFT_S, _LEFT * took_s), LONGEST_PAUSE_S))

    def _next_group(self) -> list[_Request]:
        """Waits for ops and gives all that are queued; one that comes last, alone."""
        group: list[_Request] = []
        if self._passed > _MOST_PASSED or not self._later:
            self._passed = 0
        if not self._later:
            self._add(group, self._queue.get())
        self._passed += 1
        if self._passed <= _MOST_PASSED or not self._later:
            self._add_queued(group)
        if not group and self._later:
            group.append(self._later.popleft())
        return group

    def _add_queued(self, group: list[_Request]) -> None:
        while self._going and len(group) < _LARGEST_GROUP:
            try:
                self._add(group, self._queue.get_nowait())
            except Empty:
                break
        if len(group) > 1 and group[0].comes_last and self._passed <= _MOST_PASSED:
            self._later.appendleft(group.pop(0))  # it has waited for the lock, and others have come

    def _add(self, group: list[_Request], request: _Request | None) -> None:
        if request is None:
            self._going = False  # the thread ends after this group
        elif request.comes_last:
            self._later.append(request)
        else:
            group.append(request)

    def _write(self, group: list[_Request], grow: Callable[[list[_Request]], None] | None = None) -> None:
        """Run the group to its commit; leaves a value or an error in each request, and never raises.

        While another process has the lock, the group grows by what comes meanwhile: a commit costs as much as its first
        op, and the lock may not be free again soon.
        """
        patience: Patience | None = None
        while True:
            if grow is not None:
                grow(group)
            try:
                conn = self._connected()
                conn.execute("begin immediate")
                done = self._run_one(conn, group[0]) if len(group) == 1 else self._run_each(conn, group)
                if done and self._file.identity() != self._identity:
                    self._give_up()  # the file was replaced meanwhile: a commit to the old one would be lost
                    continue
                conn.execute("commit" if done else "rollback")
                return
            except self._file.errors as error:
                if is_busy(error):
                    self._roll_back()
                    if patience is None:
                        patience = Patience(self._file.patience_s, growth=_GROWTH if grow else _OWN_GROWTH)
                        self._seen = self._written_by_others()
                    if patience.wait() and not all(request.is_given_up for request in group):
                        self._refuse_hurried(group, patience, error)
                        if group:
                            continue
                        return
                elif len(group) > 1:
                    self._give_up()
                    self._write_apart(group)
                    return
                failure: BaseException = self._file.explain(error)
                failure.__cause__ = error
            except BaseException as error:
                failure = error
            self._give_up()
            for request in group:
                request.error = failure if len(group) == 1 else _copy_of(failure)
            return

    def _refuse_hurried(self, group: list[_Request], patience: Patience, error: Exception) -> None:
        """Answer those that do not wait any longer, and take them out of the group."""
        waited_s = patience.waited_s
        over = [request for request in group if request.patience_s <= waited_s]
        if not over:
            return
        written = self._written_by_others()
        if written != self._seen:  # others have written meanwhile
            self._seen = written
            patience.count_anew()
            return
        for request in over:
            request.error = explain(error, self._file.path, request.patience_s)
            request.error.__cause__ = error
        group[:] = [request for request in group if request not in over]
        _answer(over)

    def _is_shared(self) -> bool:
        """Whether another process has written lately."""
        now = time.monotonic()
        version = self._data_version()
        if self._version not in (0, version):
            self._shared_until = now + _SHARED_S
        self._version = version
        return now < self._shared_until

    def _data_version(self) -> int:
        """It changes with each commit of another connection; 0 where it cannot be told."""
        if self._conn is not None:
            with suppress(self._file.errors):
                version: int = self._conn.execute("pragma data_version")[0][0]
                return version
        return 0

    def _written_by_others(self) -> tuple[int, int]:
        """It changes with each commit of another connection, and while a large transaction writes: what does not fit
        its cache goes to the log before it commits. 0 where it cannot be told."""
        at = 0
        with suppress(OSError):
            at = os.stat(f"{self._file.path}-wal").st_mtime_ns
        return self._data_version(), at

    def _write_apart(self, group: list[_Request]) -> None:
        """Write each op alone after the group failed: the disk may lack room for just one of them."""
        for request in group:
            self._write([request])

    def _run_each(self, conn: Connection, group: list[_Request]) -> bool:
        """Run the ops; False if none has anything to commit."""
        done = False
        for request in group:
            conn.execute("savepoint op")
            if self._run_one(conn, request):
                done = True
            else:
                conn.execute("rollback to op")
            conn.execute("release op")
        return done

    def _run_one(self, conn: Connection, request: _Request) -> bool:
        """Run an op. A single one gets no savepoint, which would copy every page it changes."""
        if request.is_given_up:
            return False
        try:
            request.value = drive(request.steps(), conn.run)
            request.error = None
            return True
        except self._file.errors as error:
            if is_of_the_file(error):
                raise
            request.error = self._file.explain(error)
            request.error.__cause__ = error
        except Exception as error:
            request.error = error
        return False

    def _connected(self) -> Connection:
        identity = self._file.identity()
        if self._conn is not None and identity != self._identity:
            self.disconnect()
        if self._conn is None:
            self._conn = self._file.open()
            self._identity = self._file.identity()
        return self._conn

    def _give_up(self) -> None:
        self._roll_back()
        self._disconnect_quietly()

    def _roll_back(self) -> None:
        try:
            if self._conn is not None and self._conn.in_transaction:
                self._conn.execute("rollback")
        except self._file.errors:
            self._disconnect_quietly()  # closing rolls back as well

    def _disconnect_quietly(self) -> None:
        with suppress(self._file.errors):  # the first failure is the one to report
            self.disconnect()


def _answer(group: list[_Request]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
    for request in group:
        if request.done is not None:
            request.done.release()
        elif request.loop is not None:
            loops.setdefault(request.loop, []).append(request)
    for loop, requests in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, requests)
        except RuntimeError:
            continue  # that loop is closed: nobody waits for the answer


def _resolve(requests: list[_Request]) -> None:
    for request in requests:
        assert request.future is not None
        if request.future.done():
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.value)


def _copy_of(failure: BaseException) -> BaseException:
    """A copy for each caller: one error raised in several threads would mix their tracebacks."""
    copy: BaseException = (
        type(failure)(*failure.args)
        if isinstance(failure, HeadwayError)
        else StoreError(f"the group failed: {failure}")
    )
    copy.__cause__ = failure.__cause__ or failure
    return copy
