"""`python -m bench.tabs`: 50 open tabs of the dashboard for ten minutes: transactions, the server's memory and the
write-ahead log, minute by minute."""

from __future__ import annotations

import argparse
import asyncio
import re
import struct
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

import httpx2 as httpx
import psutil
import psycopg

from bench.crowd import Size, fill
from bench.servers import path_of, sites
from headway import Headway

_PAGES = ("/", "/jobs", "/queues", "/workers", "/trains")


async def _tab(client: httpx.AsyncClient, page: str, got: list[int]) -> None:
    async with client.stream("GET", "/live", params={"of": page}, timeout=None) as answer:
        assert answer.status_code == 200, answer.status_code
        async for chunk in answer.aiter_bytes():
            got[0] += len(chunk)


def _written(url: str) -> tuple[int, int]:
    """How many transactions there were, and bytes of the write-ahead log: on SQLite those that wrote, as the index of
    its log counts them, and the size of that log."""
    if url.startswith("sqlite"):
        wal, index = path_of(url + "-wal"), path_of(url + "-shm")
        if not wal.exists() or not index.exists():
            return 0, 0
        with index.open("rb") as file:
            (changes,) = struct.unpack_from("=I", file.read(12), 8)  # iChange of the WAL-index header
        return changes, wal.stat().st_size
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute(
            "select xact_commit, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint from pg_stat_database"
            " where datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


async def _watch(base: str, url: str, key: str, server: psutil.Process, options: argparse.Namespace) -> None:
    got = [0]
    limits = httpx.Limits(max_connections=options.tabs + 5)
    async with httpx.AsyncClient(
        base_url=base, headers={"Sec-Fetch-Site": "same-origin"}, limits=limits, timeout=60
    ) as client:
        await client.post("/login", data={"key": key})
        tabs = [asyncio.create_task(_tab(client, _PAGES[n % len(_PAGES)], got)) for n in range(options.tabs)]
        before, began = _written(url), time.monotonic()
        while time.monotonic() - began < options.minutes * 60:
            await asyncio.sleep(min(60.0, options.minutes * 60 / 3))
            now = _written(url)
            cpu, minutes = server.cpu_times(), (time.monotonic() - began) / 60
            sys.stdout.write(
                f"{minutes:5.1f} min  {now[0] - before[0]:,} transactions  {(now[1] - before[1]) // 1024:,} KiB of WAL "
                f" {server.memory_info().rss // 2**20} MiB  {cpu.user + cpu.system:.0f} s of CPU"
                f"  {got[0] // 1024:,} KiB sent"
                f"  {sum(not each.done() for each in tabs)} tabs\n"
            )
            sys.stdout.flush()
            before = now
        for each in tabs:
            each.cancel()
        await asyncio.gather(*tabs, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tabs", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=200_000)
    options = parser.parse_args()
    with sites([options.store]) as opened:
        url = opened[0].create()
        fill(url, replace(Size(), jobs=options.jobs), datetime.now(UTC))
        app = Headway(url)
        key = app.create_api_key("root", "superadmin").text
        app.close()
        command = [sys.executable, "-m", "headway", "--url", url, "--log-format", "text", "serve", "--port", "0"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        try:
            base = next(found[0] for line in server.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            asyncio.run(_watch(base, url, key, psutil.Process(server.pid), options))
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
