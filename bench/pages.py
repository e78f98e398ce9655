"""`python -m bench.pages`: the median time that each page of the dashboard takes beside 1,000,000 jobs, asked by a
super admin and by a tenant's viewer; fails if one takes longer than 200 ms."""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

import httpx2 as httpx

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


async def times(url: str, size: Size) -> Iterator[tuple[str, str, float]]:
    """The role, the path and the milliseconds of each page."""
    app = Headway(url)
    keys = {"super admin": app.create_api_key("root", "superadmin").text}
    keys["viewer"] = app.tenant("tenant-0").create_api_key("viewer", "viewer").text
    api = Api(app, site=Site)
    found = []
    for role, key in keys.items():
        headers = {"Sec-Fetch-Site": "same-origin"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api), base_url="http://127.0.0.1", headers=headers, timeout=120
        ) as client:
            await client.post("/login", data={"key": key})
            for path in paths(size):
                answer = await client.get(path)
                if answer.status_code in (303, 403, 404):
                    continue
                if answer.status_code != 200:
                    print(f"{role} {path}: {answer.status_code}")
                    found.append((role, path, math.inf))
                    continue
                found.append((role, path, median([await _asked(client, path) for _ in range(ROUNDS)])))
    await api.aclose()
    await app.aclose()
    return iter(found)


async def _asked(client: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    await client.get(path)
    return 1_000 * (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="only this store")
    parser.add_argument("--jobs", type=int, default=Size.jobs, help="how many jobs there are (1000000)")
    parser.add_argument("--url", help="a database that was filled before")
    options = parser.parse_args()
    size = replace(Size(), jobs=options.jobs)
    slow = 0
    if options.url:
        slow = _print(options.url, size)
    else:
        with sites([options.store] if options.store else ["postgres", "sqlite"]) as opened:
            for site in opened:
                print(site.about)
                url, began = site.create(), time.monotonic()
                fill(url, size, datetime.now(UTC))
                print(f"{size.jobs:,} jobs written in {time.monotonic() - began:.0f} s")
                slow += _print(url, size)
                site.drop(url)
    sys.exit(1 if slow else 0)


def _print(url: str, size: Size) -> int:
    found = list(asyncio.run(times(url, size)))
    for role, path, ms in sorted(found, key=lambda each: -each[2]):
        print(f"{ms:9.1f} ms  {role:12} {path}{'   too slow' if ms > MOST_MS else ''}")
    return sum(ms > MOST_MS for _, _, ms in found)


if __name__ == "__main__":
    main()
