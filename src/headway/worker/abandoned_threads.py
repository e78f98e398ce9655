"""Keeps the jobs of threads that outlive their worker: nobody else may run them before the thread or process ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from headway.errors import HeadwayError, StoreUnavailable
from headway.logs import get_logger
from headway.model.retry import released
from headway.store.run import Store
from headway.worker.execution import Execution

log = get_logger("headway.worker")


class AbandonedThreads:
    """Sends heartbeats for a stopped worker, from a daemon thread, until its last function returned; then gives the
    jobs back and signs off. If the process ends first, its threads end with it and the lease runs out."""

    def __init__(self, store: Store, worker_id: str, runs: Sequence[Execution], *, heartbeat_s: float) -> None:
        self._store = store
        self._worker_id = worker_id
        self._runs = list(runs)
        self._heartbeat_s = heartbeat_s
        self._ended = threading.Event()

    def start(self) -> None:
        for run in self._runs:
            run.on_thread_end = self._ended.set
        threading.Thread(target=self._keep, name="headway-abandoned", daemon=True).start()

    def _keep(self) -> None:
        try:
            while self._runs and self._heartbeat():
                # also before the wait: a thread that ended before `start` set no event
                self._give_back()
                if self._runs:
                    self._ended.wait(self._heartbeat_s)
                    self._ended.clear()
            self._store.run(self._store.ops.unregister(self._worker_id))
        except Exception as error:  # the store is closed or away: the lease runs out by itself
            log.warning("could not keep the jobs of functions that still run", error=str(error))

    def _heartbeat(self) -> bool:
        try:
            reply = self._store.run(self._store.ops.heartbeat(self._worker_id, running=len(self._runs), busy=[]))
        except StoreUnavailable:
            return True
        return reply.alive

    def _give_back(self) -> None:
        ended = [run for run in self._runs if run.thread_ended]
        if not ended:
            return
        settlements = [released(run.claim, "the worker stopped before it ended") for run in ended]
        try:
            lost = self._store.run(self._store.ops.settle(self._worker_id, settlements)).lost
            if lost:  # or committed with its own rows
                self._store.run(self._store.ops.settle_committed(lost))
        except StoreUnavailable:
            return
        except HeadwayError as error:
            log.error("could not give back jobs whose functions ended late", jobs=len(ended), error=str(error))
        self._runs = [run for run in self._runs if run not in ended]
