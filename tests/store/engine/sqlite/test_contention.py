"""Processes and threads that share a file: nobody is told that it is locked before its time is up."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import closing, suppress
from types import SimpleNamespace

import pytest

from headway.errors import StoreUnavailable
from headway.model.listing import Filter
from headway.model.retry import succeeded
from headway.store.patience import lock_patience_s
from headway.store.sqlite import SqliteStore
from headway.store.sqlite.engine import writer
from headway.store.sqlite.engine.connection import connect, library_errors
from headway.store.sqlite.engine.errors import LONGEST_PAUSE_S
from tests.store.engine.sqlite.sqlite_processes import FORKS, Locked, count, enqueue, in_child, job, join, worker


@FORKS
def test_processes_that_make_one_file_at_once_all_succeed(path, library):
    go = os.pipe()

    def work() -> None:
        store = SqliteStore(str(path), library=library)
        os.close(go[1])
        os.read(go[0], 1)
        enqueue(store)

    children = [in_child(work) for _ in range(8)]
    os.close(go[1])
    for child in children:
        join(child)
    store = SqliteStore(str(path), library=library)
    assert count(store) == 8
    store.close()


@FORKS
def test_processes_share_a_file_without_a_locked_error_and_without_a_job_run_twice(path, library, tmp_path):
    def work() -> None:
        store = SqliteStore(str(path), library=library)
        me = worker()
        store.run(store.ops.register(me))
        with open(tmp_path / f"ran-{me.id}", "w") as ran:
            for _ in range(40):
                enqueue(store, 2)
                claims = store.run(store.ops.claim(me.id, "default", 5))
                settlements = [succeeded(claim, None) for claim in claims]
                assert store.run(store.ops.settle(me.id, settlements)).lost == []
                ran.writelines(f"{claim.id} {claim.fence}\n" for claim in claims)
        store.close()

    for child in [in_child(work) for _ in range(8)]:
        join(child)
    ran = [line for file in tmp_path.glob("ran-*") for line in file.read_text().splitlines()]
    assert len(ran) == len(set(ran)) > 0
    assert {line.split()[1] for line in ran} == {"1"}
    store = SqliteStore(str(path), library=library)
    counts = store.run(store.ops.counts(tenant_id=None))
    store.close()
    assert sum(counts.values()) == 8 * 80
    assert counts["succeeded"] == len(ran)


def test_a_writer_waits_for_another_process(store, path, library):
    enqueue(store)
    with Locked(path, library) as other:
        done: list[str] = []
        waiting = threading.Thread(target=lambda: done.extend(enqueue(store)))
        waiting.start()
        waiting.join(0.3)
        assert done == []
        other.let_go()
        waiting.join(60)
    assert len(done) == 1


def test_a_file_that_stays_locked_is_unavailable_and_says_why(path, library):
    with closing(SqliteStore(str(path), library=library, timeout_s=0.2)) as store:
        enqueue(store)
        with Locked(path, library), pytest.raises(StoreUnavailable, match="holds a write transaction open"):
            enqueue(store)
        assert len(enqueue(store)) == 1
        assert count(store) == 2


def test_a_hurried_write_is_refused_while_nobody_writes_and_never_written(store, path, library):
    enqueue(store)

    async def go() -> None:
        patient = asyncio.create_task(store.arun(store.ops.enqueue([job()])))
        lock_patience_s.set(0.1)
        hurried = [asyncio.create_task(store.arun(store.ops.enqueue([job()]))) for _ in range(3)]
        refused = await asyncio.gather(*hurried, return_exceptions=True)
        assert [str(each).partition("locked for ")[2][:5] for each in refused] == ["0.1 s"] * 3
        assert not patient.done()
        other.let_go()
        await patient

    with Locked(path, library) as other:
        asyncio.run(go())
    assert count(store) == 2


def test_a_hurried_write_waits_while_others_write(store, path, library):
    enqueue(store)
    stop = threading.Event()

    def write() -> None:
        with closing(connect(str(path), library)) as other:
            other.execute("create table numbers (n)")
            locked.set()
            while not stop.is_set():
                with suppress(library_errors(library)):  # the hurried one was quicker
                    other.execute("begin immediate")
                    other.execute("insert into numbers values (1)")
                    time.sleep(0.02)
                    other.execute("commit")

    async def go() -> None:
        lock_patience_s.set(0.3)  # longer than any of the other transactions
        for _ in range(20):
            await store.arun(store.ops.enqueue([job()]))

    locked = threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    locked.wait(10)
    threading.Timer(1.5, stop.set).start()
    asyncio.run(go())
    stop.set()
    thread.join()
    assert count(store) == 21


def test_a_hurried_write_waits_for_a_large_one_that_goes_on(store, path, library):
    enqueue(store)

    def write() -> None:
        with closing(connect(str(path), library)) as other:
            other.execute("create table numbers (n)")
            other.execute("begin immediate")
            locked.set()
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                other.execute("insert into numbers values (zeroblob(400000))")
                time.sleep(0.01)
            other.execute("commit")

    async def go() -> None:
        lock_patience_s.set(1.0)
        await store.arun(store.ops.enqueue([job()]))

    locked = threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    locked.wait(10)
    asyncio.run(go())
    thread.join()
    assert count(store) == 2


def test_reads_and_empty_polls_do_not_wait_for_a_writer(store, path, library):
    enqueue(store, 3)
    me = worker()
    store.run(store.ops.register(me))
    with Locked(path, library):  # and stays so: what waited would fail
        assert count(store) == 3
        assert len(store.run(store.ops.find(Filter(), limit=10))) == 3
        assert store.run(store.ops.claim(me.id, "empty", 10)) == []
        assert store.run(store.ops.promote(limit=10)).queued == 0
        assert store.run(store.ops.reap([], limit=10)) == []
        assert store.run(store.ops.prune("dead", older_than_ms=0, limit=10)) == 0
        assert store.run(store.ops.report(me.id, [])) == []


def test_an_event_loop_goes_on_while_a_write_waits(store, path, library):
    enqueue(store)

    async def main() -> None:
        with Locked(path, library) as other:
            write = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert not write.done()
            assert sum((await store.arun(store.ops.counts(tenant_id=None))).values()) == 1
            await asyncio.to_thread(other.let_go)
            assert (await write)[0].created

    asyncio.run(main())
    assert count(store) == 2


@pytest.mark.parametrize(("long_s", "paused"), [(60.0, []), (0.0, [LONGEST_PAUSE_S])])
def test_a_writer_pauses_after_a_long_write_so_that_other_processes_get_the_lock(store, monkeypatch, long_s, paused):
    enqueue(store)
    pauses = []
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append))
    monkeypatch.setattr(writer, "_LONG_WRITE_S", long_s)
    asyncio.run(store.arun(store.ops.enqueue([job()])))
    store.close()  # ends the writer's thread
    assert pauses == paused


@pytest.mark.parametrize("others_write", [True, False])
def test_a_writer_with_more_to_write_leaves_the_lock_to_processes_that_write_too(
    store, path, library, monkeypatch, others_write
):
    enqueue(store)
    pauses = []
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append))
    monkeypatch.setattr(writer, "_LARGEST_GROUP", 1)
    monkeypatch.setattr(writer, "_LONG_WRITE_S", 60.0)

    async def write(ops: int) -> None:
        assert store._live.writer.pause(60)
        waiting = [asyncio.ensure_future(store.arun(store.ops.enqueue([job()]))) for _ in range(ops)]
        await asyncio.sleep(0.05)
        store._live.writer.resume()
        await asyncio.gather(*waiting)

    asyncio.run(write(1))
    if others_write:
        other = SqliteStore(str(path), library=library)
        enqueue(other)
        other.close()
    asyncio.run(write(3))
    store.close()  # ends the writer's thread
    # after each but the last, and after that one, too, if the end of the store came before its look at the queue
    assert len(pauses) in ((2, 3) if others_write else (0,))
    assert all(writer._LEAST_LEFT_S <= each <= LONGEST_PAUSE_S for each in pauses)
