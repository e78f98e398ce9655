"""The doctor's checks of a SQLite file: library, write-ahead log, durability, disk."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from typing import Any

from headway.app.doctor.finding import Finding, note, ok, problem
from headway.errors import StoreError
from headway.store.ops import Op, Statement, Steps
from headway.store.run import Store

_SAFE = (3, 51, 3)
"""The first SQLite without the bug that can damage a file when its write-ahead log is reset."""
_LITTLE = 256 * 1024**2
_LONG_WAL = 512 * 1024**2
_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


def examine(store: Store) -> Iterator[Finding]:
    """The findings about a file; raises `StoreError` if there is none."""
    path = store.describe()
    if not os.path.exists(path):
        raise StoreError(
            f"there is no file {path}: a worker, an enqueue or headway migrate makes it, or name another with --url"
        )
    began = time.perf_counter()
    found = _ask(store)
    yield ok("reach", f"opens and answers in {(time.perf_counter() - began) * 1_000:.1f} ms")
    yield _library(found["version"])
    yield _journal(found["journal_mode"], found["synchronous"])
    yield _log(path)
    yield _disk(path)
    yield _privacy(path)
    yield ok("clock", "the host's own")


def _ask(store: Store) -> dict[str, Any]:
    def steps() -> Steps[dict[str, Any]]:
        version = yield Statement("select sqlite_version()")
        journal = yield Statement("pragma journal_mode")
        synchronous = yield Statement("pragma synchronous")
        return {"version": version[0][0], "journal_mode": journal[0][0], "synchronous": synchronous[0][0]}

    return store.run(Op(steps, writes=False))


def _library(version: str) -> Finding:
    if tuple(int(part) for part in version.split(".")) >= _SAFE:
        return ok("library", f"SQLite {version}")
    wanted = ".".join(map(str, _SAFE))
    # supported, and required for applications that share the file: worth knowing, not broken
    return note(
        "library",
        f"SQLite {version} has a bug that can damage a file which several processes write (fixed in {wanted}): use "
        "sqlite:///… (apsw carries a current SQLite), or a Python with a newer one",
    )


def _journal(mode: str, synchronous: int) -> Finding:
    if mode == "wal" and synchronous >= 2:
        return ok("durability", f"write-ahead log, synchronous={_SYNCHRONOUS[synchronous]}")
    return problem(
        "durability",
        f"journal_mode={mode}, synchronous={_SYNCHRONOUS.get(synchronous, synchronous)}: a power cut can lose work",
        "put the file on a local disk, and let Headway alone set its pragmas",
    )


def _log(path: str) -> Finding:
    try:
        size = os.path.getsize(f"{path}-wal")
    except OSError:
        size = 0
    if size < _LONG_WAL:
        return ok("log", f"{_mib(size)} of write-ahead log beside {_mib(os.path.getsize(path))} of data")
    return problem(
        "log",
        f"the write-ahead log has grown to {_mib(size)}: a reader keeps it from being taken back",
        f"end the process that reads for long: fuser -v {path}",
    )


def _disk(path: str) -> Finding:
    free = shutil.disk_usage(os.path.dirname(path)).free
    if free >= _LITTLE:
        return ok("disk", f"{free / 1024**3:.1f} GiB free")
    return problem(
        "disk", f"only {_mib(free)} free in {os.path.dirname(path)}", "make room: a full disk stops all work"
    )


def _privacy(path: str) -> Finding:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if not mode & 0o077:
        return ok("privacy", "only its owner can read it")
    return note("privacy", f"others on this machine may open it (mode {mode:03o}), payloads and all: chmod 600 {path}")


def _mib(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"
