"""Vitals: what metrics ask the database, counted by indexes and no further than a limit."""

from __future__ import annotations

import re

import pytest

from headway.model import vitals as model
from headway.store.postgres.stats import vitals as postgres
from headway.store.sqlite.stats import vitals as sqlite


def test_what_is_queued_and_late_right_now(db):
    assert db.run(db.ops.vitals()).depths == []
    db.enqueue_ids(3, queue="mail")
    db.advance("90s")
    db.enqueue_ids(2, queue="mail")
    db.enqueue_ids(2, queue="mail", delay_ms=60_000)
    db.enqueue_ids(2, train="t")
    db.enqueue_ids(4, concurrency=1)
    worker = db.worker()
    db.claim(worker, "default", 10)
    db.advance("20s")
    found = db.run(db.ops.vitals())
    depths = {(each.queue, each.status): (each.count, each.oldest_ms) for each in found.depths}
    assert depths == {
        ("mail", "queued"): (5, 110_000),
        ("mail", "scheduled"): (2, None),
        ("default", "running"): (2, None),
        ("default", "held"): (1, None),
        ("default", "queued"): (3, 20_000),  # set aside by their limit
    }
    assert (found.workers, found.heartbeat_ms) == (1, 20_000)
    assert (found.schedule_lag_ms, found.event_lag_ms) == (0, 0)
    db.advance("10m")
    assert db.run(db.ops.vitals()).workers == 0  # its lease is over


def test_a_huge_backlog_is_counted_up_to_a_limit(db, monkeypatch):
    db.enqueue_ids(20)
    for module in (postgres, sqlite):
        monkeypatch.setattr(module, "MOST_COUNTED", 7)
    assert [each.count for each in db.run(db.ops.vitals()).depths] == [7]
    assert model.MOST_COUNTED == 100_000


@pytest.mark.parametrize("where", postgres.WHERE)
def test_each_status_has_an_index(postgres_store, where):
    """SQLite is told which index to use, and refuses if it cannot."""
    side = postgres_store.side
    side.execute("set enable_seqscan = off")
    side.execute("set enable_bitmapscan = off")
    sql = f"explain (costs off) select j.tenant_id from headway.jobs j where {where} limit 100"
    plan = side.execute(sql).fetchall()
    side.execute("reset all")
    text = "\n".join(line for (line,) in plan)
    assert re.search(r"Index (Only )?Scan using jobs_(claim|aside|due|held|waiting|running|ended|prune)", text), text
