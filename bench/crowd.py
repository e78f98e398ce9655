"""A database as a large installation has it, written by SQL: 1,000,000 jobs of 500 tenants in 200 queues, with their
attempts, statistics, trains, schedules and events."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import msgspec
import psycopg

from bench.servers import path_of
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.stats import Numbers, with_sums

Row = dict[str, Any]

LARGEST = str(uuid.UUID(int=0x0190_0000_0000_7000_9000_0000_0000_0001))
"""The tenant with a fifth of all jobs; the default tenant has as many, the others share the rest."""
_MINUTE = timedelta(minutes=1)
_FAULTS = ("ConnectionRefusedError: mail.example.com", "TimeoutError: took 30 s", "ValueError: no such customer")


@dataclass(frozen=True)
class Size:
    """How much of what there is."""

    jobs: int = 1_000_000
    queued: int = 80_000
    scheduled: int = 15_000
    held: int = 3_000
    waiting: int = 1_500
    running: int = 500
    attempts: int = 100_000
    queues: int = 200
    tenants: int = 500
    workers: int = 50
    schedules: int = 2_000
    events: int = 20_000

    @property
    def finished(self) -> int:
        return self.jobs - self.queued - self.scheduled - self.held - self.waiting - self.running


def fill(url: str, size: Size, now: datetime) -> None:
    """Write all of it."""
    tables = {
        "tenants": _tenants(size, now),
        "jobs": _jobs(size, now),
        "attempts": _attempts(size, now),
        "workers": _workers(size, now),
        "holds": _holds(size, now),
        "triggers": _triggers(size, now),
        "events": _events(size, now),
        "audit": _audit(size, now),
        "limits": ({"scope": "tenant", "name": tenant_id(n), "max_running": 50} for n in range(size.tenants)),
        "stats": _stats(size, now),
    }
    if url.startswith("sqlite"):
        _fill_sqlite(str(path_of(url)), tables, size)
    else:
        _fill_postgres(url, tables)


def tenant_id(n: int) -> str:
    return LARGEST if n == 0 else str(uuid.UUID(int=0x0190_0000_0000_7000_9000_0000_0001_0000 + n))


def job_id(n: int) -> str:
    return str(uuid.UUID(int=(0x0190_0000_0000 + n) << 80 | 0x7000_8000_0000_0000_0000 | n))


def _tenant_of(n: int, size: Size) -> str:
    return DEFAULT_TENANT_ID if n % 10 < 2 else LARGEST if n % 10 < 4 else tenant_id(1 + n // 10 % (size.tenants - 1))


def _tenants(size: Size, now: datetime) -> Iterator[Row]:
    for n in range(size.tenants):
        yield {"id": tenant_id(n), "slug": f"tenant-{n}", "created_at": now}


def _jobs(size: Size, now: datetime) -> Iterator[Row]:
    statuses = (("finished", size.finished), ("running", size.running), ("waiting", size.waiting))
    statuses += (("held", size.held), ("scheduled", size.scheduled), ("queued", size.queued))
    n = 0
    for name, count in statuses:
        for _ in range(count):
            yield _job(n, name, size, now)
            n += 1


def _job(n: int, name: str, size: Size, now: datetime) -> Row:
    came = now - timedelta(seconds=(size.jobs - n) // 4)
    row: Row = dict.fromkeys(_JOB_COLUMNS)
    row |= {
        "id": job_id(n),
        "tenant_id": _tenant_of(n, size),
        "kind": f"kind-{n // 7 % 50}",
        "queue": f"queue-{n // 10 % size.queues}",
        "status": name,
        "priority": 100 + n % 2,
        "position": None if name == "scheduled" else (n + 1) * 1_024,
        "payload": '{"customer":7,"to":"somebody@example.com"}',
        "fence": 0,
        "created_at": came,
        "queued_at": None if name == "scheduled" else came,
        **_FIXED,
    }
    match name:
        case "finished":
            status = {0: "dead", 1: "canceled", 2: "failed"}.get(n % 150, "succeeded")
            row |= {"status": status, "fence": 1, "started_at": came, "finished_at": came + timedelta(seconds=1)}
            row["error"] = _FAULTS[n // 150 % 3] if status in ("dead", "failed") else None
        case "running":
            row |= {"fence": 1, "started_at": now, "attempt_started_at": now, "worker_id": tenant_id(1 + n % 20)}
        case "waiting":
            row |= {"fence": 1, "step": "approve", "awaiting": ("approved",), "version": 1, "state": "{}"}
        case "held":
            row["train"] = f"order/{n % 300}"
            row["tenant_id"] = LARGEST
        case "scheduled":
            row["scheduled_for"] = now + timedelta(seconds=n % 86_400)
    return row


def _attempts(size: Size, now: datetime) -> Iterator[Row]:
    for n in range(max(0, size.finished - size.attempts), size.finished):
        job = _job(n, "finished", size, now)
        status = "failed" if job["error"] else "succeeded"
        yield {
            "job_id": job["id"],
            "tenant_id": job["tenant_id"],
            "fence": 1,
            "status": status,
            "started_at": job["started_at"],
            "finished_at": job["finished_at"],
            "worker_id": tenant_id(n % 20),
            "error": job["error"],
        }


def _workers(size: Size, now: datetime) -> Iterator[Row]:
    for n in range(size.workers):
        beat = now - timedelta(minutes=5 if n == 0 else 0)
        yield {
            "id": tenant_id(n),
            "hostname": f"worker-{n % 10}.example.com",
            "pid": 1_000 + n,
            "version": "1.4.2",
            "queues": {f"queue-{(n * 4 + each) % size.queues}": 10 for each in range(4)},
            "kinds": tuple(f"kind-{each}" for each in range(50)),
            "concurrency": 40,
            "running": 10,
            "lease_ms": 60_000,
            "late_ms": 60_000,
            "started_at": now - timedelta(days=1),
            "heartbeat_at": beat,
            "lease_expires_at": beat + _MINUTE if n == 0 else now + timedelta(days=1),
            "steady_since": beat,
            "metadata": {},
        }


def _holds(size: Size, now: datetime) -> Iterator[Row]:
    for n in range(min(100, size.held)):
        yield {"tenant_id": LARGEST, "train": f"order/{n}", "since": now, "reason": "a car died"}


def _triggers(size: Size, now: datetime) -> Iterator[Row]:
    for n in range(size.schedules):
        yield {
            "id": str(uuid.UUID(int=0x0190_0000_0000_7000_A000_0000_0000_0000 + n)),
            "tenant_id": _tenant_of(n, size),
            "type": "schedule",
            "name": f"nightly-{n}",
            "kind": "kind-1",
            "payload": "{}",
            "options": "{}",
            "description": "",
            "enabled": True,
            "origin": "stored",
            "created_at": now,
            "updated_at": now,
            "revision": 1,
            "cron": "0 2 * * *",
            "tz": "Europe/Berlin",
            "catch_up": "latest",
            "catch_up_window_ms": 86_400_000,
            "overlap": "allow",
            "jitter_ms": 0,
            "next_fire_at": now + timedelta(seconds=600 + n),
            "when": "{}",
            "dedupe_window_ms": 300_000,
        }


def _events(size: Size, now: datetime) -> Iterator[Row]:
    for n in range(size.events):
        failed = n % 1_000 == 0
        yield {
            "id": job_id(n),
            "tenant_id": _tenant_of(n, size),
            "name": f"order.{('paid', 'sent', 'returned')[n % 3]}",
            "status": "failed" if failed else "handled",
            "emitted_at": now - timedelta(seconds=size.events - n),
            "handled_at": now - timedelta(seconds=size.events - n),
            "error": "KeyError: 'customer'" if failed else None,
            "payload": '{"order":7}',
        }


def _audit(size: Size, now: datetime) -> Iterator[Row]:
    for n in range(size.events):
        yield {
            "at": now - timedelta(seconds=size.events - n),
            "tenant_id": _tenant_of(n, size),
            "job_id": job_id(n),
            "actor": f"person-{n % 10}",
            "action": "retry",
        }


def _stats(size: Size, now: datetime) -> Iterator[Row]:
    """Of three hours by minutes, eight days by hours and a month by days: a fifth of the tenants is busy in a minute,
    all are in an hour."""
    spans = (("minute", _MINUTE, 180, 5), ("hour", 60 * _MINUTE, 192, 1), ("day", 1_440 * _MINUTE, 30, 1))
    for span, step, steps, every in spans:
        last = datetime.fromtimestamp(now.timestamp() // step.total_seconds() * step.total_seconds(), UTC)
        for back in range(steps):
            found = {
                (0, (tenant_id(n), f"queue-{queue}", f"kind-{n % 50}")): _numbers(n)
                for n in range(back % every, size.tenants, every)
                for queue in (n % size.queues, (n + 7) % size.queues)
            }
            for (_, (tenant, queue, kind)), numbers in with_sums(found).items():
                place = {"tenant_id": tenant, "span": span, "at": last - back * step, "queue": queue, "kind": kind}
                yield place | msgspec.structs.asdict(numbers)


def _numbers(n: int) -> Numbers:
    return Numbers(
        *(40, 40, 40 + n % 9, n % 3, n % 3, n % 3, n % 2, 0),
        waits={9: 20, 12: 15, 15: 5},
        runs={14: 20, 16: 15, 19: 5},
        depth=10 + n % 50,
        oldest_ms=1_000 * (n % 60),
    )


_JOB_COLUMNS = (
    *("id", "tenant_id", "kind", "queue", "status", "priority", "position", "payload", "fence", "created_at"),
    *("queued_at", "started_at", "finished_at", "attempt_started_at", "scheduled_for", "worker_id", "step"),
    *("awaiting", "version", "state", "train", "error"),
)
_FIXED = {
    "max_attempts": 5,
    "max_losses": 5,
    "backoff_base_ms": 1_000,
    "backoff_cap_ms": 3_600_000,
    "delivery": "at_least_once",
    "source": "manual",
    "unique_scope": ("queued", "scheduled", "held", "running", "waiting"),
}


def _fill_sqlite(path: str, tables: dict[str, Iterable[Row]], size: Size) -> None:
    conn = apsw.Connection(path)
    conn.execute("pragma synchronous = off; begin immediate")
    indexes = list(
        conn.execute("select name, sql from sqlite_schema where type = 'index' and tbl_name = 'jobs' and sql not null")
    )
    for name, _ in indexes:
        conn.execute(f"drop index {name}")
    for table, rows in tables.items():
        first, rows = _first(rows)
        names = [name for name in first if (table, name) not in {("attempts", "tenant_id")}]
        columns = ", ".join(f'"{name}"' for name in names)
        sql = f"insert into {table} ({columns}) values ({', '.join('?' * len(names))})"
        conn.executemany(sql, ([_for_sqlite(row[name]) for name in names] for row in rows))
    for _, sql in indexes:
        conn.execute(sql)
    conn.execute("update counters set value = ? where name = 'position'", (2_048 * size.jobs,))
    conn.execute("commit; pragma wal_checkpoint(truncate)").fetchall()
    conn.close()


def _fill_postgres(url: str, tables: dict[str, Iterable[Row]]) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("set synchronous_commit = off")
        for table, rows in tables.items():
            first, rows = _first(rows)
            names = list(first)
            columns = ", ".join(f'"{name}"' for name in names)
            with conn.cursor().copy(f"copy headway.{table} ({columns}) from stdin") as copy:  # type: ignore[arg-type]
                for row in rows:
                    copy.write_row([_for_postgres(row[name]) for name in names])
        conn.execute("select setval('headway.position', 4000000000)")
        conn.execute("vacuum analyze")


def _first(rows: Iterable[Row]) -> tuple[Row, Iterator[Row]]:
    every = iter(rows)
    first = next(every)

    def again() -> Iterator[Row]:
        yield first
        yield from every

    return first, again()


def _for_sqlite(value: Any) -> Any:
    match value:
        case datetime():
            return round(value.timestamp() * 1e6)
        case tuple() | dict():
            return msgspec.json.encode(value).decode()
    return value


def _for_postgres(value: Any) -> Any:
    match value:
        case tuple():
            return list(value)
        case dict():
            return msgspec.json.encode(value).decode()
    return value
