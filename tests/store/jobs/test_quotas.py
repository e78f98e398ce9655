"""Quotas: what a tenant may store is bounded, hard, for that tenant alone; off unless somebody sets them."""

from __future__ import annotations

import threading

import pytest

from headway.errors import QueueFull
from headway.model.event import NewEvent
from headway.model.ids import DEFAULT_TENANT_ID, new_id

ACME = "0190a6e0-0000-7000-8000-00000000acde"


def of_acme(make, **options):
    return make.job(tenant_id=ACME, tenant="acme", **options)


def event(**options):
    return NewEvent(**{"id": new_id(), "tenant_id": ACME, "tenant": "acme", "name": "e", "payload": "null", **options})


def refusal(act):
    with pytest.raises(QueueFull) as caught:
        act()
    return str(caught.value)


def test_a_repeated_enqueue_at_the_quota_is_answered_with_the_job(db, make):
    db.limit("tenant", ACME, max_pending=1)
    job = of_acme(make, unique_key="k")
    assert db.enqueue_all([job])[0].created
    (again,) = db.enqueue_all([job])
    assert (again.id, again.created) == (job.id, False)
    (same_key,) = db.enqueue_all([of_acme(make, unique_key="k")])
    assert same_key.id == job.id
    assert "max_pending of 1" in refusal(lambda: db.enqueue_all([of_acme(make)]))


def test_a_call_of_all_sorts_can_be_repeated_when_every_quota_is_exceeded_by_now(db, make):
    group = make.group()
    first = make.job(unique_key="k", idempotency_key="i")
    jobs = [
        first,
        make.job(train="t", partition="p"),
        make.job(after=(first.id,), group_id=group.id),
        make.job(delay_ms=1000),
        of_acme(make),
    ]
    made = db.enqueue_all(jobs, group)
    db.limit("tenant", "*", max_pending=0, max_bytes=0, max_group=0, max_fan_out=0)
    again = [(each.id, each.status, False) for each in made]
    assert [(each.id, each.status, each.created) for each in db.enqueue_all(jobs, group)] == again
    for job, answer in zip(jobs, again, strict=True):
        (alone,) = db.enqueue_all([job])
        assert (alone.id, alone.status, alone.created) == answer


def test_a_repeat_beside_another_tenants_new_job_is_answered(db, make):
    job = of_acme(make)
    db.enqueue_all([job])
    db.limit("tenant", ACME, max_pending=0, max_bytes=0)
    db.advance("1s")
    assert [each.created for each in db.enqueue_all([job, make.job()])] == [False, True]


def test_a_repeated_emit_at_the_quota_is_answered(db):
    events = [event(), event()]
    db.emit_all(events)
    db.limit("tenant", ACME, max_events=1)
    assert db.emit_all(events) == [each.id for each in events]
    assert "and 1 more would be over" in refusal(lambda: db.emit_all([*events, event()]))


def test_enqueues_at_the_same_moment_do_not_exceed_it_together(db, make):
    db.limit("tenant", ACME, max_pending=3)
    db.enqueue_all([of_acme(make)])
    start = threading.Barrier(6)
    done: list[str] = []

    def enqueue():
        start.wait()
        try:
            db.enqueue_all([of_acme(make)])
            done.append("enqueued")
        except QueueFull:
            done.append("refused")

    threads = [threading.Thread(target=enqueue) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["enqueued"] * 2 + ["refused"] * 4
    assert len(db.find()) == 3


def test_bytes_of_payloads(db, make):
    db.limit("tenant", ACME, max_bytes=100)
    db.enqueue_all([of_acme(make, payload='{"a":"' + "x" * 52 + '"}')])
    said = refusal(lambda: db.enqueue_all([of_acme(make, payload='{"a":"' + "y" * 42 + '"}')]))
    assert said == (
        "tenant acme has 60 bytes of payloads waiting, and 50 more would be over its max_bytes of 100: nothing was "
        "enqueued; let workers catch up, or raise the limit"
    )
    db.enqueue_all([of_acme(make, payload='{"a":"' + "y" * 32 + '"}')])
    db.drain()
    db.enqueue_all([of_acme(make, payload='{"a":"' + "y" * 80 + '"}')])


def test_what_waited_before_counts(db, make):
    db.enqueue_all([of_acme(make, payload='{"a":"' + "x" * 52 + '"}')])
    db.limit("tenant", ACME, max_bytes=100)
    assert "max_bytes" in refusal(lambda: db.enqueue_all([of_acme(make, payload='{"a":"' + "y" * 42 + '"}')]))


def test_events_to_be_handled(db):
    db.limit("tenant", ACME, max_events=2)
    first = event()
    db.run(db.ops.emit([first, event()]))
    assert db.run(db.ops.emit([first])) == [first.id]
    assert refusal(lambda: db.run(db.ops.emit([event(), event()]))) == (
        "tenant acme has 2 events to be handled, and 2 more would be over its max_events of 2: nothing was emitted; "
        "let workers catch up, or raise the limit"
    )
    db.run(db.ops.emit([event(tenant_id=DEFAULT_TENANT_ID, tenant="default")]))
    assert db.sql("select count(*) from {events}") == [(3,)]


def test_schedules_and_triggers(db):
    db.limit("tenant", ACME, max_schedules=2)
    db.schedule(tenant_id=ACME, tenant="acme", name="one")
    db.schedule(tenant_id=ACME, tenant="acme", name="two")
    assert refusal(lambda: db.schedule(tenant_id=ACME, tenant="acme", name="three")) == (
        "tenant acme has 2 schedules and triggers, and 1 more would be over its max_schedules of 2: nothing was made; "
        "delete some, or raise the limit"
    )
    db.schedule(name="other")


def test_members_of_a_group(db, make):
    db.limit("tenant", ACME, max_group=2)
    db.enqueue_all([of_acme(make)])  # by which the tenant has its name
    group = make.group(tenant_id=ACME)
    db.enqueue_all([of_acme(make, group_id=group.id) for _ in range(2)], group)
    said = refusal(lambda: db.enqueue_all([of_acme(make, group_id=group.id)]))
    assert said == f"group {group.id} would have more members than tenant acme's max_group of 2: nothing was enqueued"
    other = make.group(tenant_id=ACME)
    assert "max_group of 2" in refusal(
        lambda: db.enqueue_all([of_acme(make, group_id=other.id) for _ in range(3)], other)
    )
    assert db.group(other.id) is None


def test_followers_of_a_job(db, make):
    db.limit("tenant", ACME, max_fan_out=2)
    parent = of_acme(make)
    db.enqueue_all([parent])
    db.enqueue_all([of_acme(make, after=(parent.id,))])
    said = refusal(lambda: db.enqueue_all([of_acme(make, after=(parent.id,)) for _ in range(2)]))
    assert said == (
        f"job {parent.id} would have more children or followers than tenant acme's max_fan_out of 2: "
        "nothing was enqueued"
    )
    db.enqueue_all([of_acme(make, after=(parent.id,))])


def test_other_tenants_are_not_bounded(db, make):
    db.limit("tenant", ACME, max_pending=0, max_events=0, max_schedules=0)
    db.enqueue()
    db.schedule(name="mine")
    assert "max_pending of 0" in refusal(lambda: db.enqueue_all([of_acme(make)]))


def test_quotas_of_every_tenant_hold_for_those_without_their_own(db, make):
    db.limit("tenant", "*", max_events=0)
    assert "max_events of 0" in refusal(lambda: db.run(db.ops.emit([event()])))
    db.limit("tenant", ACME, max_running=5)
    db.run(db.ops.emit([event()]))


def test_they_are_listed_and_taken_back(db):
    db.limit("tenant", ACME, max_bytes=2**40, max_fan_out=7)
    (limit,) = db.limits()
    assert limit.quotas == {"max_bytes": 2**40, "max_fan_out": 7}
    db.limit("tenant", ACME)
    assert db.limits() == []


def test_a_replaced_payload_counts_towards_max_bytes(db, make):
    db.limit("tenant", ACME, max_bytes=60)

    def enqueue(text):
        job = of_acme(make, unique_key="k", payload=f'{{"text":"{text}"}}', on_conflict="replace")
        return db.enqueue_all([job])[0]

    first = enqueue("short")
    assert refusal(lambda: enqueue("x" * 60)) == (
        "tenant acme has 0 bytes of payloads waiting, and 71 more would be over its max_bytes of 60: nothing was "
        "enqueued; let workers catch up, or raise the limit"
    )
    assert db.job(first.id).payload == {"text": "short"}
    assert enqueue("other").replaced
