"""`python -m bench.pages`: the median time that each page of the dashboard takes beside 1,000,000 jobs, asked by a
super admin and by a tenant's viewer, and the CPU time of that; fails if one takes longer than 200 ms."""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

import httpx2 as httpx
import psutil
import psycopg

from bench.crowd import Size, fill, job_id
from bench.servers import sites
from headway import Headway
from headway.api import Api
from headway.dashboard import Site
from headway.dashboard.pages import PAGES

MOST_MS = 200
ROUNDS = 3
# what a path's names stand for, and what each page is asked with
_QUERIES = {
    "/": ("", "?span=day", "?span=week"),
    "/jobs": (
        *("", "?status=dead", "?status=queued", "?status=running", "?status=scheduled", "?order=oldest"),
        *("?queue=queue-7", "?kind=kind-7", "?status=succeeded&kind=kind-7", "?train=order/7", "?q=019000", "?q=none"),
        *("?kind=none", "?status=dead&kind=none", "?train=none", "?unique_key=none", "?queue=none", "?source=schedule"),
        *("?error=0123456789abcdef", "?tag=none", "?correlation_id=none", f"?group={job_id(0)}"),
    ),
    "/trains": ("", "?blocked=1"),
    "/triggers": ("", "?type=event"),
    "/events": ("", "?status=failed", "?name=order.paid"),
}
_NOT_ALONE = ("/do/{name}", "/tenant")


def paths(size: Size) -> Iterator[str]:
    """Every page, with the filters that a person would choose."""
    names = {"name": "queue-7", "key": "order%2F7", "kind": "kind-7"}
    for route in PAGES:
        if route.method != "GET" or route.path in _NOT_ALONE:
            continue
        if route.path == "/jobs/{id}":
            for n in (
                size.finished - 300,
                size.finished + 10,
                size.finished + 1_000,
                size.finished + 3_000,
                size.jobs - 7,
            ):
                yield f"/jobs/{job_id(n)}"
        elif set(re.findall(r"{(\w+)}", route.path)) <= set(names):
            for query in _QUERIES.get(route.path, ("",)):
                yield route.path.format(**names) + query


@dataclass(frozen=True)
class Timed:
    """One page: how long it took, and how much CPU time of this process and of the database's server."""

    role: str
    path: str
    ms: float
    cpu_ms: float = 0.0


async def times(url: str, size: Size, only: str) -> list[Timed]:
    """Each page whose path has `only` in it."""
    app = Headway(url)
    keys = {"super admin": app.create_api_key("root", "superadmin").text}
    keys["viewer"] = app.tenant("tenant-0").create_api_key("viewer", "viewer").text
    api = Api(app, site=Site)
    found = []
    cpu = _Cpu(url)
    for role, key in keys.items():
        headers = {"Sec-Fetch-Site": "same-origin"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api), base_url="http://127.0.0.1", headers=headers, timeout=120
        ) as client:
            await client.post("/login", data={"key": key})
            for path in (each for each in paths(size) if only in each):
                answer = await client.get(path)
                if answer.status_code in (303, 403, 404):
                    continue
                if answer.status_code != 200:
                    print(f"{role} {path}: {answer.status_code}")
                    found.append(Timed(role, path, math.inf))
                    continue
                before = cpu.ms()
                ms = median([await _asked(client, path) for _ in range(ROUNDS)])
                found.append(Timed(role, path, ms, (cpu.ms() - before) / ROUNDS))
    await api.aclose()
    await app.aclose()
    return found


async def _asked(client: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    await client.get(path)
    return 1_000 * (time.perf_counter() - began)


class _Cpu:
    """The CPU time that this process took, and the sessions of the database beside it."""

    def __init__(self, url: str) -> None:
        self._conn = None if url.startswith("sqlite") else psycopg.connect(url, autocommit=True)

    def ms(self) -> float:
        seconds = time.process_time()
        if self._conn is not None:
            others = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            for (pid,) in self._conn.execute(others):
                taken = psutil.Process(pid).cpu_times()
                seconds += taken.user + taken.system
        return 1_000 * seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="only this store")
    parser.add_argument("--jobs", type=int, default=Size.jobs, help="how many jobs there are (1000000)")
    parser.add_argument("--url", help="a database of yours, which is kept: it is filled if it has no jobs")
    parser.add_argument("--only", default="", help="only pages whose path has this in it")
    options = parser.parse_args()
    size = replace(Size(), jobs=options.jobs)
    slow = 0
    if options.url:
        _fill_once(options.url, size)
        slow = _print(options.url, size, options.only)
    else:
        with sites([options.store] if options.store else ["postgres", "sqlite"]) as opened:
            for site in opened:
                print(site.about)
                url, began = site.create(), time.monotonic()
                fill(url, size, datetime.now(UTC))
                print(f"{size.jobs:,} jobs written in {time.monotonic() - began:.0f} s")
                slow += _print(url, size, options.only)
                site.drop(url)
    sys.exit(1 if slow else 0)


def _fill_once(url: str, size: Size) -> None:
    app = Headway(url)
    app.migrate()
    is_empty = not app.counts(most=1)
    app.close()
    if is_empty:
        fill(url, size, datetime.now(UTC))


def _print(url: str, size: Size, only: str) -> int:
    found = asyncio.run(times(url, size, only))
    for each in sorted(found, key=lambda each: -each.ms):
        late = "   too slow" if each.ms > MOST_MS else ""
        print(f"{each.ms:9.1f} ms {each.cpu_ms:9.1f} ms of CPU  {each.role:12} {each.path}{late}")
    return sum(each.ms > MOST_MS for each in found)


if __name__ == "__main__":
    main()
