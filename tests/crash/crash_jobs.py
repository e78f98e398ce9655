"""The app whose jobs the crash tests run, and the processes beside its workers; every run is in the ledger."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headway import Call, Context, Headway, Registry
from headway.errors import StoreUnavailable
from headway.logs import configure
from tests.crash import ledger

kinds = Registry()
app = Headway()  # its URL and its lease come from HEADWAY_* variables
app.include(kinds)


@app.on_startup
def sign_on() -> None:
    ledger.append(Path(os.environ["CRASH_FOLDER"]) / "workers", "worker", str(os.getpid()))


# losses come fast here: they wait a moment, not a second
SOON = ("50ms", "200ms")


def note(event: str, subject: str, fence: int = 0) -> None:
    ledger.append(Path(os.environ["CRASH_FOLDER"]) / "ledger", event, subject, fence)


def is_open(gate: str) -> bool:
    return not gate or (Path(os.environ["CRASH_FOLDER"]) / gate).exists()


def gate_of(ctx: Context, gates: list[str]) -> str:
    """The gate of this run: the first one's is the first, and later runs than there are gates have the last."""
    return gates[min(ctx.fence, len(gates)) - 1]


# kinds


@kinds.job(queue="main", backoff=SOON, max_losses=1_000)
async def work(ctx: Context, ms: int = 0, fails: int = 0) -> None:
    note("start", ctx.job_id, ctx.fence)
    await asyncio.sleep(ms / 1_000)
    if ctx.tries < fails:
        note("raise", ctx.job_id, ctx.fence)
        raise ValueError("not yet")
    note("end", ctx.job_id, ctx.fence)


@kinds.job(queue="main", backoff=SOON, max_losses=1_000)
def plain(ctx: Context, ms: int = 0) -> None:
    note("start", ctx.job_id, ctx.fence)
    time.sleep(ms / 1_000)
    note("end", ctx.job_id, ctx.fence)


@kinds.job(queue="main", backoff=SOON, delivery="at_most_once", max_attempts=4)
async def once(ctx: Context, ms: int = 0, fails: int = 0) -> None:
    note("start", ctx.job_id, ctx.fence)
    await asyncio.sleep(ms / 1_000)
    if ctx.tries < fails:
        note("raise", ctx.job_id, ctx.fence)
        raise ValueError("not yet")
    note("end", ctx.job_id, ctx.fence)


@kinds.job(queue="main", backoff=SOON)
async def gated(ctx: Context, gates: list[str]) -> None:
    """Ends when its gate is open: a file of that name in the test's folder."""
    note("start", ctx.job_id, ctx.fence)
    while not is_open(gate_of(ctx, gates)):
        await asyncio.sleep(0.02)
    note("end", ctx.job_id, ctx.fence)


@kinds.job(queue="main", backoff=SOON)
def gated_plain(ctx: Context, gates: list[str]) -> None:
    note("start", ctx.job_id, ctx.fence)
    while not is_open(gate_of(ctx, gates)):
        time.sleep(0.02)
    note("end", ctx.job_id, ctx.fence)


@kinds.job(queue="main", backoff=SOON, delivery="at_most_once", max_attempts=3)
async def gated_once(ctx: Context, gate: str) -> None:
    note("start", ctx.job_id, ctx.fence)
    while not is_open(gate) and ctx.losses == 0:
        await asyncio.sleep(0.02)
    note("end", ctx.job_id, ctx.fence)


@kinds.job(queue="main", backoff=("300ms", "10s"), max_losses=5)
async def poison(ctx: Context, signaled: bool) -> None:
    """Takes its worker down, a moment after its neighbours began."""
    note("start", ctx.job_id, ctx.fence)
    await asyncio.sleep(0.05)
    if signaled:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(9)


@kinds.job(queue="main", backoff=("300ms", "10s"), max_losses=5)
async def neighbour(ctx: Context) -> None:
    """Outlasts the pill that was claimed along with it; less so later, when it should not be."""
    note("start", ctx.job_id, ctx.fence)
    await asyncio.sleep(0.06 if ctx.losses else 0.5)
    note("end", ctx.job_id, ctx.fence)


@kinds.job(queue="bulk", backoff=("300ms", "10s"), max_losses=5, batch=10, batch_wait="1s")
async def bulk(calls: list[Call]) -> None:
    """Takes its worker down if it finds a pill among its calls, after it began all of them."""
    for call in calls:
        note("start", call.job_id, call.ctx.fence)
    if any(call.args["pill"] for call in calls):
        os.kill(os.getpid(), signal.SIGKILL)
    for call in calls:
        note("end", call.job_id, call.ctx.fence)


# processes


def enqueue_batches(name: str, size: int) -> None:
    """Enqueue batch after batch, and say so in the ledger before it and once it was acknowledged."""
    number = 0
    while True:
        batch = f"{name}-{number}"
        jobs = [work.using(queue="nobody", correlation_id=batch).build(ms=place) for place in range(size)]
        note("begin", batch)
        try:
            app.enqueue_many(jobs)
            note("acknowledged", batch)
        except StoreUnavailable:
            note("refused", batch)
            time.sleep(0.05)
        number += 1


def join_crowd(jobs: int) -> None:
    """Work, and from another thread enqueue and look, all on one file; what a caller is told goes into the ledger."""

    def enqueue() -> None:
        for number in range(jobs):
            try:
                if number % 4:
                    ids = [app.enqueue(work.build()).id]
                else:
                    ids = [each.id for each in app.enqueue_many([plain.build(), once.build(), work.build(ms=5)])]
                for job_id in ids:
                    note("acknowledged", job_id)
                app.get(ids[0])
                app.counts()
            except Exception as error:
                note("told", f"{type(error).__name__}:{error}".replace(" ", "_"))
        note("done", str(os.getpid()))

    threading.Thread(target=enqueue, daemon=True).start()
    app.run(["main"], concurrency=4)


def hold_the_file(path: str, seconds: float) -> None:
    """Hold the write lock again and again, as another program with a transaction of its own may."""
    import apsw

    conn = apsw.Connection(path)
    while True:
        try:
            conn.execute("begin immediate")
        except apsw.BusyError:
            time.sleep(0.001)
            continue
        time.sleep(seconds)
        conn.execute("commit")
        note("held", "lock")
        time.sleep(0.01)


def fork_family() -> None:
    """Use the app, fork in the midst of other threads' enqueueing, use it in all; each ends as a worker."""
    _use()
    with _other_threads_enqueueing():
        children = [_fork(_be_child) for _ in range(3)]
    _use()
    app.run(["main"], concurrency=4, until_idle=True)
    for child in children:
        _expect_success(child)
    app.run(["main"], concurrency=4, until_idle=True)  # what they enqueued last
    app.close()


def _be_child() -> None:
    _use()
    with _other_threads_enqueueing():
        grandchild = _fork(_use)
    app.run(["main"], concurrency=4, until_idle=True)
    _expect_success(grandchild)
    app.close()


@contextmanager
def _other_threads_enqueueing() -> Iterator[None]:
    over = threading.Event()

    def enqueue() -> None:
        while not over.is_set():
            try:
                for each in app.enqueue_many([work.build(), plain.build()]):
                    note("acknowledged", each.id)
            except Exception as error:
                note("told", f"{type(error).__name__}:{error}".replace(" ", "_"))
                return

    threads = [threading.Thread(target=enqueue, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


def _use() -> None:
    for _ in range(5):
        ids = [app.enqueue(work.build()).id, *(each.id for each in app.enqueue_many([plain.build(), once.build()]))]
        for job_id in ids:
            note("acknowledged", job_id)
        assert app.get(ids[0]).id == ids[0]
    assert app.counts()
    assert app.result(ids[0], timeout=0).status


def _fork(act: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        act()
        code = 0
    except BaseException as error:
        note("told", f"{type(error).__name__}:{error}".replace(" ", "_"))
    finally:
        os._exit(code)


def _expect_success(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


if __name__ == "__main__":
    configure(json=True)
    match sys.argv[1:]:
        case ["enqueue", name, size]:
            enqueue_batches(name, int(size))
        case ["crowd", jobs]:
            join_crowd(int(jobs))
        case ["hold", path, seconds]:
            hold_the_file(path, float(seconds))
        case ["fork"]:
            fork_family()
        case _:
            sys.exit(f"crash_jobs does not know {sys.argv[1:]}")
