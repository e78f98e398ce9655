"""Jobs for a SQLite store under test, and other processes that use its file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.store.sqlite import SqliteStore

LIBRARIES = ("apsw", "stdlib")

WORKER = """
import sys
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1], library=sys.argv[2])
ops = store.ops
"""


def job(**values: Any) -> NewJob:
    return NewJob(**{"id": new_id(), "kind": "k", **values})


def worker(worker_id: str | None = None) -> NewWorker:
    return NewWorker(
        id=worker_id or new_id(), hostname="h", pid=1, machine=None, process_started=None, version="1",
        queues={"default": 10}, kinds=("k",), concurrency=10, lease_ms=60_000,
    )  # fmt: skip


def enqueue(store: SqliteStore, count: int = 1) -> list[str]:
    return [found.id for found in store.run(store.ops.enqueue([job() for _ in range(count)]))]


def count(store: SqliteStore) -> int:
    return sum(store.run(store.ops.counts(tenant_id=None)).values())


def process(code: str, *args: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER + code, *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def wait(*processes: subprocess.Popen[str]) -> list[str]:
    said = []
    for one in processes:
        out, err = one.communicate(timeout=300)
        assert one.returncode == 0, err
        said.append(out)
    return said


FORKS = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return pid


def join(pid: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Locked:
    """Another process that holds the file's write lock until it is let go."""

    def __init__(self, path: Path, library: str) -> None:
        self._process = process(
            "from headway.store.sqlite.engine.connection import connect\n"
            "conn = connect(sys.argv[1], sys.argv[2])\n"
            "conn.execute('begin immediate')\n"
            "print('locked', flush=True)\n"
            "sys.stdin.readline()\n"
            "conn.execute('rollback')\n",
            path, library, stdin=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "locked\n"

    def __enter__(self) -> Locked:
        return self

    def let_go(self) -> None:
        self._process.communicate("\n", timeout=180)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
