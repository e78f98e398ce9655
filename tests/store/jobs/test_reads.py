"""The reads: get, find, attempts, results, counts, queues, ahead, tenants, version."""

from __future__ import annotations

import pytest

from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import Job, Outcome
from headway.model.listing import Cursor, Filter
from headway.store import paging
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def test_get_gives_the_known_ones(db):
    ids = db.enqueue_ids(3)
    jobs = db.run(db.ops.get([ids[2], new_id(), ids[0]], tenant_id=None))
    assert {job.id for job in jobs} == {ids[0], ids[2]}
    assert db.run(db.ops.get([], tenant_id=None)) == []


def test_get_sees_only_its_tenant(db):
    mine, theirs = db.enqueue(tenant="acme", tenant_id=ACME).id, db.enqueue().id
    assert [job.id for job in db.run(db.ops.get([mine, theirs], tenant_id=ACME))] == [mine]


def test_find_gives_the_newest_first_page_by_page(db):
    ids = db.enqueue_ids(10)
    pages, last = [], None
    while page := db.find(limit=4, after=last):
        pages.append([job.id for job in page])
        last = page[-1]
    newest = list(reversed(ids))
    assert pages == [newest[:4], newest[4:8], newest[8:]]


@pytest.mark.parametrize("field", ["tenant_id", "kind", "queue", "source", "correlation_id", "unique_key"])
def test_find_by_each_field(db, field):
    values = {
        "tenant_id": ACME,
        "kind": "kind-1",
        "queue": "queue-2",
        "source": "schedule",
        "correlation_id": "corr-3",
        "unique_key": "unique-4",
    }
    db.enqueue()
    options = {field: values[field]}
    wanted = db.enqueue(**options, **({"tenant": "acme"} if field == "tenant_id" else {})).id
    db.enqueue()
    assert [job.id for job in db.find(**{field: values[field]})] == [wanted]


def test_find_by_every_field_at_once(db):
    where = {"kind": "k", "queue": "q", "source": "event", "correlation_id": "c", "unique_key": "u"}
    wanted = db.enqueue(tenant="acme", tenant_id=ACME, **where).id
    for name in where:
        other = {**where, name: "system" if name == "source" else "other"}
        db.enqueue(tenant="acme", tenant_id=ACME, **other)
    db.enqueue(**where)
    assert [job.id for job in db.find(tenant_id=ACME, status="queued", **where)] == [wanted]
    assert db.find(tenant_id=ACME, status="dead", **where) == []


@pytest.mark.parametrize("status", ["queued", "scheduled", "running", "succeeded", "dead", "canceled", "failed"])
def test_find_by_status(db, status):
    ids = {"scheduled": db.enqueue(delay_ms=60_000).id}
    for to in ("succeeded", "dead", "canceled", "failed"):
        claim = db.start(delivery="at_most_once", queue="ended")
        db.settle(claim, to, delay_ms=3_600_000)
        ids[to] = claim.id
    ids["running"] = db.start(queue="running").id
    ids["queued"] = db.enqueue().id
    found = [job.id for job in db.find(status=status)]
    if status == "scheduled":
        found = [job_id for job_id in found if db.job(job_id).retry_of is None]
    assert found == [ids[status]]


def test_find_by_time_of_creation(db):
    times, ids = [], []
    for _ in range(4):
        times.append(db.advance("1m"))
        ids.append(db.enqueue().id)
    between = db.find(created_after=times[0], created_before=times[3])
    found = {job.id for job in between}
    assert {ids[1], ids[2]} <= found
    assert ids[3] not in found or ids[0] not in found  # half open
    assert {job.id for job in db.find(created_after=db.after(1))} == set()
    assert {job.id for job in db.find(created_before=times[0].replace(year=2000))} == set()


def test_find_by_retry_of(db):
    claim = db.start(delivery="at_most_once")
    db.settle(claim, "failed", delay_ms=0, charge=1)
    (retry,) = db.find(retry_of=claim.id)
    assert retry.retry_of == claim.id


def test_attempts_are_in_order_of_fence_the_open_one_last(db):
    job_id = db.enqueue().id
    for to in ("scheduled", "queued"):
        db.settle(db.take(), to)
    db.take()
    attempts = db.attempts(job_id)
    assert [(attempt.fence, attempt.status) for attempt in attempts] == [
        (1, "failed"),
        (2, "released"),
        (3, "running"),
    ]
    assert attempts[-1].finished_at is None


def test_attempts_are_read_only_by_their_tenant(db):
    claim = db.start(tenant="acme", tenant_id=ACME)
    assert db.attempts(claim.id, tenant_id("beta")) == []
    assert len(db.attempts(claim.id, ACME)) == 1
    db.settle(claim, "dead")
    assert db.attempts(claim.id, tenant_id("beta")) == []
    assert len(db.attempts(claim.id, ACME)) == 1
    assert db.attempts(new_id()) == []


def test_results_say_where_jobs_are(db):
    succeeded, dead = db.start(), db.start()
    db.settle(succeeded, "succeeded", result='{"a": [1]}')
    db.settle(dead, "dead", error="boom")
    again = db.start()
    db.settle(again, "scheduled", delay_ms=1_000, error="not yet")
    queued = db.enqueue().id
    ids = [succeeded.id, dead.id, again.id, queued, new_id()]
    assert db.run(db.ops.results(ids, tenant_id=None)) == {
        succeeded.id: Outcome("succeeded", {"a": [1]}, None),
        dead.id: Outcome("dead", None, "boom"),
        again.id: Outcome("scheduled", None, None),
        queued: Outcome("queued", None, None),
    }


def test_results_are_read_only_by_their_tenant(db):
    mine, theirs = db.enqueue(tenant="acme", tenant_id=ACME).id, db.enqueue().id
    assert set(db.run(db.ops.results([mine, theirs], tenant_id=ACME))) == {mine}


def test_counts_are_per_status_and_tenant(db):
    db.set_fair(fair=False)
    db.enqueue_ids(3)
    db.enqueue_ids(2, delay_ms=60_000)
    db.enqueue(tenant="acme", tenant_id=ACME)
    db.settle(db.take(), "succeeded")

    def counts(tenant):
        return {status: n for status, n in db.run(db.ops.counts(tenant_id=tenant)).items() if n}

    assert counts(None) == {"queued": 3, "scheduled": 2, "succeeded": 1}
    assert counts(ACME) == {"queued": 1}
    assert counts(tenant_id("beta")) == {}


def test_queues_show_their_unfinished_jobs_and_workers(db):
    db.worker(queues={"mail": 2, "idle": 1}, lease_ms=3_600_000)
    db.enqueue(queue="mail", delay_ms=3_600_000)
    oldest = db.now()
    db.enqueue_ids(2, queue="mail")
    db.advance("1m")
    db.enqueue(queue="mail")
    db.settle(db.start(queue="other"), "succeeded")
    db.pause("paused")
    queues = db.queues()
    mail = queues["mail"]
    assert {status: n for status, n in mail.counts.items() if n} == {"queued": 3, "scheduled": 1}
    assert (mail.workers, mail.paused, mail.oldest_queued_at) == (1, False, oldest)
    assert (queues["idle"].workers, queues["idle"].oldest_queued_at) == (1, None)
    assert queues["paused"].paused
    assert "other" not in queues


def test_ahead_counts_the_jobs_of_the_queue_that_come_first(db):
    ids = db.enqueue_ids(5)
    db.enqueue_ids(3, queue="other", priority=1)
    urgent = db.enqueue(priority=1).id
    assert db.run(db.ops.ahead(urgent)) == 0
    assert [db.run(db.ops.ahead(job_id)) for job_id in ids] == [1, 2, 3, 4, 5]
    db.claim(limit=3)
    assert db.run(db.ops.ahead(ids[4])) == 2


def test_ahead_stops_counting_at_ten_thousand(db):
    db.enqueue_ids(10_050)
    last = db.enqueue().id
    assert db.run(db.ops.ahead(last)) == 10_000


def test_the_schema_has_a_version(db):
    db.enqueue()  # a file is made by its first op
    assert db.run(db.ops.version()) >= 1


def test_the_counts_of_queues_are_the_tenants_own(db):
    db.enqueue_ids(3)
    db.enqueue(tenant="acme", tenant_id=ACME)
    queues = {queue.name: queue.counts for queue in db.run(db.ops.queues(tenant_id=ACME))}
    assert queues == {"default": {"queued": 1}}


def test_a_job_without_a_unique_key_has_no_scope(db):
    assert db.job(db.enqueue().id).unique_scope == ()


def test_the_stores_own_clock_is_told(db):
    assert db.run(db.ops.now()) == db.now()


def test_a_change_by_a_delay_counts_from_the_stores_own_clock(db):
    job_id = db.enqueue().id
    assert db.change(job_id, delay_ms=5_000) == "scheduled"
    assert db.job(job_id).scheduled_for == db.after(5_000)


def test_a_list_of_large_jobs_ends_early_and_goes_on_with_the_next_page(db, monkeypatch):
    monkeypatch.setattr(paging, "LIST_BYTES", 20_000)
    monkeypatch.setattr(paging, "_FIRST", 4)
    ids = db.enqueue_ids(30, payload='{"x": "' + "x" * 1_000 + '"}')
    found: list[str] = []
    pages = 0
    page: list[Job] = []
    while page := db.find(limit=25, after=page[-1] if page else None):
        assert len(page) < 25
        found += [job.id for job in page]
        pages += 1
    assert (found, pages > 1) == (ids[::-1], True)
    small = db.enqueue_ids(30, queue="small")
    monkeypatch.setattr(paging, "LIST_BYTES", 2**20)
    assert [job.id for job in db.find(queue="small", limit=30)] == small[::-1]
    assert [job.id for job in db.find(queue="small", limit=7)] == small[::-1][:7]


def test_counts_stop_at_the_most_that_is_asked_for(db):
    acme, globex = tenant_id("acme"), tenant_id("globex")
    for tenant, name, count in ((acme, "acme", 5), (globex, "globex", 2), (DEFAULT_TENANT_ID, "default", 3)):
        db.enqueue_ids(count, queue="a", tenant_id=tenant, tenant=name)
        db.enqueue_ids(count, queue="a", priority=7, tenant_id=tenant, tenant=name)
        db.enqueue_ids(count, queue="b", scheduled_for=db.after(60_000), tenant_id=tenant, tenant=name)
    for tenant in (None, acme, globex, DEFAULT_TENANT_ID, tenant_id("nobody")):
        whole = db.run(db.ops.counts(tenant_id=tenant))
        queues = db.run(db.ops.queues(tenant_id=tenant))
        assert db.run(db.ops.counts(tenant_id=tenant, most=1_000)) == whole
        assert db.run(db.ops.queues(tenant_id=tenant, most=1_000)) == queues
        if tenant != DEFAULT_TENANT_ID:  # which is told what it has among the first of everybody's
            some = {status: min(count, 3) for status, count in whole.items()}
            assert db.run(db.ops.counts(tenant_id=tenant, most=3)) == some
            found = db.run(db.ops.queues(tenant_id=tenant, most=3))
            assert [(each.name, each.oldest_queued_at) for each in found] == [
                (each.name, each.oldest_queued_at) for each in queues
            ]
            assert all(count <= 3 for each in found for count in each.counts.values())
    assert db.run(db.ops.counts(tenant_id=DEFAULT_TENANT_ID, most=3)).get("scheduled", 0) <= 3


def test_a_tenant_pages_through_its_jobs_of_all_statuses(db):
    acme = tenant_id("acme")
    mine = sorted(db.enqueue_ids(6, tenant_id=acme, tenant="acme"))
    later = db.enqueue_ids(5, tenant_id=acme, tenant="acme", scheduled_for=db.after(60_000))
    db.enqueue_ids(4)
    db.cancel(*mine[::2])
    for status, ids in ((None, [*mine, *later]), ("canceled", mine[::2]), ("scheduled", later)):
        for order, wanted in (("newest", sorted(ids, reverse=True)), ("oldest", sorted(ids))):
            found, after = [], None
            while page := db.run(db.ops.find(Filter(tenant_id=acme, status=status), limit=2, order=order, after=after)):
                found += [job.id for job in page]
                after = Cursor(page[-1].id)
            assert found == wanted, (status, order)
