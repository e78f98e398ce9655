"""Which machine and process this is, and whether another worker's process is provably gone."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path

from headway.config import Settings
from headway.model.fleet import NewWorker, Worker
from headway.model.lease import late_ms

_PROC = Path("/proc")


def new_worker(
    worker_id: str,
    settings: Settings,
    *,
    version: str,
    queues: dict[str, int],
    kinds: tuple[str, ...] = (),
    concurrency: int = 0,
    metadata: Mapping[str, str] | None = None,
) -> NewWorker:
    """The row under which this process registers."""
    pid = os.getpid()
    return NewWorker(
        id=worker_id,
        hostname=hostname(),
        pid=pid,
        machine=machine(),
        process_started=process_started(pid),
        version=version,
        queues=queues,
        kinds=kinds,
        concurrency=concurrency,
        lease_ms=settings.lease_ms,
        late_ms=late_ms(lease_ms=settings.lease_ms, heartbeat_ms=settings.heartbeat_ms),
        metadata={"python": platform.python_version(), **(metadata or {})},
    )


def hostname() -> str:
    return socket.gethostname()


def machine() -> str | None:
    """Names the machine, its boot and its pid namespace, within which a pid means one process. None if unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return None
    return f"{hostname()} {boot} {namespace}"


def process_started(pid: int) -> str | None:
    """When the process began, in ticks since boot: with the pid it names one process. None if unknown."""
    stat = _stat(pid)
    return stat[1] if stat else None


def is_gone(worker: Worker) -> bool | None:
    """True if the worker's process provably ended, False if it runs, None where that cannot be known."""
    if worker.machine is None or worker.process_started is None or worker.machine != machine():
        return None
    try:
        # ask the kernel first: /proc may be mounted so that it hides the processes of other users
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    stat = _stat(worker.pid)
    if stat is None:
        return None
    state, started = stat
    return started != worker.process_started or state in "ZX"


def _stat(pid: int) -> tuple[str, str] | None:
    """State and start time of a process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # the name in brackets may hold anything, brackets and spaces too
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
