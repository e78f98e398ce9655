"""Drains: jobs a second from the first claim to the last commit, and what they do to a worker's memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import apsw
import psycopg

from bench.jobs import QUEUE, Options, enqueue, make_app, plain
from bench.servers import path_of
from bench.worker import processes
from headway import Headway

CONCURRENCY = 1_000

Ask = Callable[..., Any]

# as the indexes have it: a look that walks over the finished ones would be measured with the drain
_UNFINISHED = """
select exists (select 1 from jobs where queue = 'bench' and status = 'queued' and limited_by is null)
  or exists (select 1 from jobs where status = 'running')
  or exists (select 1 from jobs where status = 'held')
  or exists (select 1 from jobs where limited_by is not null)
"""

_ENDED = "select count(*) from attempts"

# Jobs whose end was written before the last batch, over the time from the first start to the last batch's begin: the
# last batch is neither counted nor waited for, so that a commit that has not happened is never counted.
_SPAN = """
select min(started_at), max(finished_at), count(*) filter (where finished_at < last), count(*)
from attempts, (select max(finished_at) as last from attempts where started_at >= {since}) as l
where started_at >= {since}
"""


def drain(url: str, *, jobs: int, workers: int, options: Options = plain) -> float:
    """Jobs a second with so many worker processes, which have started and wait for the queue to be resumed."""
    return measured(
        url,
        lambda app: enqueue(app, jobs, options=options),
        expected=jobs,
        workers=workers,
        concurrency=CONCURRENCY,
    )


def measured(url: str, fill: Callable[[Headway], None], *, expected: int, workers: int, concurrency: int) -> float:
    """Executions a second of what `fill` enqueues; so many are expected."""
    app = make_app(url)
    app.pause(QUEUE)
    fill(app)
    with _asking(url) as ask:
        since = time.time_ns() // 1_000 if url.startswith("sqlite") else ask("select clock_timestamp()")[0]
        with processes(url, workers, concurrency=concurrency):
            app.resume(QUEUE)
            _wait(ask)
            first, last, before_last, ended = ask(_SPAN, since)
    app.close()
    assert ended == expected, f"{ended} executions are recorded of {expected}"
    return float(before_last) / _seconds(last, first)


def one_at_a_time(url: str, *, jobs: int, seconds: float, options: Options = plain) -> float:
    """Jobs a second of one worker that runs one at a time, behind such a backlog; over a while, not to its end."""
    app = make_app(url)
    app.pause(QUEUE)
    enqueue(app, jobs, options=options)
    with _asking(url) as ask, processes(url, 1, concurrency=1):
        app.resume(QUEUE)
        time.sleep(1)  # the first ones pay for what is read for the first time
        (before,), began = ask(_ENDED), time.monotonic()
        time.sleep(seconds)
        (after,), ended = ask(_ENDED), time.monotonic()
    app.close()
    assert after - before < jobs, "there were not enough of them"
    return float(after - before) / (ended - began)


def memory(url: str, *, few: int, many: int) -> dict[str, float]:
    """A worker's resident memory in MiB: idle, and after so many jobs."""
    app = make_app(url)
    sizes: dict[str, float] = {}
    with _asking(url) as ask, processes(url, 1, concurrency=CONCURRENCY) as (worker,):
        time.sleep(1)
        sizes["idle"] = worker.rss()
        for name, jobs in (("few", few), ("many", many - few)):
            app.pause(QUEUE)  # the whole backlog is there when the worker begins
            enqueue(app, jobs)
            app.resume(QUEUE)
            _wait(ask)
            time.sleep(1)
            sizes[name] = worker.rss()
    app.close()
    return sizes


def add_finished(url: str, count: int) -> None:
    """Put finished jobs with their attempts into the database, by SQL, as a long-lived one has them."""
    if url.startswith("sqlite"):
        conn = apsw.Connection(str(path_of(url)))
        conn.execute(_SQLITE_FINISHED, {"count": count, "now": time.time_ns() // 1_000})
        conn.execute("pragma wal_checkpoint(truncate); analyze").fetchall()
        conn.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        for statement in _POSTGRES_FINISHED:
            server.execute(statement, {"count": count})
        server.execute("vacuum (analyze) headway.jobs, headway.attempts")


def _wait(ask: Ask) -> None:
    """Until nothing is queued or running; looks seldom and cheaply, as a look takes time from those who work."""
    while ask(_UNFINISHED)[0]:
        time.sleep(0.05)


@contextmanager
def _asking(url: str) -> Iterator[Ask]:
    """A connection of its own that gives the first row of a question."""
    if url.startswith("sqlite"):
        conn = apsw.Connection(str(path_of(url)))
        conn.set_busy_timeout(5_000)
        yield lambda sql, *params: conn.execute(sql.format(since="?1"), params).fetchone()
        conn.close()
        return
    with psycopg.connect(url, autocommit=True, options="-c search_path=headway") as server:
        cursor = psycopg.RawCursor(server)
        yield lambda sql, *params: cursor.execute(sql.format(since="$1"), params or None).fetchone()


def _seconds(last: Any, first: Any) -> float:
    return float((last - first).total_seconds() if isinstance(last, datetime) else (last - first) / 1e6)


_POSTGRES_FINISHED = (
    """
    insert into headway.jobs (
      id, tenant_id, position, created_at, queued_at, started_at, finished_at, fence, status, kind, queue, payload)
    select headway.uuid7(), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc', nextval('headway.position'), t, t, t, t, 1,
           'succeeded', 'noop', 'bench', '{"number":7,"to":"somebody@example.com"}'
      from generate_series(1, %(count)s) as n,
           lateral (select clock_timestamp() - n * interval '100 milliseconds' as t) as at
    """,
    """
    insert into headway.attempts (job_id, tenant_id, fence, status, started_at, finished_at)
    select id, tenant_id, 1, 'succeeded', started_at, finished_at from headway.jobs
    """,
)
_SQLITE_FINISHED = """
begin immediate;
with recursive n (n) as (select 1 union all select n + 1 from n where n < :count)
insert into jobs (
  id, tenant_id, kind, queue, status, priority, position, fence, max_attempts, max_losses, backoff_base_ms,
  backoff_cap_ms, delivery, unique_scope, created_at, queued_at, started_at, finished_at, source, payload)
select printf('00000000-0000-7000-8000-%012x', n), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc', 'noop', 'bench', 'succeeded',
  100, n, 1, 5, 5, 1000, 3600000, 'at_least_once', '["queued","scheduled","held","running","waiting"]',
  :now - n * 100000, :now - n * 100000, :now - n * 100000, :now - n * 100000, 'manual',
  '{"number":7,"to":"somebody@example.com"}'
from n;
insert into attempts (job_id, fence, status, started_at, finished_at)
select id, 1, 'succeeded', started_at, finished_at from jobs;
commit
"""
