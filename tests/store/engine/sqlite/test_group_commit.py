"""Group commit: writers that wait share one commit, and nobody is answered before it."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from headway.errors import Duplicate, StoreError
from headway.store.patience import comes_last
from headway.store.sqlite import SqliteStore
from tests.store.engine.sqlite.sqlite_processes import Locked, count, enqueue, job, process, wait


class Commits:
    """Counts the commits of a store's writer."""

    def __init__(self, store: SqliteStore) -> None:
        enqueue(store)
        writer = store._live.writer
        self._conn, writer._conn = writer._conn, self
        self.count = 0
        self.before: Callable[[], None] = lambda: None

    def execute(self, sql: str, params: Any = ()) -> Any:
        if sql == "commit":
            self.before()
            self.count += 1
        return self._conn.execute(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)


def test_waiting_ops_share_one_commit_and_one_that_fails_fails_alone(store):
    commits = Commits(store)
    store.run(store.ops.enqueue([job(unique_key="taken")]))
    before = commits.count
    batches = [[job()], [job(), job(unique_key="taken", on_conflict="raise")], [job(), job()], [job(id=None)]]
    batches += [[job()] for _ in range(20)]

    async def main() -> list[Any]:
        writer = store._live.writer
        assert writer.pause(60)
        waiting = [asyncio.ensure_future(store.arun(store.ops.enqueue(batch))) for batch in batches]
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in waiting)
        writer.resume()
        return await asyncio.gather(*waiting, return_exceptions=True)

    answers = asyncio.run(main())
    assert commits.count - before <= 2
    assert isinstance(answers[1], Duplicate)
    assert isinstance(answers[3], StoreError)
    assert [len(answer) for answer in answers[4:]] == [1] * 20
    assert count(store) == 2 + 1 + 2 + 20


def test_ops_that_come_last_let_others_pass_and_have_a_turn(store):
    commits = Commits(store)
    order: list[str] = []

    async def enqueue_as(name: str, last: bool) -> None:
        comes_last.set(last)
        await store.arun(store.ops.enqueue([job()]))
        order.append(name)

    async def main() -> None:
        writer = store._live.writer
        assert writer.pause(60)
        waiting = [asyncio.create_task(enqueue_as("large", True)) for _ in range(2)]
        await asyncio.sleep(0.05)  # the thread has taken the first
        waiting += [asyncio.create_task(enqueue_as("small", False)) for _ in range(5)]
        await asyncio.sleep(0.05)
        writer.resume()
        await asyncio.gather(*waiting)
        assert order == ["small"] * 5 + ["large"] * 2
        assert commits.count == 3
        order.clear()
        stop = asyncio.Event()

        async def storm() -> None:
            while not stop.is_set():
                await enqueue_as("small", False)

        storms = [asyncio.create_task(storm()) for _ in range(20)]
        await asyncio.wait_for(enqueue_as("large", True), 30)
        stop.set()
        await asyncio.gather(*storms)

    asyncio.run(main())


def test_an_op_that_comes_last_is_written_when_the_writer_stops(store):
    enqueue(store)

    async def main() -> None:
        comes_last.set(True)
        writer = store._live.writer
        assert writer.pause(60)
        waiting = [asyncio.ensure_future(store.arun(store.ops.enqueue([job()]))) for _ in range(3)]
        await asyncio.sleep(0.05)
        writer.resume()
        await asyncio.to_thread(writer.stop)
        await asyncio.wait_for(asyncio.gather(*waiting), 30)

    asyncio.run(main())
    assert count(store) == 4


def test_ops_that_come_while_another_process_has_the_lock_share_the_next_commit(store, path, library):
    commits = Commits(store)

    async def main() -> None:
        with Locked(path, library) as other:
            waiting = []
            for _ in range(20):
                waiting.append(asyncio.ensure_future(store.arun(store.ops.enqueue([job()]))))
                await asyncio.sleep(0.002)  # the writer has taken the ones before
            assert not any(one.done() for one in waiting)
            await asyncio.to_thread(other.let_go)
            await asyncio.gather(*waiting)

    asyncio.run(main())
    assert commits.count == 1
    assert count(store) == 21


def test_nothing_is_answered_before_its_commit(store):
    commits = Commits(store)
    done = threading.Event()
    early: list[bool] = []
    commits.before = lambda: early.append(done.wait(0.2))
    assert store._live.writer.pause(60)
    thread = threading.Thread(target=lambda: (enqueue(store), done.set()))
    thread.start()
    time.sleep(0.05)
    store._live.writer.resume()
    thread.join(60)
    assert done.is_set()
    assert early == [False]


def test_threads_that_write_at_once_are_all_answered(store):
    commits = Commits(store)
    ids: list[str] = []

    def write() -> None:
        for _ in range(50):
            ids.extend(enqueue(store))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(ids)) == 400
    assert count(store) == 401
    assert commits.count < 400


def test_an_op_that_nobody_awaits_any_more_harms_nobody(store):
    enqueue(store)

    async def main() -> None:
        writer = store._live.writer
        assert writer.pause(60)
        first = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
        await asyncio.sleep(0.05)  # the writer has taken this one: the next two are a group
        gone = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
        kept = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
        await asyncio.sleep(0.05)
        gone.cancel()
        writer.resume()
        assert (await asyncio.wait_for(kept, 60))[0].created
        await first

    asyncio.run(main())
    enqueue(store)
    assert count(store) == 4  # it had not begun, and was not done


def test_what_was_acknowledged_survives_a_kill(path, library):
    code = """
while True:
    print(store.run(ops.enqueue([NewJob(id=new_id(), kind="k")]))[0].id, flush=True)
"""
    victim = process(code, path, library)
    assert victim.stdout is not None
    ids = [victim.stdout.readline().strip() for _ in range(50)]
    victim.send_signal(signal.SIGKILL)
    ids += [line.strip() for line in victim.communicate()[0].splitlines() if line.endswith("\n")]
    store = SqliteStore(str(path), library=library)
    assert {found.id for found in store.run(store.ops.get(ids, tenant_id=None))} == set(ids)
    store.close()


def test_a_full_disk_fails_what_does_not_fit_and_passes(path, library):
    code = """
import asyncio, resource, signal
from headway.errors import StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store.run(ops.enqueue([NewJob(id=new_id(), kind="k")]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
big = [NewJob(id=new_id(), kind="k", payload='"' + "x" * 100_000 + '"') for _ in range(20)]
try:
    store.run(ops.enqueue(big))
except StoreUnavailable as error:
    print(error)
else:
    raise SystemExit("it fitted")
assert sum(store.run(ops.counts(tenant_id=None)).values()) == 1

async def group():
    writer = store._live.writer
    assert writer.pause(60)
    small = [[NewJob(id=new_id(), kind="k")] for _ in range(3)]
    waiting = [asyncio.ensure_future(store.arun(ops.enqueue(jobs))) for jobs in (*small, big, small[0])]
    await asyncio.sleep(0.05)
    writer.resume()
    return await asyncio.gather(*waiting, return_exceptions=True)

answers = asyncio.run(group())
assert isinstance(answers.pop(3), StoreUnavailable), answers
assert [answer[0].created for answer in answers] == [True, True, True, False], answers
assert sum(store.run(ops.counts(tenant_id=None)).values()) == 4
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert all(found.created for found in store.run(ops.enqueue(big)))
"""
    (said,) = wait(process(code, path, library))
    assert "Nothing was written" in said
    store = SqliteStore(str(path), library=library)
    assert count(store) == 24
    store.close()
