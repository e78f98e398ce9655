"""The stranger of `bench.stranger`: with an admin's and a worker's key of its tenant it does its worst, for so many
seconds, and then says what the server answered."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec

from bench.connection import Connection, listen

_PAUSE_S = 0.02  # after an answer that refuses: it does not give up
_encode = msgspec.json.encode
_HOSTILE = '://user:secret@host token=abcdef pwd="x ' * 380  # 15 kB for which every pattern is tried


class Worst:
    def __init__(self, port: int, admin: str, worker: str) -> None:
        self._port = port
        self._admin, self._worker = f"Authorization: Bearer {admin}\r\n", f"Authorization: Bearer {worker}\r\n"
        self.statuses: Counter[int] = Counter()
        self.bytes = 0

    async def once(self, method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
        connection = Connection(self._port)
        try:
            return await self._ask(connection, method, path, headers or self._admin, body)
        finally:
            connection.close()

    async def again(self, method: str, path: Callable[[], str], body: Callable[[], bytes], headers: str) -> None:
        """Over and over, on one connection."""
        connection = Connection(self._port)
        while True:
            await self._ask(connection, method, path(), headers, body())

    async def _ask(self, connection: Connection, method: str, path: str, headers: str, body: bytes) -> bytes:
        try:
            status, answer = await connection.ask(method, path, headers, body)
        except OSError:
            self.statuses[0] += 1
            await asyncio.sleep(_PAUSE_S)
            return b""
        self.statuses[status] += 1
        self.bytes += len(body)
        if status >= 400:
            await asyncio.sleep(_PAUSE_S)
        return answer

    async def prepare(self) -> None:
        marks = {f"f{n}": "{{event.text}}" if n == 0 else "{{event.n}} and {{event.n}}" for n in range(250)}
        for n in range(30):
            trigger = {"trigger_type": "event", "label": f"t{n}", "event_name": "big", "kind": "keep", "payload": marks}
            await self.once("POST", "/api/v1/jobs/triggers", _encode(trigger))
        large = {"kind": "keep", "payload": {"rows": [{"n": n} for n in range(60_000)]}}
        for n in range(30):
            await self.once("POST", "/api/v1/templates", _encode({"name": f"large{n}", **large}))

    def tasks(self, only: set[str]) -> list[Any]:
        """What it does all at once; only some of it, where these names are given."""
        job = {"kind": "keep", "payload": {"rows": [{"n": n} for n in range(1_200)]}}
        bodies = {
            "batch": _encode({"jobs": [job] * 1_000}),
            "unknown": _encode({"jobs": [{**job, "huh": 1}] * 1_000}),
            "nul": _encode({"jobs": [{**job, "payload": {"a": "\0", **job["payload"]}}] * 1_000}),  # type: ignore[dict-item]
            "events": _encode({"events": [{"name": "big", "payload": {"n": 1, "text": "x" * 100_000}}] * 100}),
            "group": _encode({"jobs": [job] * 1_000, "mode": "sequential"}),
            "deep": b"[" * 2**23,
        }
        strange = [{"id": str(uuid4()), "fence": 1, "error": _HOSTILE} for _ in range(1_000)]
        own = str(uuid4())
        bodies["settle"] = _encode({"worker_id": own, "jobs": strange})
        small = _encode({"kind": "mail", "payload": {"number": 1, "to": "x"}})
        ask = self.again
        v1 = "/api/v1"
        posts = {
            "batch": (f"{v1}/jobs/batch", lambda: bodies["batch"], self._admin, 1),
            "unknown": (f"{v1}/jobs/batch", lambda: bodies["unknown"], self._admin, 1),
            "nul": (f"{v1}/jobs/batch", lambda: bodies["nul"], self._admin, 1),
            "deep": (f"{v1}/jobs/batch", lambda: bodies["deep"], self._admin, 1),
            "group": (f"{v1}/groups", lambda: bodies["group"], self._admin, 1),
            "events": (f"{v1}/events/batch", lambda: bodies["events"], self._admin, 1),
            "claim": (f"{v1}/worker/jobs/claim", lambda: self._claim(own, 1_000), self._worker, 1),
            "settle": (f"{v1}/worker/settle", lambda: bodies["settle"], self._worker, 1),
            "enqueue": (f"{v1}/jobs", lambda: small, self._admin, 50),
            "new-worker": (f"{v1}/worker/jobs/claim", self._new_worker, self._worker, 10),
        }
        doing: dict[str, list[Any]] = {
            name: [ask("POST", partial(str, path), body, headers) for _ in range(count)]
            for name, (path, body, headers, count) in posts.items()
        }
        doing["list"] = [ask("GET", self._list, lambda: b"", self._admin) for _ in range(30)]
        doing["wait"] = [
            ask("POST", lambda: f"{v1}/worker/jobs/claim", self._waiting(n), self._worker) for n in range(150)
        ]
        doing["keys"] = [self._unknown_keys() for _ in range(5)]
        doing["stream"] = [self._stream() for _ in range(200)]
        doing["tab"] = [self._tab() for _ in range(50)]
        return [asyncio.create_task(each) for name in only or doing for each in doing[name]]

    def _list(self) -> str:
        return random.choice(
            [
                "/api/v1/jobs?limit=200&offset=10000",
                "/api/v1/jobs?limit=200&q=abcdef",
                "/api/v1/jobs?limit=200&status=dead&status=queued",
                "/api/v1/jobs/summary",
                "/api/v1/templates?limit=200",
                "/api/v1/jobs/triggers?limit=200",
                "/api/v1/events?limit=200",
                "/api/v1/errors",
                "/api/v1/stats",
                "/api/v1/overview",
                "/api/v1/groups?limit=200",
                "/api/v1/trains",
                "/api/v1/audit?limit=200",
                "/api/v1/machines",
                "/api/v1/queues",
                "/api/v1/openapi.json",
            ]
        )

    def _claim(self, worker_id: str, limit: int, queues: Any = ("default", "mail"), wait: float = 0) -> bytes:
        said = {"worker_id": worker_id, "claim_id": str(uuid4()), "queues": queues, "limit": limit, "wait": wait}
        return _encode(said)

    def _new_worker(self) -> bytes:
        return self._claim(str(uuid4()), 1, [f"q{random.randrange(10_000)}" for _ in range(100)])

    def _waiting(self, n: int) -> Callable[[], bytes]:
        worker_id = str(uuid4())
        return lambda: self._claim(worker_id, 1, ["mail", *(f"invented-{n}-{m}" for m in range(90))], wait=20)

    async def _unknown_keys(self) -> None:
        connection = Connection(self._port)
        while True:
            wrong = f"Authorization: Bearer hw_live_{uuid4().hex[:16]}_{uuid4().hex}\r\n"
            await self._ask(connection, "GET", "/api/v1/jobs", wrong, b"")

    async def _stream(self) -> None:
        answer = await self.once("POST", "/api/v1/jobs", _encode({"kind": "mail", "payload": {"number": 1, "to": "x"}}))
        with suppress(Exception):
            job_id = msgspec.json.decode(answer)["id"]
            await listen(self._port, f"/api/v1/jobs/{job_id}/stream", self._admin)

    async def _tab(self) -> None:
        connection = Connection(self._port)
        await self._ask(connection, "POST", "/api/v1/session", self._admin, b"")
        with suppress(Exception):
            head = bytes(connection._received).partition(b"\r\n\r\n")[0].decode()
            cookie = next(line for line in head.split("\r\n") if line.lower().startswith("set-cookie: "))
            own = f"Cookie: {cookie[12:].partition(';')[0]}\r\nSec-Fetch-Site: same-origin\r\n"
            await listen(self._port, f"/live?of={random.choice(('/', '/jobs', '/queues', '/trains'))}", own)


async def run(port: int, seconds: float, admin: str, worker: str, only: set[str]) -> None:
    worst = Worst(port, admin, worker)
    await worst.prepare()
    tasks = worst.tasks(only)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.sleep(seconds)
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    said = ", ".join(f"{count:,} × {status or 'broken off'}" for status, count in sorted(worst.statuses.items()))
    sys.stdout.write(f"{said}; {worst.bytes / 2**20:,.0f} MiB of bodies\n")


def main() -> None:
    os.nice(10)  # its machine is another one: here it takes what the server and the others leave
    admin, worker = sys.stdin.readline().split()
    asyncio.run(run(int(sys.argv[1]), float(sys.argv[2]), admin, worker, set(sys.argv[3:])))


if __name__ == "__main__":
    main()
