"""A store whose process forks works on in the parent and in the child."""

from __future__ import annotations

import os
import threading
import time

from headway.store.sqlite.engine.connection import connect
from tests.store.engine.sqlite.sqlite_processes import FORKS, count, enqueue, in_child, join


@FORKS
def test_a_store_goes_on_in_parent_and_child_after_a_fork(store):
    enqueue(store)
    assert count(store) == 1
    child = in_child(lambda: [enqueue(store) for _ in range(20)] and None)
    for _ in range(20):
        enqueue(store)
    join(child)
    assert count(store) == 41


@FORKS
def test_a_child_keeps_what_it_wrote_when_its_parent_closes_first(store, path, library):
    enqueue(store)
    closed = os.pipe()

    def work() -> None:
        enqueue(store, 5)
        os.read(closed[0], 1)
        enqueue(store, 5)

    child = in_child(work)
    while count(store) < 6:
        time.sleep(0.01)
    store.close()
    os.write(closed[1], b"!")
    join(child)
    assert count(store) == 11
    assert connect(str(path), library).execute("pragma integrity_check") == [("ok",)]


@FORKS
def test_a_fork_beside_a_busy_writer_leaves_the_child_a_store_that_works(store):
    enqueue(store)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            enqueue(store)
            count(store)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            join(in_child(lambda: enqueue(store) and None))
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert connect(store.describe(), store._library).execute("pragma integrity_check") == [("ok",)]
