"""Frees the jobs of plain functions that outlive their worker, once the process has ended that runs them."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

from headway.app.headway import Headway
from headway.worker.host import machine

_THREAD = "headway-abandoned"  # of worker/abandoned_threads.py
_PATIENCE_S = 10


def free_at_end(app: Headway) -> None:
    """Leave a child behind that reaps this process's workers when it has ended. Nobody may run their jobs before, for a
    thread cannot be killed; and without this, they would wait for the end of the lease. No loss is charged: the worker
    has signed off."""
    if not hasattr(os, "fork") or all(thread.name != _THREAD for thread in threading.enumerate()):
        return
    mine = [each.id for each in app.workers() if each.pid == os.getpid() and each.machine == machine() is not None]
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child touches nothing that the other threads had
        child = os.fork() if mine else -1
    if child:
        return
    try:
        signal.alarm(_PATIENCE_S)
        os.setsid()
        for descriptor in (0, 1, 2):  # who reads our output must not wait for this
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        while os.getppid() == parent:
            time.sleep(0.01)
        found = app.store.run(app.store.ops.reap(mine, limit=1_000))
        if committed := [(each.job_id, each.fence) for each in found if each.committed]:
            app.store.run(app.store.ops.settle_committed(committed))
    finally:
        os._exit(0)
