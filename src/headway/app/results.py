"""Waits for jobs to get to a status, or to end. All waiters of an app share one query."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Set
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet

from headway.errors import NotFound, StoreUnavailable
from headway.model.job import Outcome
from headway.model.status import FINISHED, Status
from headway.store.run import Store

_Waiter = tuple["Future[Outcome]", Set[Status]]

_FIRST = 0.01
_SLOWEST = 0.25


class Results:
    """Polls for all awaited outcomes in one thread, which ends when nobody waits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Waiter]] = {}
        self._thread: threading.Thread | None = None

    def outcome(self, job_id: str, timeout_s: float | None, statuses: Set[Status]) -> Outcome | None:
        """Wait until the job has one of these statuses, or has ended; None if the time is up first."""
        future = self._future(job_id, statuses)
        try:
            return future.result(timeout_s)
        except NotYet:
            return None
        finally:
            self._forget(job_id, future)

    async def aoutcome(self, job_id: str, timeout_s: float | None, statuses: Set[Status]) -> Outcome | None:
        future = self._future(job_id, statuses)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            return None
        finally:
            self._forget(job_id, future)

    def _future(self, job_id: str, statuses: Set[Status]) -> Future[Outcome]:
        if self._pid != os.getpid():
            self._reset()
        future: Future[Outcome] = Future()
        with self._lock:
            self._waiting.setdefault(job_id, []).append((future, statuses))
            if self._thread is None:
                self._thread = threading.Thread(target=self._poll, name="headway-results", daemon=True)
                self._thread.start()
        return future

    def _forget(self, job_id: str, future: Future[Outcome]) -> None:
        with self._lock:
            self._keep(job_id, [waiter for waiter in self._waiting.get(job_id, []) if waiter[0] is not future])

    def _keep(self, job_id: str, waiters: list[_Waiter]) -> None:
        if waiters:
            self._waiting[job_id] = waiters
        else:
            self._waiting.pop(job_id, None)

    def _poll(self) -> None:
        pause = _FIRST
        known = 0
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                ids = list(self._waiting)
            if len(ids) != known:
                known, pause = len(ids), _FIRST
            try:
                outcomes = self._store.run(self._store.ops.results(ids, tenant_id=None))
            except StoreUnavailable:
                time.sleep(_SLOWEST)
                continue
            except BaseException as error:
                self._fail(error)
                continue
            if self._deliver(ids, outcomes):
                pause = _FIRST
                continue
            time.sleep(pause)
            pause = min(pause * 1.25, _SLOWEST)

    def _deliver(self, ids: list[str], outcomes: dict[str, Outcome]) -> bool:
        delivered = False
        with self._lock:
            for job_id in ids:
                outcome, waiters = outcomes.get(job_id), self._waiting.get(job_id, [])
                over = outcome is None or outcome.status in FINISHED
                told = [waiter for waiter in waiters if over or (outcome and outcome.status in waiter[1])]
                if not told:
                    continue
                delivered = True
                self._keep(job_id, [waiter for waiter in waiters if waiter not in told])
                for future, _ in told:
                    if not future.set_running_or_notify_cancel():
                        continue
                    if outcome is None:
                        future.set_exception(NotFound(f"job {job_id} was pruned before its result was read"))
                    else:
                        future.set_result(outcome)
        return delivered

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            for waiters in self._waiting.values():
                for future, _ in waiters:
                    if future.set_running_or_notify_cancel():
                        future.set_exception(error)
            self._waiting.clear()
