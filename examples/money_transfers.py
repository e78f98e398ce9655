"""Transfers between accounts, each applied exactly once, although the worker is killed again and again.

A transfer moves money and settles its job in one transaction, so a kill leaves both or neither. The program starts a
worker, kills it with SIGKILL in the middle of its work, several times, and then counts.
Run it with: python examples/money_transfers.py [URL]
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headway import Context, Headway

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite:///bank.db"
ACCOUNTS, CENTS, TRANSFERS, KILLS = 10, 100_000, 120, 2
MARK = "?" if URL.startswith("sqlite") else "%s"  # how the two libraries write a parameter

app = Headway(URL, concurrency=4)


@contextmanager
def transaction() -> Iterator[Any]:
    """A connection of our own to Headway's database, in a transaction: commits, or rolls back on an exception."""
    if URL.startswith("sqlite"):
        import apsw

        conn: Any = apsw.Connection(app.store.describe())
        conn.set_busy_timeout(10_000)
        conn.execute("begin immediate")
        try:
            yield conn
            conn.execute("commit")
        finally:
            conn.close()  # rolls back what is not committed
    else:
        import psycopg

        with psycopg.connect(URL) as conn:
            yield conn


@app.job(max_losses=1_000, backoff=("10ms", "100ms"))
def transfer(ctx: Context, source: int, target: int, cents: int) -> None:
    with transaction() as conn:
        # in order of account, so that two transfers never wait for each other
        for account, change in sorted([(source, -cents), (target, cents)]):
            conn.execute(f"update accounts set cents = cents + {MARK} where id = {MARK}", (change, account))
        conn.execute(f"insert into transfers values ({MARK}, {MARK})", (ctx.job_id, cents))
        ctx.settle({"moved": cents}, conn=conn)


def main() -> None:
    app.counts()  # on SQLite, creates the file and Headway's tables
    with transaction() as conn:
        conn.execute("create table accounts (id integer primary key, cents bigint)")
        conn.execute("create table transfers (job text, cents bigint)")
        for account in range(ACCOUNTS):
            conn.execute(f"insert into accounts values ({MARK}, {MARK})", (account, CENTS))
    pairs = (random.sample(range(ACCOUNTS), 2) for _ in range(TRANSFERS))
    app.enqueue_many(transfer.build(source, target, random.randint(1, 9_999)) for source, target in pairs)

    for kill in range(1, KILLS + 1):
        worker = start_worker()
        wait_for(TRANSFERS * kill // (KILLS + 1))
        worker.kill()
        worker.wait()
    worker = start_worker()
    wait_for(TRANSFERS)
    worker.terminate()
    worker.wait()

    with transaction() as conn:
        ((total,),) = conn.execute("select sum(cents) from accounts").fetchall()
        ((rows, jobs),) = conn.execute("select count(*), count(distinct job) from transfers").fetchall()
    print(f"{KILLS} workers killed")
    print(f"{jobs} transfers, applied {rows} times")
    print(f"before: {ACCOUNTS * CENTS / 100:,.2f}, after: {total / 100:,.2f}")
    app.close()


def start_worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, URL, "worker"], stderr=subprocess.DEVNULL)


def wait_for(transfers: int) -> None:
    while app.counts().get("succeeded", 0) < transfers:
        time.sleep(0.005)


if __name__ == "__main__":
    if sys.argv[2:] == ["worker"]:
        app.run()
    else:
        main()
