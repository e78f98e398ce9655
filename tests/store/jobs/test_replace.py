"""An enqueue that finds its unique key taken may replace the job that has it, or wait as its successor."""

from __future__ import annotations

import threading

import pytest

from headway.model.job import REPLACEABLE
from tests.tenant_ids import tenant_id

NEW = {
    "payload": '{"n":2}',
    "priority": 7,
    "queue": "slow",
    "max_attempts": 9,
    "max_losses": 8,
    "backoff_base_ms": 11,
    "backoff_cap_ms": 22,
    "timeout_ms": 33,
    "meta": '{"m":4}',
    "tags": ("new", "vip"),
    "partition": "p",
    "concurrency": 3,
    "concurrency_key": "c",
    "rate_count": 5,
    "rate_period_ms": 66,
    "rate_burst": 2,
    "rate_key": "r",
}
FIELDS = {
    "backoff": ("backoff_base_ms", "backoff_cap_ms"),
    "timeout": ("timeout_ms",),
    "concurrency": ("concurrency", "concurrency_key"),
    "rate": ("rate_count", "rate_period_ms", "rate_burst", "rate_key"),
}


def replace(db, **options):
    return db.enqueue(**{"unique_key": "k", "on_conflict": "replace", **options})


def follow(db, **options):
    return replace(db, **{"on_conflict": "replace_or_follow", **options})


def shown(answer):
    return (answer.id, answer.status, answer.created, answer.replaced)


# who is replaced


def test_the_first_enqueue_creates_and_the_next_replaces(db):
    first = replace(db, payload='{"n":1}')
    assert shown(first) == (first.id, "queued", True, False)
    assert shown(replace(db, payload='{"n":2}')) == (first.id, "queued", False, True)
    assert [job.payload for job in db.find()] == [{"n": 2}]
    assert [claim.payload for claim in db.claim()] == ['{"n":2}']


def test_replace_sets_everything_that_is_not_identity_or_order(db):
    old = db.enqueue(unique_key="k", train="t", delivery="at_most_once", correlation_id="corr", idempotency_key="i")
    before = db.job(old.id)
    due, expires = db.after(5_000), db.after(60_000)
    db.advance("1s")
    answer = replace(db, **NEW, scheduled_for=due, expires_at=expires, train="other", correlation_id="else")
    assert shown(answer) == (old.id, "scheduled", False, True)
    job = db.job(old.id)
    stored = {**NEW, "payload": {"n": 2}, "meta": {"m": 4}}
    assert {name: getattr(job, name) for name in stored} == stored
    assert (job.status, job.scheduled_for, job.expires_at) == ("scheduled", due, expires)
    kept = ("train", "delivery", "correlation_id", "idempotency_key", "unique_key", "unique_scope", "created_at")
    assert {name: getattr(job, name) for name in kept} == {name: getattr(before, name) for name in kept}


@pytest.mark.parametrize("field", REPLACEABLE)
def test_replace_may_name_what_it_sets(db, field):
    old = db.enqueue(unique_key="k", payload='{"n":1}', delay_ms=90_000, expires_at=db.after(500_000))
    before = db.job(old.id)
    times = {"scheduled_for": db.after(5_000), "expires_at": db.after(60_000)}
    assert replace(db, **NEW, **times, replace=(field,)).replaced
    wanted = {"payload": {"n": 2}, "meta": {"m": 4}, **times}
    fields = FIELDS.get(field, (field,))
    after = db.job(old.id)
    for name in after.__struct_fields__:
        expected = wanted.get(name, NEW.get(name)) if name in fields else getattr(before, name)
        assert getattr(after, name) == expected, name


@pytest.mark.parametrize("delay_ms", [None, 60_000])
def test_a_job_moves_between_queued_and_scheduled_with_its_new_time(db, delay_ms):
    old = db.enqueue(unique_key="k", delay_ms=delay_ms)
    neighbour = db.enqueue()
    later = replace(db, delay_ms=5_000)
    assert shown(later) == (old.id, "scheduled", False, True)
    assert [claim.id for claim in db.claim()] == [neighbour.id]
    sooner = replace(db)
    assert shown(sooner) == (old.id, "queued", False, True)
    assert (db.job(old.id).queued_at, db.job(old.id).scheduled_for) == (db.now(), None)
    assert db.take().id == old.id


def test_a_queued_job_that_is_replaced_keeps_its_place(db):
    ids = [db.enqueue(unique_key=f"k{n}").id for n in range(3)]
    replace(db, unique_key="k0", payload='{"n":2}')
    assert [claim.id for claim in db.claim()] == ids


def test_a_held_job_is_replaced_and_stays_held(db):
    parent = db.start()
    child = db.enqueue(unique_key="k", after=(parent.id,))
    answer = replace(db, payload='{"n":2}', delay_ms=5_000)
    assert shown(answer) == (child.id, "held", False, True)
    db.finish(parent)
    assert db.statuses(child.id) == ["scheduled"]
    db.advance("5s")
    db.promote()
    assert db.take().payload == '{"n":2}'


@pytest.mark.parametrize("to", ["running", "scheduled", "queued", "waiting", "released"])
def test_what_has_run_is_left_alone_and_the_answer_says_so(db, make, to):
    claim = db.start(unique_key="k", payload='{"n":1}')
    if to == "waiting":
        db.settle_all([make.turned(claim, "await", awaiting=("pay",))])
    elif to == "released":
        db.release(claim)
    elif to != "running":
        db.settle(claim, to, delay_ms=60_000, charge=1)
    before = db.job(claim.id)
    assert shown(replace(db, payload='{"n":2}', priority=1)) == (claim.id, before.status, False, False)
    assert db.job(claim.id) == before


def test_the_retry_of_an_at_most_once_job_counts_as_run(db):
    claim = db.start(unique_key="k", delivery="at_most_once", payload='{"n":1}')
    db.settle(claim, "failed", charge=1, error="boom")
    (heir,) = db.find(retry_of=claim.id)
    assert shown(replace(db, payload='{"n":2}')) == (heir.id, heir.status, False, False)
    assert db.job(heir.id).payload == {"n": 1}


def test_an_ended_job_has_no_key_to_replace(db):
    claim = db.start(unique_key="k")
    db.finish(claim)
    assert replace(db).created


@pytest.mark.parametrize("on_conflict", ["replace", "replace_or_follow"])
def test_a_scope_over_the_end_keeps_the_ended_job_as_it_is(db, on_conflict):
    scope = ("queued", "running", "succeeded")
    claim = db.start(unique_key="k", unique_scope=scope)
    db.finish(claim)
    answer = replace(db, unique_scope=scope, payload='{"n":2}', on_conflict=on_conflict)
    assert shown(answer) == (claim.id, "succeeded", False, False)


def test_a_job_may_leave_its_scope_by_being_put_off(db):
    scope = ("queued",)
    old = db.enqueue(unique_key="k", unique_scope=scope)
    assert shown(replace(db, delay_ms=5_000)) == (old.id, "scheduled", False, True)
    assert db.enqueue(unique_key="k", unique_scope=scope).created


def test_a_repeat_of_the_same_enqueue_is_answered_alike_and_changes_nothing(db, make):
    replace(db, payload='{"n":1}')
    again = make.job(unique_key="k", on_conflict="replace", payload='{"n":2}')
    (first,) = db.enqueue_all([again])
    claim = db.take()
    (second,) = db.enqueue_all([again])
    assert shown(second) == (first.id, "running", False, True)
    assert db.enqueue_all([make.job(id=first.id, unique_key="k", on_conflict="replace")])[0].replaced is False
    assert db.job(claim.id).payload == {"n": 2}


def test_an_idempotency_key_is_answered_not_replaced(db):
    first = db.enqueue(idempotency_key="i", unique_key="k", payload='{"n":1}')
    answer = replace(db, idempotency_key="i", payload='{"n":2}')
    assert shown(answer) == (first.id, "queued", False, False)
    assert db.job(first.id).payload == {"n": 1}


def test_a_tenant_replaces_only_its_own(db):
    first = db.enqueue(unique_key="k", payload='{"n":1}')
    other = replace(db, payload='{"n":2}', tenant="acme")
    assert other.created
    assert replace(db, payload='{"n":3}', tenant="acme", tenant_id=tenant_id("acme")).id == other.id
    assert db.job(first.id).payload == {"n": 1}


def test_a_limited_job_is_put_off_or_moved_and_its_slot_is_offered(db):
    running = db.start(partition="p")
    first, second = db.enqueue(unique_key="k", partition="p"), db.enqueue(partition="p")
    assert db.claim() == []
    db.finish(running)
    db.process_arrivals()
    replace(db, delay_ms=60_000, partition="p")
    assert db.take().id == second.id
    assert db.statuses(first.id) == ["scheduled"]
    moved = db.enqueue(unique_key="q", partition="p")
    assert db.claim() == []
    assert replace(db, unique_key="q", partition="free").replaced
    assert db.take().id == moved.id


def test_a_machine_that_never_ran_is_replaced_with_its_version(db, make):
    old = db.enqueue_all([make.machine(unique_key="k", payload='{"order":1}')])[0]
    new = make.machine(unique_key="k", payload='{"order":2}', on_conflict="replace", version=7)
    assert db.enqueue_all([new])[0].replaced
    job = db.job(old.id)
    assert (job.payload, job.version) == ({"order": 2}, 7)


# batches


def test_within_a_batch_the_newest_wins_field_by_field(db, make):
    def job(**options):
        return make.job(**{"unique_key": "k", "on_conflict": "replace", **options})

    answers = db.enqueue_all(
        [
            job(payload='{"n":1}', priority=1),
            job(payload='{"n":2}', priority=2, replace=("payload",)),
            make.job(),
            job(payload='{"n":3}', priority=3, replace=("priority",)),
            job(unique_key="other"),
        ]
    )
    first = answers[0].id
    assert [answer.id == first for answer in answers] == [True, True, False, True, False]
    assert [answer.created for answer in answers] == [True, False, True, False, True]
    assert [answer.replaced for answer in answers] == [False, True, False, True, False]
    assert (db.job(first).payload, db.job(first).priority) == ({"n": 2}, 3)


def test_a_large_batch_of_taken_keys_is_replaced_at_once(db, make):
    old = db.enqueue_all([make.job(unique_key=f"k{n}", payload='{"n":0}') for n in range(300)])
    new = [make.job(unique_key=f"k{n % 300}", payload=f'{{"n":{n}}}', on_conflict="replace") for n in range(400)]
    answers = db.enqueue_all(new)
    assert [answer.id for answer in answers] == [old[n % 300].id for n in range(400)]
    assert all(answer.replaced for answer in answers)
    assert [db.job(old[n].id).payload["n"] for n in (0, 99, 100, 299)] == [300, 399, 100, 299]


def test_one_batch_may_return_raise_and_replace(db, make):
    a, b, c = (db.enqueue(unique_key=key, payload='{"n":1}') for key in "abc")
    answers = db.enqueue_all(
        [
            make.job(unique_key="a", payload='{"n":2}'),
            make.job(unique_key="b", payload='{"n":2}', on_conflict="replace"),
            make.job(unique_key="free", on_conflict="raise"),
        ]
    )
    assert [answer.replaced for answer in answers] == [False, True, False]
    assert [db.job(each.id).payload["n"] for each in (a, b, c)] == [1, 2, 1]


# debounce: a delay that each enqueue starts anew, up to debounce_max after the first


def debounce(db, **options):
    return replace(db, **{"delay_ms": 5_000, "debounce_max_ms": 12_000, **options})


@pytest.mark.parametrize("on_conflict", ["replace", "replace_or_follow"])
def test_a_first_car_replaces_beside_others_of_its_call_as_it_does_alone(db, make, on_conflict):
    scope = ("queued", "scheduled")
    first = replace(db, unique_scope=scope)
    car = make.job(unique_key="k", unique_scope=scope, on_conflict=on_conflict, train="t", payload='{"n":2}')
    plain, answer = db.enqueue_all([make.job(), car])
    assert (plain.created, shown(answer)) == (True, (first.id, "queued", False, True))
    assert sorted(job.payload.get("n", 0) for job in db.find()) == [0, 2]


def test_each_enqueue_pushes_the_time_up_to_the_most(db):
    begin = db.now()
    first = debounce(db, payload='{"n":0}')
    assert first.status == "scheduled"
    due = []
    for n in range(1, 4):
        db.advance("4s")
        assert debounce(db, payload=f'{{"n":{n}}}').id == first.id
        job = db.job(first.id)
        due.append((job.scheduled_for - begin).total_seconds())
    assert due == [9, 12, 12]
    assert db.job(first.id).status == "queued"
    assert db.take().payload == '{"n":3}'


def test_a_debounced_job_that_is_due_already_is_put_off_once_more(db):
    first = debounce(db, debounce_max_ms=None)
    db.advance("6s")
    db.promote()
    assert db.status(first.id) == "queued"
    assert shown(debounce(db, debounce_max_ms=None)) == (first.id, "scheduled", False, True)


# one successor


@pytest.mark.parametrize("to", ["running", "scheduled", "waiting"])
def test_a_successor_waits_for_the_end_of_what_has_run(db, make, to):
    claim = db.start(unique_key="k", payload='{"n":1}')
    if to == "waiting":
        db.settle_all([make.turned(claim, "await", awaiting=("pay",))])
    elif to == "scheduled":
        db.settle(claim, to, delay_ms=0, charge=1)
    successor = follow(db, payload='{"n":2}')
    assert shown(successor) == (successor.id, "held", True, False)
    assert successor.id != claim.id
    assert db.awaited(successor.id) == {claim.id: db.status(claim.id)}
    assert shown(follow(db, payload='{"n":3}')) == (successor.id, "held", False, True)
    assert db.enqueue(unique_key="k").id == claim.id  # the key is the first one's, until its end
    assert db.job(successor.id).unique_scope == db.job(claim.id).unique_scope
    db.cancel(claim.id)
    if to == "running":
        db.settle(claim, "canceled")
    assert db.statuses(successor.id) == ["queued"]
    assert db.enqueue(unique_key="k").id == successor.id
    assert db.take().payload == '{"n":3}'


@pytest.mark.parametrize("end", ["succeeded", "dead", "canceled"])
def test_a_successor_has_the_key_however_its_predecessor_ends(db, end):
    claim = db.start(unique_key="k")
    successor = follow(db)
    db.settle(claim, end)
    second = db.take()
    assert second.id == successor.id
    third = follow(db)
    assert (third.status, third.created) == ("held", True)
    db.finish(second)
    db.finish(db.take())
    assert follow(db).status == "queued"


def test_a_job_that_never_ran_is_replaced_not_followed(db):
    first = follow(db)
    assert shown(follow(db, delay_ms=5_000)) == (first.id, "scheduled", False, True)
    assert len(db.find()) == 1


def test_a_successor_waits_for_its_own_time_too(db):
    claim = db.start(unique_key="k")
    successor = follow(db, delay_ms=60_000)
    db.finish(claim)
    assert db.statuses(successor.id) == ["scheduled"]
    assert shown(follow(db)) == (successor.id, "queued", False, True)


def test_a_successor_waits_for_the_retry_of_an_at_most_once_job(db):
    claim = db.start(unique_key="k", delivery="at_most_once")
    successor = follow(db)
    db.settle(claim, "failed", charge=1, error="boom")
    (heir,) = db.find(retry_of=claim.id)
    assert db.statuses(successor.id) == ["held"]
    assert db.awaited(successor.id) == {heir.id: heir.status}
    db.drain()
    assert db.statuses(heir.id, successor.id) == ["succeeded", "succeeded"]


def test_a_successor_whose_key_was_taken_meanwhile_waits_for_that_one(db):
    scope = ("queued", "running")
    claim = db.start(unique_key="k", unique_scope=scope)
    successor = follow(db, unique_scope=scope)
    db.settle(claim, "scheduled", delay_ms=60_000, charge=1)  # out of the scope: the key is free
    other = db.start(unique_key="k", unique_scope=scope)
    db.cancel(claim.id)
    assert db.statuses(successor.id, other.id) == ["held", "running"]
    assert db.awaited(successor.id) == {other.id: "running"}
    db.finish(other)
    assert db.statuses(successor.id) == ["queued"]


def test_a_canceled_successor_leaves_its_place_to_another(db):
    claim = db.start(unique_key="k")
    db.cancel(follow(db).id)
    second = follow(db)
    assert (second.status, second.created) == ("held", True)
    db.finish(claim)
    assert db.statuses(second.id) == ["queued"]


def test_successors_of_a_batch_are_one_per_key(db, make):
    claims = [db.start(unique_key=key) for key in "ab"]
    jobs = [
        make.job(unique_key=key, on_conflict="replace_or_follow", payload=f'{{"n":{n}}}')
        for n, key in enumerate("abcab")
    ]
    answers = db.enqueue_all(jobs)
    assert [answer.status for answer in answers] == ["held", "held", "queued", "held", "held"]
    assert [answer.created for answer in answers] == [True, True, True, False, False]
    assert [answer.replaced for answer in answers] == [False, False, False, True, True]
    assert [answer.id for answer in answers[3:]] == [answer.id for answer in answers[:2]]
    db.finish(*claims)
    assert sorted(claim.payload for claim in db.claim()) == ['{"n":2}', '{"n":3}', '{"n":4}']


def test_a_successor_keeps_its_place_in_the_call(db, make):
    claims = [db.start(unique_key=key) for key in "ab"]
    delays = {"a": None, "b": 5_000, "c": None, "d": None}
    jobs = [
        make.job(unique_key=key, on_conflict="replace_or_follow", payload=f'"{key}"', delay_ms=delay_ms)
        for key, delay_ms in delays.items()
    ]
    ids = [answer.id for answer in db.enqueue_all(jobs)]
    assert db.statuses(*ids) == ["held", "held", "queued", "queued"]
    places = [job.position for job in map(db.job, ids)]
    assert places == sorted(places)
    db.finish(*claims)
    assert [claim.payload for claim in db.claim()] == ['"a"', '"c"', '"d"']


def test_a_successor_in_a_train_comes_after_its_train_too(db):
    claim = db.start(unique_key="k", train="t")
    car = db.enqueue(train="t")
    successor = follow(db, train="t")
    db.finish(claim)
    assert db.statuses(car.id, successor.id) == ["queued", "held"]
    db.finish(db.take())
    assert db.statuses(successor.id) == ["queued"]


def test_a_repeated_successor_is_one_job(db, make):
    db.start(unique_key="k")
    job = make.job(unique_key="k", on_conflict="replace_or_follow")
    (first,), (second,) = db.enqueue_all([job]), db.enqueue_all([job])
    assert shown(first) == (job.id, "held", True, False)
    assert (second.id, second.status, second.replaced) == (job.id, "held", False)
    assert len(db.find()) == 2


# many at once


def test_enqueues_at_once_leave_one_job_with_the_newest_payload(db, make):
    answers = []
    barrier = threading.Barrier(6)

    def produce(me: int) -> None:
        barrier.wait()
        for n in range(15):
            keys = [f"k{(me + n + i) % 5}" for i in range(4)]
            jobs = [make.job(unique_key=key, on_conflict="replace", payload=f'{{"n":{me}}}') for key in keys]
            answers.extend(db.enqueue_all(jobs[:: 1 if n % 2 else -1]))

    threads = [threading.Thread(target=produce, args=(me,)) for me in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6 * 15 * 4
    assert len(db.find()) == 5
    assert sum(answer.created for answer in answers) == 5
    assert all(answer.created or answer.replaced for answer in answers)
    for n in range(5):
        replace(db, unique_key=f"k{n}", payload='{"n":"last"}')
    assert {claim.payload for claim in db.claim()} == {'{"n":"last"}'}


def test_every_acknowledged_payload_is_run_or_replaced_by_a_newer_one(db, make):
    """A worker races the producers; with successors, the last payload of each producer is always run or replaced."""
    said: list[tuple[str, bool]] = []
    ran: list[str] = []
    going = threading.Event()

    def produce(me: int) -> None:
        for n in range(25):
            (answer,) = db.enqueue_all(
                [make.job(unique_key="k", on_conflict="replace_or_follow", payload=f'{{"n":"{me}.{n}"}}')]
            )
            said.append((answer.id, answer.created or answer.replaced))

    def work() -> None:
        while not going.is_set():
            for claim in db.claim():
                ran.append(claim.payload)
                while db.run(db.ops.settle(db.home(), [make.settlement(claim, "succeeded")])).busy:
                    pass

    worker = threading.Thread(target=work)
    worker.start()
    threads = [threading.Thread(target=produce, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    going.set()
    worker.join()
    assert all(written for _, written in said)
    db.process_arrivals()
    while claims := db.claim():
        ran.extend(claim.payload for claim in claims)
        db.finish(*claims)
    # a successor that met a newer job, which had yet to run, is superseded by that one
    assert {job.status for job in db.find()} <= {"succeeded", "canceled"}
    assert len(ran) == len(db.find(status="succeeded"))
    assert '.24"' in ran[-1]
