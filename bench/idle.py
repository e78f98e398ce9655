"""Idle workers: how many transactions a second they cost the database.

Every query of a worker is a transaction of its own, so the growth of xact_commit + xact_rollback of the fleet's own
database counts them; it is read from another database, so that the reading is not counted. The server's own rounds of
vacuum are transactions as well: they are switched off meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from bench.servers import Postgres
from bench.worker import processes

KNOWN_S = 28.0
"""A worker learns the size of its fleet with a heartbeat (20 s, jittered): before that it polls as one of fewer."""
WINDOW_S = 20.0
"""The time of a heartbeat: workers that started together beat together, and a shorter look sees too many or too few."""
_PER_PROCESS = 15


def queries(site: Postgres, fleets: Sequence[int], *, idle_minutes: float) -> dict[str, float]:
    """Queries a second of each fleet, in use (within a minute of work, and of a start) and, if asked, later on."""
    urls = {size: site.create(f"idle{size}") for size in fleets}
    found: dict[str, float] = {}
    with ExitStack() as stack:
        stack.enter_context(_without_vacuum(site))
        for size, url in urls.items():
            count = -(-size // _PER_PROCESS)
            stack.enter_context(processes(url, count, workers=size // count, concurrency=20))
        began = time.monotonic()
        time.sleep(KNOWN_S)
        found |= {f"postgres.idle.{size}": rate for size, rate in _rates(site, urls).items()}
        if idle_minutes:
            time.sleep(max(0.0, began + idle_minutes * 60 - time.monotonic()))
            found |= {f"postgres.idle.{size}.later": rate for size, rate in _rates(site, urls).items()}
    for url in urls.values():
        site.drop(url)
    return found


@contextmanager
def _without_vacuum(site: Postgres) -> Iterator[None]:
    _set_vacuum(site, "off")
    try:
        yield
    finally:
        _set_vacuum(site, "default")


def _set_vacuum(site: Postgres, value: str) -> None:
    site.admin.execute(f"alter system set autovacuum = {value}")
    site.admin.execute("select pg_reload_conf()")


def _rates(site: Postgres, urls: dict[int, str]) -> dict[int, float]:
    began, before = time.monotonic(), _counts(site, urls)
    time.sleep(WINDOW_S)
    took, after = time.monotonic() - began, _counts(site, urls)
    return {size: (after[size] - before[size]) / took for size in urls}


def _counts(site: Postgres, urls: dict[int, str]) -> dict[int, int]:
    sql = "select xact_commit + xact_rollback from pg_stat_database where datname = %s"
    return {size: int(str(site.ask(sql, urlsplit(url).path.lstrip("/")))) for size, url in urls.items()}
