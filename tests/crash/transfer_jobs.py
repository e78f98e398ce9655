"""Jobs that write rows of their own and settle in the same transaction; one of them kills its worker beside it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg

from headway import Await, Context, Done, Machine, Next, Snooze, Spawn, step
from tests.crash.crash_jobs import SOON, app, kinds

__all__ = ["app"]

POINTS = ("written", "committed")
STEPS = ("start", "ask", "split", "finish")


@contextmanager
def transaction(url: str) -> Iterator[Any]:
    """The application's own: commits, or rolls back on an exception."""
    if not url.startswith("sqlite"):
        with psycopg.connect(url) as conn:
            yield conn
        return
    file = apsw.Connection(url.removeprefix("sqlite:///"))
    file.set_busy_timeout(30_000)
    try:
        file.execute("begin immediate")
        yield file
        file.execute("commit")
    finally:
        file.close()


def create_tables(url: str, accounts: int, cents: int) -> None:
    with transaction(url) as conn:
        conn.execute("create table accounts (id integer primary key, cents bigint)")
        conn.execute("create table entries (job text, what text, cents bigint)")
        for account in range(accounts):
            conn.execute(f"insert into accounts values ({account}, {cents})")


def write_entry(conn: Any, ctx: Context, what: str, cents: int = 0) -> None:
    conn.execute(f"insert into entries values ('{ctx.job_id}', '{what}', {cents})")


def move_money(conn: Any, ctx: Context, source: int, target: int, cents: int) -> None:
    for account, change in sorted([(source, -cents), (target, cents)]):
        conn.execute(f"update accounts set cents = cents + {change} where id = {account}")
    write_entry(conn, ctx, f"transfer {ctx.tries}", cents)


@kinds.job(queue="main", backoff=SOON, max_losses=30_000)
def transfer(ctx: Context, source: int, target: int, cents: int) -> str:
    with transaction(os.environ["HEADWAY_URL"]) as conn:
        move_money(conn, ctx, source, target, cents)
        ctx.settle(cents, conn=conn)
    return "not what it committed"


@kinds.job(queue="main", backoff=SOON, delivery="at_most_once", max_attempts=30_000)
async def transfer_once(ctx: Context, source: int, target: int, cents: int) -> None:
    with transaction(os.environ["HEADWAY_URL"]) as conn:
        move_money(conn, ctx, source, target, cents)
        await ctx.asettle(cents, conn=conn)


@kinds.job(queue="main", backoff=SOON, max_losses=30_000)
def two_halves(ctx: Context, source: int, target: int, cents: int) -> None:
    """One half now, the other one later: the entry says which half is done."""
    with transaction(os.environ["HEADWAY_URL"]) as conn:
        ((halves,),) = conn.execute(f"select count(*) from entries where job = '{ctx.job_id}'").fetchall()
        move_money(conn, ctx, source, target, cents)
        ctx.settle(Snooze("20ms") if halves == 0 else cents, conn=conn)


@kinds.machine
class Payment(Machine, queue="main", backoff=SOON, max_losses=30_000):
    """Each step leaves one entry; its worker is killed once at every point of every step, if it asks for that."""

    class State(msgspec.Struct):
        dies: bool = True
        trail: list[str] = []

    def settle(self, ctx: Any, outcome: Any) -> None:
        name = ctx.step
        with transaction(os.environ["HEADWAY_URL"]) as conn:
            write_entry(conn, ctx, name)
            ctx.state.trail = [*ctx.state.trail, name]
            ctx.settle(outcome, conn=conn)
            self.die(ctx, "written")
        self.die(ctx, "committed")

    def die(self, ctx: Any, point: str) -> None:
        mark = Path(os.environ["CRASH_FOLDER"]) / f"{ctx.job_id}-{ctx.step}-{point}"
        if ctx.state.dies and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    @step
    def start(self, ctx: Any) -> None:
        self.settle(ctx, Next(self.ask))

    @step
    def ask(self, ctx: Any) -> None:
        self.settle(ctx, Await("paid", then=self.split))

    @step
    def split(self, ctx: Any) -> None:
        self.settle(ctx, Spawn([transfer.build(0, 1, 5), transfer.build(1, 2, 7)], then=self.finish))

    @step
    def finish(self, ctx: Any) -> None:
        self.settle(ctx, Done([child.result for child in ctx.children]))
