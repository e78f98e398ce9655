"""The numbers of what happened: they add up to what is in the tables, whoever folds them, and whenever."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta

import msgspec

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.stats import (
    ALL_TENANTS,
    BOUNDS_MS,
    COUNTS,
    MOST_KINDS,
    OTHER,
    SPANS,
    Numbers,
    added,
    begin,
    bucket,
    quantile,
)
from tests.store.db import settlement
from tests.tenant_ids import tenant_id

DAYS = timedelta(days=800)


def fold(db, limit=1_000, depths=None):
    return db.run(db.ops.fold_stats(limit=limit, depths=depths))


def rows(db, span="minute", tenant_id=None, **where):
    now = db.now()
    return db.run(db.ops.stats(span, since=now - DAYS, until=now + DAYS, tenant_id=tenant_id, **where))


def total(found):
    """The numbers of all rows together."""
    numbers = Numbers()
    for row in found:
        numbers.add(row.numbers)
    return numbers


def counts(db, span="minute", **where):
    numbers = total(rows(db, span, **where))
    return {name: count for name in COUNTS if (count := getattr(numbers, name))}


def ledger(db):
    """What the tables say, if no job was ever retried by hand or deleted."""
    jobs = [status for (status,) in db.sql("select status from {jobs}")]
    attempts = [status for (status,) in db.sql("select status from {attempts}")]
    found = {
        "enqueued": len(jobs),
        "started": len(attempts),
        "failed": attempts.count("failed") + attempts.count("timeout"),
        "lost": attempts.count("lost"),
    }
    for status in ("succeeded", "dead", "canceled"):
        found[status] = jobs.count(status)
    return {name: count for name, count in found.items() if count}


def busy_hour(db):
    """Jobs that end in every way, of two queues."""
    db.enqueue_ids(5, kind="mail")
    db.enqueue_ids(3, kind="report", queue="slow", delay_ms=1_000)
    db.enqueue_ids(2, kind="report", queue="slow", unique_key="one")
    first, second, third, fourth, fifth = db.claim()
    db.advance(1.5)
    db.promote()
    db.finish(first)
    db.settle(second, "scheduled", charge=1, delay_ms=500, error="ValueError: no")
    db.settle(third, "dead", charge=1, error="ValueError: no")
    db.settle_all([settlement(fourth, "canceled"), settlement(fifth, "succeeded", result="7")])
    db.advance(59)
    worker = db.worker()
    lost = db.claim(worker, "slow", 2)
    db.cancel(lost[0].id)
    db.reap(worker)
    db.promote()
    once = db.start(queue="once", kind="once", delivery="at_most_once", unique_key="1")
    db.settle(once, "failed", charge=1, error="boom")
    group = db.enqueue_ids(3, kind="held", queue="none", train="t")
    db.cancel(*group)
    late = db.enqueue(kind="late", queue="none", expires_at=db.after(1_000))
    back = db.start(queue="back", kind="back")
    db.cancel(back.id)
    db.release(back)
    db.advance(61)
    db.promote()
    assert db.status(late.id) == "canceled"
    db.drain()
    db.drain("slow")
    db.drain("once")


def test_the_numbers_add_up_to_what_happened(db):
    busy_hour(db)
    found = counts(db)
    assert found.pop("retried") == 3  # one that failed, one that was lost, and the new job of an at_most_once one
    assert found == ledger(db)
    # folded in pieces, again and again: the same numbers at every point, and in every span
    whole = rows(db)
    pieces = 0
    while fold(db, limit=3):
        pieces += 1
        assert rows(db) == whole
    assert pieces > 4
    for span in SPANS:
        assert total(rows(db, span)) == total(whole), span
    assert [row.at for row in rows(db, "day")] == [row.at.replace(hour=0, minute=0) for row in rows(db, "day")]
    by_hour = {}
    for row in whole:
        by_hour.setdefault((row.at.replace(minute=0), row.queue, row.kind), []).append(row)
    assert {(r.at, r.queue, r.kind): r.numbers for r in rows(db, "hour")} == {
        key: total(found) for key, found in by_hour.items()
    }
    assert counts(db, queue=("slow",), kind=("report",)) == counts(db, queue=("slow",)) != counts(db)
    assert counts(db, queue=("slow", "default", "once", "none", "back")) == counts(db)
    assert counts(db, kind=("mail", "nothing")) == counts(db, kind=("mail",)) != counts(db, kind=())
    assert fold(db) == 0


def test_a_start_belongs_to_its_minute_and_an_end_to_its_own(db):
    db.advance(
        timedelta(minutes=1) - timedelta(seconds=db.now().second, microseconds=db.now().microsecond)
    )  # a minute begins
    minute = db.now()
    db.enqueue_ids(2, kind="k")
    db.advance(58)
    claims = db.claim()
    db.advance(2)
    db.finish(*claims)
    for _ in range(2):
        first, second = rows(db)
        assert (first.at, second.at) == (minute, minute + timedelta(minutes=1))
        assert first.numbers == Numbers(enqueued=2, started=2, waits={bucket(58_000): 2})
        assert second.numbers == Numbers(succeeded=2, runs={bucket(2_000): 2})
        fold(db)


def test_a_machine_that_goes_on_at_once_does_not_wait(db, make):
    job = make.machine(kind="m")
    db.enqueue_all([job])
    db.advance(10)
    (claim,) = db.claim()
    db.advance(5)
    db.settle_all([make.turned(claim, "next", "running", step="b")])
    db.advance(3)
    db.settle_all([msgspec.structs.replace(make.turned(claim, "done"), fence=claim.fence + 1)])
    numbers = total(rows(db))
    assert (numbers.started, numbers.succeeded) == (2, 1)
    assert (numbers.waits, numbers.runs) == (
        {bucket(10_000): 1, bucket(0): 1},
        {bucket(5_000): 1, bucket(3_000): 1},
    )


def test_a_clock_that_goes_backwards_gives_no_times_below_zero(db):
    db.enqueue(kind="k")
    db.advance(timedelta(seconds=-5))
    (claim,) = db.claim()
    db.advance(timedelta(seconds=-5))
    db.finish(claim)
    fold(db)
    numbers = total(rows(db))
    assert (numbers.started, numbers.waits, numbers.runs) == (1, {0: 1}, {0: 1})


def test_a_settle_that_is_repeated_or_comes_too_late_counts_once(db):
    claim = db.start(kind="k")
    for _ in range(2):
        assert db.settle(claim, "succeeded") == []
    worker = db.worker()
    lost = db.start(worker, kind="k")
    db.reap(worker)
    assert db.settle(lost, "succeeded", worker=worker) == [(lost.id, lost.fence)]
    assert counts(db) == {"enqueued": 2, "started": 2, "succeeded": 1, "retried": 1, "lost": 1}


def test_an_enqueue_that_meets_a_job_counts_the_new_ones_only(db, make):
    first = make.job(kind="k", idempotency_key="a")
    for _ in range(2):
        db.enqueue_all([first])
        db.enqueue_all([first, make.job(kind="k", idempotency_key="b"), make.job(kind="l", idempotency_key="c")])
        db.enqueue_all([make.job(kind="k", unique_key="u"), make.job(kind="l", unique_key="u", train="t")])
    assert db.sql("select count(*) from {jobs}") == [(5,)]
    assert counts(db) == {"enqueued": 5}
    assert counts(db, kind=("l",)) == {"enqueued": 2}


def test_what_is_rolled_back_is_not_counted(db, make):
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.store.run_in(conn, db.ops.enqueue([make.job(kind="k"), make.job(kind="k")]))
        conn.execute("rollback")
    assert rows(db) == []


def test_a_sample_of_depths_is_stored_once_a_minute(db):
    db.enqueue_ids(3, kind="a")
    db.enqueue_ids(2, kind="b", queue="slow", tenant_id=tenant_id("acme"), tenant="acme")
    db.enqueue(kind="later", delay_ms=60_000)
    db.advance(7)
    sampled = db.run(db.ops.depths())
    assert sorted((d.tenant_id == DEFAULT_TENANT_ID, d.queue, d.kind, d.depth, d.oldest_ms) for d in sampled) == [
        (False, "slow", "b", 2, 7_000),
        (True, "default", "a", 3, 7_000),
    ]
    for _ in range(2):
        fold(db, depths=sampled)
        assert db.run(db.ops.depths()) is None
    assert {row.kind: (row.numbers.depth, row.numbers.oldest_ms) for row in rows(db)} == {
        "a": (3, 7_000),
        "b": (2, 7_000),
        "later": (None, None),
    }
    db.claim(limit=1)
    db.advance(60)
    fold(db, depths=db.run(db.ops.depths()))
    assert [row.numbers.depth for row in rows(db, kind=("a",))] == [3, 2]
    assert [(row.numbers.depth, row.numbers.oldest_ms) for row in rows(db, "hour", kind=("a",))] == [(3, 67_000)]
    assert db.run(db.ops.depths()) is None


def test_more_kinds_than_a_day_has_room_for_count_as_other(db, make):
    db.enqueue_all([make.job(kind=f"k{n:04}") for n in range(MOST_KINDS + 10)])
    fold(db, limit=MOST_KINDS)  # in two pieces
    fold(db)
    db.enqueue_all([make.job(kind="k0000"), make.job(kind="another")])
    fold(db)
    for span in SPANS:
        found = {row.kind: row.numbers.enqueued for row in rows(db, span)}
        assert (len(found), found[OTHER], found["k0000"]) == (MOST_KINDS + 1, 11, 2), span
        assert sum(found.values()) == MOST_KINDS + 12
    db.advance(86_400)
    db.enqueue(kind="another")
    fold(db)
    assert counts(db, kind=("another",)) == {"enqueued": 1}


def test_each_span_has_its_own_retention(db):
    db.enqueue(kind="k")
    fold(db)
    db.advance(3_600)
    db.enqueue(kind="k")
    fold(db)
    assert db.run(db.ops.prune_stats("minute", older_than_ms=1_800_000, limit=10)) == 4  # one and its sums
    assert [len(rows(db, span)) for span in SPANS] == [1, 2, len({row.at.date() for row in rows(db, "hour")})]
    kept = {"stats_minutes": 0, "stats_hours": 86_400_000}
    db.advance(60)
    assert db.run(db.ops.prunable(kept)) == {"stats_minutes": 4, "stats_hours": 0}


def test_sums_are_what_their_rows_add_up_to(db):
    def sums(level, **where):
        found = rows(db, level=level, **where)
        return {(row.tenant_id, row.queue, row.kind): (row.numbers.enqueued, row.numbers.depth) for row in found}

    acme = tenant_id("acme")
    nobody = ALL_TENANTS
    db.enqueue_ids(2, kind="k", queue="a", tenant_id=acme, tenant="acme")
    db.enqueue_ids(3, kind="l", queue="a")
    db.enqueue_ids(4, kind="l", queue="b")
    depths = db.run(db.ops.depths())
    for folded in (False, True):  # from deltas, then from rows
        if folded:
            fold(db, depths=depths)
        depth = [2, 3, 4, 5, 7, 9] if folded else [None] * 6
        all_kinds = sums("kinds")
        assert sorted(count for count, _ in all_kinds.values()) == [2, 3, 4]
        assert sums("tenants") == {(acme, "", ""): (2, depth[0]), (DEFAULT_TENANT_ID, "", ""): (7, depth[4])}
        assert sums("tenants", tenant_id=acme) == {(acme, "", ""): (2, depth[0])}
        assert sums("queues") == {(nobody, "a", ""): (5, depth[3]), (nobody, "b", ""): (4, depth[2])}
        assert sums("queues", queue="b") == {(nobody, "b", ""): (4, depth[2])}
        assert sums("total") == {(nobody, "", ""): (9, depth[5])}
        assert folded or sums("kinds", died=True) == {}
    db.enqueue(kind="l", queue="b")
    fold(db)
    assert sums("total", span="day") == {(nobody, "", ""): (10, 9)}


def test_tenants_side_by_side_have_the_sums_of_their_minutes_and_their_last_sample(db):
    begun = db.now()
    acme = {"tenant_id": tenant_id("acme"), "tenant": "acme"}
    for n in range(4):
        for m in range(n + 1):
            claim = db.start(kind="k", queue=f"q{n}{m}", **(acme if m % 2 else {}))
            db.advance(3 * n)
            db.settle(claim, "dead" if m else "succeeded")
        db.enqueue_ids(n, kind="waits", queue="slow", **acme)
        if n < 3:  # the rest are deltas
            fold(db, depths=db.run(db.ops.depths()))
        db.advance(70)
    now = db.now()

    def found(since, sampled_after=begun - DAYS):
        op = db.ops.stats_side_by_side(since=begin(since, "minute"), until=now, sampled_after=sampled_after)
        return db.run(op)

    for since in (begun, begun + timedelta(seconds=140), now + timedelta(days=1)):
        by_minute = [row for row in rows(db, level="tenants") if row.at >= begin(since, "minute")]
        expected = {
            tenant: total(row for row in by_minute if row.tenant_id == tenant)
            for tenant in {row.tenant_id for row in by_minute}
        }
        for tenant, numbers in expected.items():
            sampled = [row.numbers for row in by_minute if row.tenant_id == tenant and row.numbers.depth is not None]
            numbers.depth, numbers.oldest_ms = (sampled[-1].depth, sampled[-1].oldest_ms) if sampled else (None, None)
        assert found(since) == expected
    assert found(begun)[acme["tenant_id"]].depth == 3  # of the third minute, with those of the second
    assert {of.depth for of in found(begun, sampled_after=now).values()} == {None}


def test_a_tenant_reads_its_own_numbers(db):
    db.enqueue_ids(2, kind="k", tenant_id=tenant_id("acme"), tenant="acme")
    db.enqueue(kind="k")
    for _ in range(2):
        assert counts(db, tenant_id=tenant_id("acme")) == {"enqueued": 2}
        assert counts(db, tenant_id=tenant_id("globex")) == {}
        assert counts(db) == {"enqueued": 3}
        fold(db)


def test_two_that_fold_at_once_add_everything_once(db, make):
    db.enqueue_all([make.job(kind=f"k{n}") for n in range(200)])
    before = rows(db)
    gate = threading.Barrier(3)

    def work():
        gate.wait()
        while any(fold(db, limit=7) for _ in range(3)):
            pass

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while fold(db):
        pass
    assert rows(db) == before
    assert db.sql("select * from {stat_deltas}") == []


def test_both_stores_have_the_same_bounds(postgres_store):
    ((bounds,),) = postgres_store.side.execute("select headway.time_bounds()").fetchall()
    assert tuple(bounds) == BOUNDS_MS


def test_quantiles_are_no_further_off_than_a_bucket():
    times = {}
    for ms in range(1, 2_001):
        times = added(times, {bucket(ms): 1})
    for q in (0.5, 0.95, 0.99):
        found, exact = quantile(times, q), q * 2_000
        assert found is not None
        assert abs(found - exact) / exact < 0.1
    assert quantile({}, 0.5) is None
