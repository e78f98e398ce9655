"""A file that somebody deletes or replaces while it is in use."""

from __future__ import annotations

import os
from contextlib import closing

from headway.store.ops import Op
from headway.store.sqlite import SqliteStore
from headway.store.sqlite.engine.connection import connect
from tests.store.engine.sqlite.sqlite_processes import count, enqueue, job


def _delete(path):
    for suffix in ("", "-wal", "-shm"):
        os.unlink(f"{path}{suffix}")


def test_a_file_that_is_deleted_is_said_to_be(store, path, caplog):
    enqueue(store, 3)
    _delete(path)
    enqueue(store)
    assert count(store) == 1
    (line,) = [record for record in caplog.records if "was deleted while it was in use" in record.getMessage()]
    assert line.levelname == "WARNING"


def test_a_replaced_file_never_gets_the_log_of_the_old_one(store, path, library, tmp_path, caplog):
    old = enqueue(store, 3)
    other = SqliteStore(str(tmp_path / "other.db"), library=library)
    new = set(enqueue(other, 40))
    other.close()
    os.replace(tmp_path / "other.db", path)
    assert {found.id for found in store.run(store.ops.get([*old, *new], tenant_id=None))} == new
    enqueue(store)
    assert count(store) == 41
    assert "was replaced while it was in use" in caplog.text
    (log,) = tmp_path.glob("*-wal.replaced-*")
    assert log.stat().st_size > 0
    with closing(connect(str(path), library)) as conn:
        assert conn.execute("pragma integrity_check") == [("ok",)]


def test_what_is_written_while_the_file_is_replaced_is_in_the_new_one(store, path):
    enqueue(store, 3)
    new = job()
    inner = store.ops.enqueue([new])
    runs = []

    def steps():
        runs.append(1)
        answer = yield from inner.steps()
        if len(runs) == 1:
            _delete(path)
        return answer

    assert store.run(Op(steps, writes=True))[0].id == new.id
    assert len(runs) == 2
    assert count(store) == 1


def test_a_file_that_was_closed_may_be_replaced_in_silence(store, path, caplog):
    enqueue(store, 3)
    store.close()
    os.unlink(path)
    enqueue(store)
    assert count(store) == 1
    assert "in use" not in caplog.text
