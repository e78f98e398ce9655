"""What goes wrong in the chaos experiments: each fault goes on for as long as its storm, and is over with it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import apsw
import psycopg

from tests.crash.chaos.proxy import Proxy
from tests.crash.crash_site import Server
from tests.crash.ledger import Ledger
from tests.crash.processes import Fleet, Process, until

LEASE_S = 2.0
SETTINGS = {"database_timeout": "3s"}  # beside the brisk ones


class NotHere(Exception):
    """What this experiment needs is not on this machine."""


@dataclass
class Storm:
    """A running storm: its processes, and what its faults reach for."""

    fleet: Fleet
    url: str
    folder: Path
    server: Server | None
    clock: Path
    disk: Path | None = None
    workers: list[Process] = field(default_factory=list)
    enqueuers: list[Process] = field(default_factory=list)
    done: str = ""
    """What was done to it, in a few words."""

    def is_on(self) -> bool:
        return any(process.code is None for process in self.enqueuers)

    def while_on(self, every: float) -> Iterator[int]:
        """Again and again until all is enqueued, at least once."""
        count = 0
        while count == 0 or self.is_on():
            yield count
            count += 1
            time.sleep(every)

    def new_worker(self) -> None:
        self.workers.append(self.fleet.worker(app="chaos.storm", **SETTINGS))

    def busy_worker(self) -> Process:
        """A worker in the midst of jobs; any if there is none before the storm is over."""

        def find() -> list[Process]:
            running = self.ledger.open_runs()
            busy = [worker for worker in self.workers if running.get(worker.pid)]
            return busy or ([] if self.is_on() else self.workers)

        return random.choice(until(find, "a worker runs something"))

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger")

    @property
    def file(self) -> str:
        return self.url.removeprefix("sqlite:///")


Fault = Callable[[Storm], None]


def none(storm: Storm) -> None:
    storm.done = "nothing"


def kill_workers(storm: Storm) -> None:
    kills = 0
    for _ in storm.while_on(0.7):
        victim = storm.busy_worker()
        victim.kill()
        storm.workers.remove(victim)
        storm.new_worker()
        kills += 1
    storm.done = f"{kills} workers killed"


def stop_workers(storm: Storm) -> None:
    """A worker that stands still for longer than its lease, and then goes on as if nothing had been."""
    stops = 0
    for _ in storm.while_on(0.5):
        victim = storm.busy_worker()
        victim.signal(signal.SIGSTOP)
        time.sleep(1.5 * LEASE_S)
        victim.signal(signal.SIGCONT)
        stops += 1
    storm.done = f"{stops} workers stopped for {1.5 * LEASE_S:g} s"


def restart_immediately(storm: Storm) -> None:
    assert storm.server
    restarts = 0
    for _ in storm.while_on(1.5):
        storm.server.stop("immediate")
        storm.server.start()
        restarts += 1
    storm.done = f"{restarts} immediate restarts"


def terminate_backends(storm: Storm, every: float = 0.05) -> None:
    assert storm.server
    ended = 0
    with psycopg.connect(storm.server.url, autocommit=True) as conn:
        for _ in storm.while_on(every):
            found = conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s order by random() limit 1",
                (urlsplit(storm.url).path[1:],),
            ).fetchall()
            ended += len(found)
    storm.done = f"{ended} sessions terminated"


def freeze_server(storm: Storm) -> None:
    assert storm.server
    freezes = 0
    for _ in storm.while_on(2.0):
        with storm.server.frozen():
            time.sleep(1.5 * LEASE_S)
        freezes += 1
    storm.done = f"frozen {freezes} times for {1.5 * LEASE_S:g} s"


def pin_xmin(storm: Storm) -> None:
    """A transaction that sees the beginning for the whole storm: nothing that is dead can be cleared away."""
    with psycopg.connect(storm.url) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select count(*) from headway.jobs")
        for _ in storm.while_on(0.5):
            with psycopg.connect(storm.url, autocommit=True) as other:
                other.execute("vacuum headway.jobs")
    storm.done = "one transaction open all the time"


def hold_write_lock(storm: Storm) -> None:
    holds = 0
    with closing(apsw.Connection(storm.file)) as conn:
        conn.set_busy_timeout(10_000)
        for _ in storm.while_on(1.0):
            conn.execute("begin immediate")
            time.sleep(1.5 * LEASE_S)
            conn.execute("rollback")
            holds += 1
    storm.done = f"held {holds} times for {1.5 * LEASE_S:g} s"


def jump_clock(storm: Storm) -> None:
    """Back and forth by hours; in the end it is ahead, since a retry that was due then would have to be waited for."""

    def jump(seconds: int) -> None:
        part = storm.clock.with_suffix(".part")
        part.write_text(str(seconds))
        part.rename(storm.clock)

    jumps = [-3_600, 3_600, -1_800, 7_200, 5_400, 9_000]
    done = 0
    for count in storm.while_on(1.5):
        if count < len(jumps):
            jump(jumps[count])
            done += 1
    jump(10_000)
    storm.done = f"{done} jumps of 1 to 2.5 hours"


def fill_disk(storm: Storm) -> None:
    assert storm.disk
    full = 0
    for _ in storm.while_on(1.5):
        ballast = storm.disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4_096)
        time.sleep(1.5)
        ballast.unlink()
        full += 1
    storm.done = f"full {full} times for 1.5 s"


# what stands between the storm and its database


@contextmanager
def small_disk(folder: Path, megabytes: int, user: str | None) -> Iterator[Path]:
    """A file system of that size."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        raise NotHere("mounting a small disk needs root")
    try:
        if user is not None:
            (disk / "space").mkdir()
            shutil.chown(disk / "space", user)
            for above in [disk, *disk.parents][:3]:
                above.chmod(above.stat().st_mode | 0o011)
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


class LostReplies:
    """A fault and the proxy that makes it: of the replies, as many as `chance` says do not arrive."""

    def __init__(self, chance: float, *, swallows: bool) -> None:
        self._chance = chance
        self._swallows = swallows

    def __call__(self, storm: Storm) -> None:
        self._proxy.chance = self._chance
        for _ in storm.while_on(0.2):
            pass
        self._proxy.chance = 0
        storm.done = f"{self._proxy.lost} replies lost"

    @contextmanager
    def proxy(self, url: str, server: Server, folder: Path) -> Iterator[str]:
        self._proxy = Proxy(server.folder, swallows=self._swallows)
        try:
            yield _by_port(url, self._proxy.port)
        finally:
            self._proxy.close()


@contextmanager
def pgbouncer(url: str, server: Server, folder: Path) -> Iterator[str]:
    """In transaction mode: a session's next transaction may be on another connection."""
    program = shutil.which("pgbouncer") or _installed("pgbouncer")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    config = folder / "pgbouncer.ini"
    config.write_text(f"""
[databases]
* = host={server.folder} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
""")
    for above in (config, *config.parents[:3]):
        above.chmod(above.stat().st_mode | 0o055)
    as_user = ["-u", server.user or "nobody"] if os.geteuid() == 0 else []
    process = subprocess.Popen([program, "-q", *as_user, str(config)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _listens(port), "pgbouncer listens", within=20)
        yield _by_port(url, port)
    finally:
        process.terminate()
        process.wait()


def _installed(program: str) -> str:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "--yes", "--quiet", program], capture_output=True, check=False)
    found = shutil.which(program)
    if found is None:
        raise NotHere(f"{program} is not installed")
    return found


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _by_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{port}", query=""))
