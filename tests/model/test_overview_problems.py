"""What needs a person: starving jobs, and a database in trouble."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headway.model.fleet import MOST_QUEUED, Queue
from headway.model.overview import of_database, of_kinds, of_queues, of_starving, sampled
from headway.model.stats import Stat
from headway.model.vitals import Condition

NOW = datetime(2026, 3, 1, 12, 30, 20, tzinfo=UTC)
HOUR_MS = 3_600_000


def queue(name="mail", queued=0, workers=1, kinds=("send", "report"), paused=False):
    return Queue(
        name=name,
        paused=paused,
        paused_at=None,
        paused_by=None,
        counts={"queued": queued},
        oldest_queued_at=None,
        workers=workers,
        kinds=kinds,
    )


def stat(kind="send", minutes=0, tenant="a", **numbers):
    at = NOW.replace(second=0) - timedelta(minutes=minutes)
    return Stat(at=at, tenant_id=tenant, queue="mail", kind=kind, **numbers)


def starving(*stats, **options):
    found = list(of_starving([queue(**options)], stats, sampled(stats, NOW), NOW))
    return [(each.kind, each.count, each.why) for each in found]


def test_jobs_starve_if_they_wait_for_long_while_their_queue_runs_others():
    waits = stat(depth=7, oldest_ms=HOUR_MS)
    others = stat("report", minutes=5, started=3)
    told = "7 jobs of kind send have waited in queue mail for 1h 0m, while it runs others"
    assert starving(waits, others) == [("send", 7, told)]
    assert starving(waits, stat(minutes=5, tenant="b", started=3))[0][1] == 7  # only the other tenant's are started
    assert starving(waits, stat(tenant="b", depth=1, oldest_ms=HOUR_MS), others)[0][2].startswith(
        "8 jobs of kind send of 2 tenants have"
    )
    unknown = starving(waits, others, kinds=("report",))
    assert unknown == [("send", 7, "no worker of queue mail knows kind send, and 7 jobs of it wait")]
    assert starving(waits) == []  # nothing runs: the queue is slow, or limited
    assert starving(waits, others, stat(minutes=2, started=1)) == []  # they are started, only late
    assert starving(stat(depth=7, oldest_ms=60_000), others) == []
    assert starving(stat(depth=7, oldest_ms=HOUR_MS, minutes=5), others) == []  # an old sample
    assert starving(waits, others, workers=0) == starving(waits, others, paused=True) == []


def test_a_kind_that_dies_in_several_queues_is_told_by_queue():
    found = [
        Stat(at=NOW, queue=queue, kind=kind, dead=1) for queue, kind in (("a", "send"), ("b", "send"), ("a", "pay"))
    ]
    assert [each.why for each in of_kinds(found)] == [
        "1 job of kind send died in queue a",
        "1 job of kind send died in queue b",
        "1 job of kind pay died",
    ]
    assert "--kind send --queue b" in list(of_kinds(found))[1].fix


def test_a_long_line_is_as_long_as_the_last_sample_says():
    samples = sampled([stat(depth=70_000), stat("report", depth=30_000)], NOW)
    (long,) = of_queues([queue(queued=MOST_QUEUED, workers=0)], samples, NOW)
    assert long.count == 100_000
    (short,) = of_queues([queue(queued=3, workers=0)], samples, NOW)  # it was counted just now
    assert short.count == 3


def test_a_database_is_slow_or_nearly_full():
    def found(**condition):
        return [(each.what, each.why) for each in of_database(Condition(**condition), NOW)]

    assert found() == found(answer_ms=20, free_bytes=2**40, oldest_transaction_ms=1_000, ids_used=0.1) == []
    assert found(free_bytes=100 * 1024**2)[0][0] == "full_database"
    assert "100 MiB" in found(free_bytes=100 * 1024**2)[0][1]
    assert found(ids_used=0.8)[0] == (
        "full_database",
        "80% of PostgreSQL's transaction ids are used: unless it is vacuumed, it will stop",
    )
    assert found(answer_ms=2_500) == [("slow_database", "the database took 2.5s to answer")]
    assert found(oldest_transaction_ms=2 * HOUR_MS)[0][1].startswith("a transaction has been open for 2h")
