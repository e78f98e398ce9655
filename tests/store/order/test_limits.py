"""Invariant 4, limits: what runs of a queue, kind, tenant or key is counted from live rows, and never too much."""

from __future__ import annotations

import pytest

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.limit import EVERY_TENANT, Limit, concurrency_key, partition_key, tenant_key
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")
KIND = concurrency_key(DEFAULT_TENANT_ID, "mail", None)

# what limits to two at once: (set it, what the jobs carry, the key that the others wait for)
SCOPES = {
    "queue": (("queue", "default"), {}, None),
    "kind": (("kind", "mail"), {}, KIND),
    "tenant": (("tenant", DEFAULT_TENANT_ID), {}, tenant_key(DEFAULT_TENANT_ID)),
    "every tenant": (("tenant", EVERY_TENANT), {}, tenant_key(DEFAULT_TENANT_ID)),
    "own kind": (None, {"concurrency": 2}, KIND),
    "own key": (
        None,
        {"concurrency": 2, "concurrency_key": "user-7"},
        concurrency_key(DEFAULT_TENANT_ID, "mail", "user-7"),
    ),
}
scopes = pytest.mark.parametrize("scope", SCOPES)
asides = pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope != "queue"])


def limited(db, scope, count=5, **more):
    """Jobs of which two may run at once."""
    named, options, key = SCOPES[scope]
    if named is not None:
        db.limit(*named, max_running=2)
    return db.enqueue_ids(count, **options, **more), key


def ids_of(claims):
    return [claim.id for claim in claims]


@scopes
def test_a_limit_is_never_exceeded_in_one_claim_or_in_many(db, scope):
    ids, _ = limited(db, scope)
    assert ids_of(db.claim(limit=1)) == ids[:1]
    assert ids_of(db.claim(db.worker())) == ids[1:2]
    assert db.claim() == []
    assert db.claim(db.worker(), limit=1) == []


@scopes
def test_what_is_limited_runs_in_order_as_room_appears(db, scope):
    ids, _ = limited(db, scope)
    first, second = db.claim()
    db.finish(second)
    (third,) = db.claim()
    db.finish(first, third)
    assert ids_of([first, second, third]) == ids[:3]
    assert db.drain() == ids[3:]


LEAVINGS = ("succeeded", "crash", "dead", "canceled", "retry", "retry at once", "release", "release later")


@pytest.mark.parametrize(
    ("scope", "how"),
    [(scope, how) for scope in SCOPES for how in (LEAVINGS if scope in ("queue", "own key") else LEAVINGS[:2])],
)
def test_whatever_leaves_running_makes_room(db, scope, how):
    worker = db.worker()
    ids, _ = limited(db, scope, 4)
    (first,) = db.claim(worker, limit=1)
    (second,) = db.claim()
    match how:
        case "succeeded" | "dead" | "canceled":
            db.settle(first, how)
        case "retry":
            db.settle(first, "scheduled", charge=1, delay_ms=60_000)
        case "retry at once":
            db.settle(first, "scheduled", charge=1)
        case "release":
            db.release(first)
        case "release later":
            db.release(first, delay_ms=60_000)
        case "crash":
            db.reap(worker)
    again = how in ("retry at once", "release")
    assert ids_of(db.claim()) == ([ids[0]] if again else [ids[2]])
    assert db.claim() == []
    assert db.status(second.id) == "running"


@asides
def test_what_is_limited_out_waits_aside_and_says_why(db, scope):
    ids, key = limited(db, scope)
    db.claim()
    assert db.limited_by(*ids) == [None, None, key, key, key]
    assert db.statuses(*ids) == ["running", "running", "queued", "queued", "queued"]
    usage = db.usage(key)
    assert (usage.key, usage.running, usage.waiting) == (key, 2, 3)


def test_a_queue_at_its_limit_gives_no_claims_and_puts_nothing_aside(db):
    ids, _ = limited(db, "queue")
    db.claim()
    assert db.claim() == []
    assert db.limited_by(*ids) == [None] * 5


@asides
def test_what_is_limited_out_is_not_in_the_way_of_others(db, scope):
    db.set_fair(fair=False)
    ids, _ = limited(db, scope, 6, priority=1)
    other = db.enqueue(kind="other", tenant="acme").id
    assert ids_of(db.claim(limit=3)) == [*ids[:2], other]


@pytest.mark.parametrize("scope", ["kind", "tenant", "own kind", "own key"])
def test_a_limit_reaches_over_queues_and_lets_both_go_on(db, scope):
    here, _ = limited(db, scope, 3)
    _, options, _ = SCOPES[scope]
    there = db.enqueue_ids(3, queue="there", **options)
    first, second = db.claim()
    assert db.claim(queue="there") == []
    db.finish(first)
    third = db.take(queue="there")
    assert (third.id, db.claim()) == (there[0], [])
    db.finish(second)
    assert ids_of(db.claim()) == here[2:]
    db.finish(third)
    assert ids_of(db.claim(queue="there")) == there[1:2]


@pytest.mark.parametrize("scope", ["kind", "own kind"])
def test_a_limit_of_a_kind_reaches_over_tenants(db, scope):
    _, options, _ = SCOPES[scope]
    limited(db, scope, 1)
    db.enqueue_ids(2, tenant="acme", **options)
    assert len(db.claim()) == 2
    assert db.claim() == []


@pytest.mark.parametrize("scope", ["kind", "own kind", "own key"])
def test_a_limit_of_a_kind_minds_no_other_kind(db, scope):
    _, options, _ = SCOPES[scope]
    limited(db, scope, 2)
    others = db.enqueue_ids(2, kind="post", **options)
    assert ids_of(db.claim())[2:] == others


@pytest.mark.parametrize("limit", [2, 3, 4, 10])
@pytest.mark.parametrize(("scope", "free"), [("kind", {"kind": "post"}), ("tenant", {"tenant": "acme"})])
def test_a_limit_holds_behind_jobs_that_it_does_not_mind(db, scope, free, limit):
    db.set_fair(fair=False)
    others = db.enqueue_ids(3, **free)
    mails, _ = limited(db, scope, 4)
    first = ids_of(db.claim(limit=limit))
    assert first == [*others, *mails[:2]][:limit]
    assert first + ids_of(db.claim()) == [*others, *mails[:2]]
    assert db.claim() == []


def test_a_key_is_of_its_tenant_kind_and_text(db):
    db.set_fair(fair=False)
    options = {"concurrency": 1, "concurrency_key": "k"}
    one, _ = db.enqueue_ids(2, **options)
    others = [
        db.enqueue(**options, tenant="acme").id,
        db.enqueue(**options, kind="post").id,
        db.enqueue(**{**options, "concurrency_key": "l"}).id,
    ]
    assert ids_of(db.claim()) == [one, *others]


def test_a_tenants_own_limit_goes_over_that_of_every_tenant(db):
    db.limit("tenant", EVERY_TENANT, max_running=1)
    db.limit("tenant", ACME, max_running=2)
    for tenant in ("acme", "beta"):
        db.enqueue_ids(3, tenant=tenant)
    claims = db.claim()
    assert [claim.tenant_id for claim in claims].count(ACME) == 2
    assert [claim.tenant_id for claim in claims].count(BETA) == 1


@pytest.mark.parametrize(("set_to", "runs"), [(1, 1), (4, 4)])
def test_an_operators_limit_of_a_kind_goes_over_what_the_jobs_carry(db, set_to, runs):
    ids = db.enqueue_ids(5, concurrency=2)
    db.limit("kind", "mail", max_running=set_to)
    assert len(db.claim()) == runs
    db.limit("kind", "mail")
    assert len(db.claim()) == max(0, 2 - runs)
    assert len(ids) == 5


def test_every_limit_must_have_room(db):
    db.limit("kind", "mail", max_running=3)
    db.limit("tenant", DEFAULT_TENANT_ID, max_running=4)
    key = {"concurrency": 1, "concurrency_key": "k"}
    ids = [
        db.enqueue(partition="p").id,
        db.enqueue(partition="p", **key).id,  # the partition is in its way first
        db.enqueue(**key).id,
        db.enqueue(**key).id,  # its key
        db.enqueue().id,
        db.enqueue().id,  # the kind
        db.enqueue(kind="post").id,
        db.enqueue(kind="post").id,  # the tenant
    ]
    assert ids_of(db.claim()) == [ids[0], ids[2], ids[4], ids[6]]
    assert db.limited_by(*ids[1::2]) == [
        partition_key(DEFAULT_TENANT_ID, "p"),
        concurrency_key(DEFAULT_TENANT_ID, "mail", "k"),
        KIND,
        tenant_key(DEFAULT_TENANT_ID),
    ]


def test_one_that_is_limited_out_keeps_nobody_of_its_partition_back(db):
    """The first of a partition waits for its kind: the partition is free for the next, in its place in the order."""
    db.limit("kind", "post", max_running=0)
    db.enqueue(kind="post", partition="p")
    second, third = db.enqueue(partition="p").id, db.enqueue().id
    assert ids_of(db.claim()) == [second, third]


def test_what_is_behind_overtakes_nobody_who_has_room(db):
    db.limit("kind", "post", max_running=0)
    db.limit("tenant", DEFAULT_TENANT_ID, max_running=1)
    db.enqueue(kind="post", partition="p")
    second, _ = db.enqueue(partition="p").id, db.enqueue().id
    assert ids_of(db.claim()) == [second]


def test_jobs_with_several_limits_all_run_in_the_end(db):
    db.limit("queue", "default", max_running=3)
    db.limit("tenant", EVERY_TENANT, max_running=2)
    db.limit("kind", "mail", max_running=2)
    ids = []
    for n in range(36):
        ids.append(
            db.enqueue(
                partition=f"p{n % 4}",
                concurrency=1,
                concurrency_key=f"k{n % 3}",
                kind=("mail", "post")[n % 2],
                tenant=("default", "acme")[n % 5 == 0],
            ).id
        )
    assert sorted(db.drain()) == sorted(ids)


# set at run time


@scopes
def test_a_limit_that_is_widened_holds_for_the_next_claim(db, scope):
    named, _, _ = SCOPES[scope]
    ids, _ = limited(db, scope, 8)
    assert len(db.claim()) == 2
    assert db.claim() == []
    db.limit(*(named or ("kind", "mail")), max_running=5)
    assert len(db.claim()) == (0 if scope == "own key" else 3)
    assert len(ids) == 8


@pytest.mark.parametrize("scope", ["queue", "kind", "tenant", "every tenant"])
def test_a_limit_that_is_removed_is_no_more(db, scope):
    named, _, _ = SCOPES[scope]
    ids, _ = limited(db, scope, 8)
    db.claim()
    db.claim()
    db.limit(*named)
    assert db.limits() == []
    assert ids_of(db.claim()) == ids[2:]


@pytest.mark.parametrize("scope", ["queue", "kind", "tenant", "every tenant"])
def test_a_limit_counts_what_ran_before_it_was_set(db, scope):
    named, _, _ = SCOPES[scope]
    ids = db.enqueue_ids(6)
    claims = db.claim(limit=3)
    db.limit(*named, max_running=2)
    assert db.claim() == []
    db.finish(claims[0])
    assert db.claim() == []
    db.finish(claims[1])
    assert ids_of(db.claim()) == ids[3:4]


@pytest.mark.parametrize("scope", ["queue", "kind", "tenant", "every tenant"])
def test_a_limit_of_none_at_all_lets_nothing_start(db, scope):
    named, _, _ = SCOPES[scope]
    ids = db.enqueue_ids(2)
    db.limit(*named, max_running=0)
    assert db.claim() == []
    db.limit(*named, max_running=1)
    assert ids_of(db.claim()) == ids[:1]


def test_limits_are_listed_as_they_were_set(db):
    db.limit("tenant", ACME, max_running=3, max_pending=4, actor="ann")
    db.limit("queue", "gpu", max_running=2)
    db.limit("kind", "mail", max_running=1, rate_count=5, rate_period_ms=6_000, rate_burst=7)
    assert db.limits() == [
        Limit(scope="kind", name="mail", max_running=1, rate_count=5, rate_period_ms=6_000, rate_burst=7),
        Limit(scope="queue", name="gpu", max_running=2),
        Limit(scope="tenant", name=ACME, max_running=3, max_pending=4),
    ]
    db.limit("kind", "mail", max_running=9)
    assert db.limits()[0] == Limit(scope="kind", name="mail", max_running=9)
    assert db.queues()["gpu"].max_running == 2
    rows = db.sql("select actor from {audit} where job_id is null order by id")
    assert rows == [("ann",), (None,), (None,), (None,)]


# aside and back


@asides
def test_room_for_one_brings_one_back(db, scope):
    ids, key = limited(db, scope, 6)
    claims = db.claim()
    db.finish(claims[0])
    assert db.limited_by(ids[2]) == [None]
    assert ids_of(db.claim()) == ids[2:3]
    assert db.limited_by(*ids[3:]) == [key] * 3


@pytest.mark.parametrize(
    ("scope", "how"),
    [
        *((scope, "cancel") for scope in SCOPES if scope != "queue"),
        *(("own key", how) for how in ("put off", "expire", "other queue", "cancel two")),
    ],
)
def test_when_the_one_that_was_to_go_next_leaves_another_comes_back(db, scope, how):
    ids, _ = limited(db, scope, 6, expires_at=db.after(3_600_000))
    for job_id in ids[4:]:
        db.change(job_id, expires_at=None)
    first, _ = db.claim()
    db.finish(first)
    assert db.limited_by(ids[2]) == [None]
    match how:
        case "cancel":
            db.cancel(ids[2])
        case "cancel two":
            db.cancel(ids[3], ids[2])
        case "put off":
            db.change(ids[2], scheduled_for=db.after(60_000))
        case "expire":
            db.advance("2h")
            db.promote()
        case "other queue":
            db.change(ids[2], queue="other")
    expected = {"expire": ids[4], "cancel two": ids[4]}.get(how, ids[3])
    assert ids_of(db.claim())[:1] == [expected]


@asides
def test_a_job_that_is_canceled_aside_leaves_no_trace_of_its_limit(db, scope):
    ids, key = limited(db, scope, 4)
    claims = db.claim()
    db.cancel(ids[2])
    assert db.limited_by(ids[2]) == [None]
    assert db.claim() == []
    assert db.usage(key).waiting == 1
    db.finish(*claims)
    assert db.drain() == ids[3:]


# keys that are written alike

ALIKE = [("sync", "user:7"), ("sync:user", "7"), ("sync", "user|7"), ("sync:user", "|7"), ("sync", "user")]


def test_keys_that_are_written_alike_are_limited_apart(db):
    ids = [db.enqueue(kind=kind, concurrency=1, concurrency_key=key).id for kind, key in ALIKE]
    again = [db.enqueue(kind=kind, concurrency=1, concurrency_key=key).id for kind, key in ALIKE]
    assert ids_of(db.claim()) == ids
    keys = [concurrency_key(DEFAULT_TENANT_ID, kind, key) for kind, key in ALIKE]
    assert db.limited_by(*again) == keys
    assert len(set(keys)) == len(ALIKE)
    assert [(db.usage(key).running, db.usage(key).waiting) for key in keys] == [(1, 1)] * len(ALIKE)


def test_rates_that_are_written_alike_are_counted_apart(db):
    """A kind's own rate, too, although the kind is written as another's tenant and key."""
    rate = {"rate_count": 1, "rate_period_ms": 60_000}
    ids = [db.enqueue(kind=kind, **rate, rate_key=key).id for kind, key in ALIKE]
    ids.append(db.enqueue(kind=f"{DEFAULT_TENANT_ID}:sync:user:7", **rate).id)
    ids.append(db.enqueue(kind="sync", **rate).id)
    assert ids_of(db.claim()) == ids


def test_partitions_that_are_written_alike_are_held_apart(db):
    ids = [db.enqueue(partition=name).id for name in ("a", "a:b", "a|b", "|a")]
    assert ids_of(db.claim()) == ids
