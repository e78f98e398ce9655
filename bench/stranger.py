"""`python -m bench.stranger`, `make stranger`: one tenant does its worst on a server on which 499 others work as usual.
The 99th percentile of what these wait may be three times what it is without the stranger, and no second. Ends with 1
where it is more."""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from bench.connection import Connection
from bench.cores import Used
from bench.http import _until_ready
from bench.servers import sites
from headway import Headway

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "one-stranger.md"
_MOST_TIMES, _MOST_S = 3.0, 1.0
_ENOUGH = 300  # requests of one sort, for a percentile of their own
_WARM_S = 8.0
_QUEUES = ("mail", "reports", "default")
_ACTIONS = {"enqueue": 40, "claim": 15, "settle": 0, "list": 20, "look": 10, "page": 15}  # of a hundred; claims settle


class Tenant(msgspec.Struct):
    name: str
    operator: str  # headers of requests
    worker: str
    session: str = ""
    worker_id: str = ""
    jobs: list[str] = []


Times = dict[str, list[float]]


class Usual:
    """What the others do: requests that come at random, from all tenants, whether earlier ones were answered or not."""

    def __init__(self, port: int, tenants: list[Tenant], per_second: float) -> None:
        self._port = port
        self._tenants = tenants
        self._per_second = per_second
        self._idle: list[Connection] = []
        self.times: Times = {}
        self.refused: list[str] = []

    async def run(self, seconds: float) -> None:
        self.times, self.refused = {name: [] for name in _ACTIONS}, []
        began = time.monotonic()
        at = began
        asked: set[asyncio.Task[None]] = set()
        while at < began + seconds:
            at += random.expovariate(self._per_second)
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            (action,) = random.choices(list(_ACTIONS), list(_ACTIONS.values()))
            task = asyncio.create_task(self._act(action, random.choice(self._tenants), at))
            asked.add(task)
            task.add_done_callback(asked.discard)
        if asked:
            await asyncio.wait(asked, timeout=60)

    async def _act(self, action: str, tenant: Tenant, at: float) -> None:
        match action:
            case "enqueue":
                body = {"kind": random.choice(_QUEUES), "payload": {"number": 1, "to": "a@example.com"}}
                made = await self._timed(action, at, "POST", "/api/v1/jobs", tenant.operator, body)
                if made is not None:
                    tenant.jobs[:] = [*tenant.jobs[-5:], made["id"]]
            case "claim":
                said = {"worker_id": tenant.worker_id, "claim_id": str(uuid4()), "queues": _QUEUES, "limit": 5}
                found = await self._timed(action, at, "POST", "/api/v1/worker/jobs/claim", tenant.worker, said)
                if found is not None and found["jobs"]:
                    ends = [{"id": job["id"], "fence": job["fence"]} for job in found["jobs"]]
                    body = {"worker_id": tenant.worker_id, "jobs": ends}
                    now = time.monotonic()
                    await self._timed("settle", now, "POST", "/api/v1/worker/settle", tenant.worker, body)
            case "look" if tenant.jobs:
                await self._timed(action, at, "GET", f"/api/v1/jobs/{random.choice(tenant.jobs)}", tenant.operator)
            case "page":
                await self._timed(action, at, "GET", random.choice(("/", "/jobs", "/queues")), tenant.session)
            case _:
                await self._timed("list", at, "GET", "/api/v1/jobs?limit=50", tenant.operator)

    async def _timed(self, action: str, at: float, method: str, path: str, headers: str, body: Any = None) -> Any:
        connection = self._idle.pop() if self._idle else Connection(self._port)
        try:
            status, answer = await connection.ask(
                method, path, headers, b"" if body is None else msgspec.json.encode(body)
            )
        except OSError as error:
            status, answer = 0, str(error).encode()
        self.times[action].append(time.monotonic() - at)
        self._idle.append(connection)
        if not 200 <= status < 300:
            self.refused.append(f"{method} {path}: {status} {answer[:200].decode(errors='replace')}")
            return None
        return msgspec.json.decode(answer) if path.startswith("/api/") else None


def _header(key: str) -> str:
    return f"Authorization: Bearer {key}\r\n"


def make_tenants(url: str, count: int) -> tuple[list[Tenant], str]:
    """The tenants, each with its keys, and the headers of the stranger, who may do everything in its own."""
    with closing(Headway(url)) as app:
        for kind, queue in (*((each, each) for each in _QUEUES), ("keep", "mail")):
            app.job(name=kind, queue=queue, schema={"type": "object"})(lambda **_: None)
        app.run(until_idle=True)  # declares the kinds: the server has none of their code
        tenants = []
        for n in range(count):
            name = f"tenant-{n}"
            app.create_tenant(name)
            own = app.tenant(name)
            keys = [_header(own.create_api_key(role, role).text) for role in ("operator", "worker")]
            tenants.append(Tenant(name, *keys))
        app.create_tenant("stranger")
        own = app.tenant("stranger")
        return tenants, " ".join(own.create_api_key(role, role).text for role in ("admin", "worker"))


async def log_in(port: int, tenants: list[Tenant]) -> None:
    """A session for each, for its pages, and a worker's id that is registered."""
    for tenant in tenants:
        connection = Connection(port)
        tenant.worker_id = str(uuid4())
        said = {"worker_id": tenant.worker_id, "claim_id": str(uuid4()), "queues": _QUEUES, "limit": 1}
        status, answer = await connection.ask(
            "POST", "/api/v1/worker/jobs/claim", tenant.worker, msgspec.json.encode(said)
        )
        assert status == 200, answer
        await connection.ask("POST", "/api/v1/session", tenant.operator)
        cookie = re.search(rb"set-cookie: ([^;]+);", bytes(connection._received), re.IGNORECASE)
        assert cookie is not None, bytes(connection._received[:500])
        tenant.session = f"Cookie: {cookie[1].decode()}\r\n"
        connection.close()


@contextmanager
def served(url: str, workers: int) -> Iterator[tuple[int, int]]:
    """The port, and the process."""
    command = [sys.executable, "-m", "headway", "--url", url, "--log-format", "text", "--log-level", "warning", "serve"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    server = subprocess.Popen([*command, "--port", str(port), "--workers", str(workers)])
    try:
        _until_ready(port, server)
        yield port, server.pid
    finally:
        server.terminate()
        server.wait(30)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0.0


class Measured(msgspec.Struct):
    """One sort of request, without the stranger and beside it, in milliseconds."""

    action: str
    count: int
    quiet_p50: float
    quiet_p99: float
    p50: float
    p99: float

    @property
    def is_broken(self) -> bool:
        return self.count >= _ENOUGH and (self.p99 > _MOST_TIMES * self.quiet_p99 or self.p99 > _MOST_S * 1_000)


def compared(quiet: Times, storm: Times) -> list[Measured]:
    rows = [_row(action, quiet[action], storm[action]) for action in quiet]
    rows.append(_row("all", [*chain(*quiet.values())], [*chain(*storm.values())]))
    return [row for row in rows if row.count]


def _row(action: str, quiet: list[float], storm: list[float]) -> Measured:
    ms = [1_000 * percentile(values, part) for values in (quiet, storm) for part in (0.5, 0.99)]
    return Measured(action, min(len(quiet), len(storm)), *ms)


def table(store: str, rows: list[Measured], said: str) -> str:
    lines = [
        f"### {store}",
        "",
        "| request | quiet p50 | quiet p99 | beside it p50 | beside it p99 | times |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.action} | {row.quiet_p50:.0f} ms | {row.quiet_p99:.0f} ms | {row.p50:.0f} ms | {row.p99:.0f} ms "
        f"| {row.p99 / max(row.quiet_p99, 0.001):.1f} |"
        for row in rows
    ]
    return "\n".join([*lines, "", said])


def written(page: str, store: str, text: str) -> str:
    """The page with the part of this store as it is now."""
    begin, end = f"<!-- {store} -->", f"<!-- /{store} -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


async def measure(
    port: int, process: int, database: str, tenants: list[Tenant], keys: str, options: argparse.Namespace
) -> tuple[list[Measured], str]:
    await log_in(port, tenants)
    usual = Usual(port, tenants, options.rate)
    await usual.run(_WARM_S)
    used = Used(process, database)
    await usual.run(options.seconds)
    quiet, refused, quiet_cores = usual.times, usual.refused, used.cores()
    command = [sys.executable, "-m", "bench.worst", str(port), str(options.seconds), *(options.only or ())]
    stranger = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert stranger.stdin is not None
    assert stranger.stdout is not None
    stranger.stdin.write(keys.encode() + b"\n")
    await stranger.stdout.readline()  # it has made its triggers, templates and bodies
    used = Used(process, database)
    await usual.run(options.seconds)
    cores = used.cores()
    said, _ = await stranger.communicate()
    refused += usual.refused
    for each in refused[:20]:
        sys.stdout.write(f"refused: {each}\n")
    rows = compared(quiet, usual.times)
    about = (
        f"{len(refused)} requests of the others were refused. The stranger's: {said.decode().strip() or 'none'}. "
        f"Quiet: {quiet_cores}; beside it: {cores}."
    )
    return ([*rows, Measured("refused", _ENOUGH, 0, 0, 0, float("inf"))] if refused else rows), about


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stranger", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), action="append")
    parser.add_argument("--tenants", type=int, default=499, help="how many work as usual")
    parser.add_argument("--rate", type=float, default=60, help="their requests per second, together")
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement")
    parser.add_argument("--workers", type=int, default=2, help="processes of the server")
    parser.add_argument("--only", action="append", help="what the stranger does: batch, list, tab …; by default all")
    parser.add_argument("--write", action="store_true", help="write the table into the docs")
    options = parser.parse_args()
    broken = False
    for store in options.store or ("sqlite", "postgres"):
        with sites([store]) as (site,):
            url = site.create("stranger_")
            tenants, keys = make_tenants(url, options.tenants)
            database = url.rpartition("/")[2] if store == "postgres" else ""
            with served(url, options.workers) as (port, process):
                rows, said = asyncio.run(measure(port, process, database, tenants, keys, options))
        about = (
            f"{options.tenants} tenants with {options.rate:g} requests per second together, {options.seconds:g} s "
            f"each, and a server of {options.workers} processes; {site.about}. {said}"
        )
        shown = [row for row in rows if row.action != "refused"]
        text = table("PostgreSQL" if store == "postgres" else "SQLite", shown, about)
        sys.stdout.write(f"{text}\n\n")
        sys.stdout.flush()
        if options.write:
            PAGE.write_text(written(PAGE.read_text("utf-8"), store, text), "utf-8")
        for row in rows:
            if row.is_broken:
                broken = True
                sys.stdout.write(f"BROKEN: {row.action} took {row.p99:.0f} ms, and {row.quiet_p99:.0f} ms before\n")
    sys.exit(int(broken))


if __name__ == "__main__":
    main()
