"""Holds on to jobs whose threads outlive their worker: nobody else may run them before the thread or process ends."""

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
    """Beats for a worker that has stopped, in a daemon thread of its own, until its last function returned; then gives
    the jobs back and signs off. If the process ends first, so do its threads, and the lease runs out."""

    def __init__(self, store: Store, worker_id: str, runs: Sequence[Execution], *, heartbeat_s: float) -> None:
        self._store = store
        self._worker_id = worker_id
        self._runs = list(runs)
        self._heartbeat_s = heartbeat_s
        self._ended = threading.Event()

    def start(self) -> None:
        for run in self._runs:
            run.on_thread_end = self._ended.set
        threading.Thread(target=self._hold, name="headway-leftover", daemon=True).start()

    def _hold(self) -> None:
        try:
            while self._runs and self._beat():
                # before the wait, too: what ended before it could tell us has only left its mark
                self._give_back()
                if self._runs:
                    self._ended.wait(self._heartbeat_s)
                    self._ended.clear()
            self._store.run(self._store.ops.unregister(self._worker_id))
        except Exception as error:  # a closed store, or one that is away: the lease runs out by itself
            log.warning("could not hold on to jobs whose functions still run", error=str(error))

    def _beat(self) -> bool:
        try:
            beat = self._store.run(self._store.ops.heartbeat(self._worker_id, running=len(self._runs), busy=[]))
        except StoreUnavailable:
            return True
        return beat.alive

    def _give_back(self) -> None:
        ended = [run for run in self._runs if run.thread_ended]
        if not ended:
            return
        settlements = [released(run.claim, "the worker stopped before it ended") for run in ended]
        try:
            self._store.run(self._store.ops.settle(self._worker_id, settlements))
        except StoreUnavailable:
            return
        except HeadwayError as error:
            log.error("could not give back jobs whose functions ended late", jobs=len(ended), error=str(error))
        self._runs = [run for run in self._runs if run not in ended]
