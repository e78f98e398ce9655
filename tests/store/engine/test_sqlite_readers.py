"""What only a file has: an empty poll leaves it untouched, and other connections see the same jobs."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.parametrize("store", ["sqlite", "sqlite-stdlib"], indirect=True)


def test_a_poll_that_finds_nothing_writes_nothing(db):
    worker = db.worker()
    db.enqueue(queue="other")
    conn = db.connect()
    (before,) = conn.execute("pragma data_version").fetchone()
    for _ in range(10):
        assert db.claim(worker) == []
    (after,) = conn.execute("pragma data_version").fetchone()
    assert after == before
    db.claim(worker, "other")
    (changed,) = conn.execute("pragma data_version").fetchone()
    assert changed != before
    conn.close()


def test_the_file_is_in_wal_mode(db):
    db.enqueue()
    assert db.sql("pragma journal_mode") == [("wal",)]


def test_a_store_opened_again_has_its_jobs(db):
    ids = db.enqueue_ids(3)
    db.store.close()
    again = type(db.store)(db.store.path, library=db.store.library, clock=db.clock.held, prefix=db.store.prefix)
    try:
        assert {job.id for job in again.run(db.ops.get(ids, tenant_id=None))} == set(ids)
    finally:
        again.close()
