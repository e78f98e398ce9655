"""Children: a machine that spawned jobs waits for all of them, and the next step sees how each ended."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import Duplicate, InvalidJob, QueueFull
from headway.model.ids import new_id
from tests.store.machines.machine_calls import QUIET, changed, checkpoint, new_machine, turned
from tests.tenant_ids import tenant_id


def family(db, make, count=2, on_failure="continue", queue="kids", **options):
    """A machine that waits for children in a queue of their own; gives its id and theirs."""
    claim = db.begin(**options)
    children = db.spawn(claim, *(make.job(queue=queue) for _ in range(count)), on_failure=on_failure)
    return claim.id, *children


def end(db, *tos, queue="kids"):
    """Claim that many children and end them so."""
    claims = db.claim(queue=queue, limit=len(tos))
    assert len(claims) == len(tos)
    for claim, to in zip(claims, tos, strict=True):
        values = {"result": f'"{claim.id}"'} if to == "succeeded" else {"error": f"error of {claim.id}"}
        assert db.settle(claim, to, **values) == []


def seen(db, job_id, fence=None):
    return [(child.id, child.status) for child in db.children(job_id, fence)]


def test_a_machine_is_woken_when_all_its_children_are_over(db, make):
    machine, *children = family(db, make, 3)
    end(db, "succeeded", "succeeded")
    assert db.woken(machine) == ("waiting", None)
    before = db.job(machine)
    db.advance("1m")
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    difference = changed(before, db.job(machine))
    assert difference == {"status": "queued", "woken": "children", "pending": False, "queued_at": db.now()}
    claim = db.take()
    assert (claim.id, checkpoint(claim).joining, checkpoint(claim).woken) == (machine, 1, "children")
    assert [msgspec.structs.asdict(child) for child in db.children(machine)] == [
        {"id": child, "kind": "mail", "status": "succeeded", "result": child, "error": None} for child in children
    ]


def test_a_claim_alone_wakes_it(db, make):
    machine, _ = family(db, make, 1)
    end(db, "succeeded")
    assert [claim.id for claim in db.claim()] == [machine]


@pytest.mark.parametrize("to", ["dead", "canceled"])
def test_a_child_that_fails_is_waited_for_like_any_other(db, make, to):
    machine, first, second = family(db, make)
    end(db, to)
    assert db.woken(machine) == ("waiting", None)
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    (one, two) = db.children(machine)
    assert (one.id, one.status, one.error, one.succeeded) == (first, to, f"error of {first}", False)
    assert (two.id, two.status, two.result, two.succeeded) == (second, "succeeded", second, True)


def test_a_child_that_is_retried_by_its_worker_is_not_over(db, make):
    machine, _ = family(db, make, 1)
    end(db, "scheduled")
    assert db.woken(machine) == ("waiting", None)
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")


def test_with_stop_the_first_failure_cancels_the_siblings(db, make):
    machine, first, second, third = family(db, make, 3, "stop")
    running = db.claim(queue="kids", limit=2)
    db.settle(running[0], "dead", error="boom")
    assert db.statuses(machine, first, second, third) == ["waiting", "dead", "running", "canceled"]
    assert db.job(third).error == f"canceled because job {first} is dead"
    assert db.job(second).cancel_requested_at is not None
    assert db.woken(machine) == ("waiting", None)  # all are over first
    db.settle(running[1], "canceled")
    assert db.woken(machine) == ("queued", "children")
    assert seen(db, machine) == [(first, "dead"), (second, "canceled"), (third, "canceled")]


def test_with_stop_a_canceled_child_cancels_the_siblings(db, make):
    machine, first, second = family(db, make, 2, "stop")
    db.cancel(first)
    assert db.woken(machine) == ("queued", "children")
    assert db.statuses(second) == ["canceled"]


def test_with_stop_success_cancels_nobody(db, make):
    machine, *children = family(db, make, 3, "stop")
    end(db, "succeeded", "succeeded", "succeeded")
    assert db.woken(machine) == ("queued", "children")
    assert seen(db, machine) == [(child, "succeeded") for child in children]


def test_children_are_given_in_their_order(db, make):
    claim = db.begin()
    children = [make.job(queue="kids") for _ in range(20)]
    children.reverse()  # ids against the order
    db.spawn(claim, *children)
    ids = [child.id for child in children]
    assert [child.id for child in db.children(claim.id)] == ids
    assert db.spawned(claim.id) == [(1, child) for child in ids]
    end(db, *["succeeded"] * 20)
    assert [child.id for child in db.children(claim.id)] == ids


def test_every_feature_of_a_job_is_a_childs(db, make):
    """They are enqueued as any other."""
    claim = db.begin()
    group_free = {"queue": "kids", "kind": "invoice", "tenant": "default"}
    later = make.job(delay_ms=60_000, meta='{"a": 1}', max_attempts=7, timeout_ms=500, **group_free)
    cars = [make.job(train="t", **group_free) for _ in range(2)]
    after = make.job(after=(cars[0].id,), **group_free)
    keyed = make.job(partition="p", concurrency=1, concurrency_key="c", correlation_id="corr", **group_free)
    ids = db.spawn(claim, later, *cars, after, keyed)
    assert db.statuses(*ids) == ["scheduled", "queued", "held", "held", "queued"]
    job = db.job(later.id)
    assert (job.scheduled_for, job.meta, job.max_attempts, job.timeout_ms) == (db.after(60_000), {"a": 1}, 7, 500)
    job = db.job(keyed.id)
    assert (job.partition, job.concurrency, job.concurrency_key, job.correlation_id) == ("p", 1, "c", "corr")
    assert {db.job(job_id).parent_id for job_id in ids} == {claim.id}
    db.drain("kids")
    db.advance("2m")
    db.promote()
    assert db.woken(claim.id) == ("waiting", None)
    db.drain("kids")
    assert db.woken(claim.id) == ("queued", "children")


def test_a_child_belongs_to_its_tenant(db, make):
    acme = tenant_id("acme")
    claim = db.begin(tenant="acme")
    child = make.job(queue="kids", tenant="acme")
    db.spawn(claim, child)
    assert [each.id for each in db.children(claim.id, tenant_id=acme)] == [child.id]
    assert db.children(claim.id, tenant_id=tenant_id("beta")) == db.spawned(claim.id, tenant_id=tenant_id("beta")) == []
    assert [job.id for job in db.find(parent_id=claim.id)] == [child.id]


def test_a_claim_of_a_plain_child_names_its_parent(db, make):
    """So that a worker knows whom its end may wake."""
    machine, _ = family(db, make, 1)
    claim = db.take(queue="kids")
    assert (checkpoint(claim).parent_id, checkpoint(claim).step, claim.followed) == (machine, None, True)


def test_machines_spawn_machines(db, make):
    root = db.begin()
    middle = make.machine(queue="kids", step="m", state={"k": 1})
    db.spawn(root, middle, make.job(queue="kids"))
    claims = db.claim(queue="kids")
    assert (checkpoint(claims[0]).step, checkpoint(claims[0]).parent_id) == ("m", root.id)
    (leaf,) = db.spawn(claims[0], make.job(queue="leaves"))
    db.finish(claims[1])
    assert db.statuses(root.id, middle.id) == ["waiting", "waiting"]
    end(db, "succeeded", queue="leaves")
    assert db.statuses(root.id, middle.id, leaf) == ["waiting", "queued", "succeeded"]
    db.turn(db.take(queue="kids"), "done", result='{"sum": 3}')
    assert db.woken(root.id) == ("queued", "children")
    assert db.children(root.id)[0].result == {"sum": 3}


def test_one_spawn_after_another(db, make):
    machine, first = family(db, make, 1)
    end(db, "dead")
    claim = db.take()
    (second,) = db.spawn(claim, make.job(queue="kids"))
    assert db.job(machine).joining == 2
    assert seen(db, machine) == [(second, "queued")]
    assert seen(db, machine, 1) == [(first, "dead")]
    assert db.woken(machine) == ("waiting", None)  # the failure of the first Spawn's child is forgotten
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    assert db.spawned(machine) == [(1, first), (2, second)]
    db.turn(db.take(), "next", step="end")
    assert db.children(machine) == []  # no Spawn woke the step that comes now
    assert seen(db, machine, 2) == [(second, "succeeded")]


def test_a_failed_step_finds_its_children_again(db, make):
    machine, child = family(db, make, 1)
    end(db, "succeeded")
    db.settle(db.take(), "scheduled", charge=1, error="boom")
    claim = db.take()
    assert (checkpoint(claim).joining, checkpoint(claim).woken) == (1, "children")
    assert seen(db, machine) == [(child, "succeeded")]


# children that were there before


@pytest.mark.parametrize("where", ["queued", "running", "succeeded", "dead"])
def test_a_child_that_meets_an_existing_job_waits_for_that(db, make, where):
    scope = ("queued", "running", "scheduled", "succeeded", "dead")
    existing = db.enqueue(queue="kids", unique_key="k", unique_scope=scope).id
    claims = [] if where == "queued" else db.claim(queue="kids")
    if where in ("succeeded", "dead"):
        db.settle(claims[0], where, result='"old"', error="e")
    machine = db.begin()
    db.spawn(machine, make.job(queue="kids", unique_key="k", unique_scope=scope))
    over = where in ("succeeded", "dead")
    assert db.woken(machine.id) == (("queued", "children") if over else ("waiting", None))
    assert [child.id for child in db.children(machine.id)] == [existing]
    assert db.job(existing).parent_id is None
    if not over:
        db.finish(*(claims or db.claim(queue="kids")))
        assert db.woken(machine.id) == ("queued", "children")


def test_two_children_that_meet_one_job_are_one(db, make):
    machine = db.begin()
    db.spawn(machine, *(make.job(queue="kids", unique_key="k") for _ in range(2)))
    end(db, "succeeded")
    assert db.woken(machine.id) == ("queued", "children")
    assert len({child.id for child in db.children(machine.id)}) == 1


def test_a_job_may_be_the_child_of_two_spawns(db, make):
    scope = ("queued", "running", "succeeded")
    claim = db.begin()
    (child,) = db.spawn(claim, make.job(queue="kids", unique_key="k", unique_scope=scope))
    end(db, "succeeded")
    db.spawn(db.take(), make.job(queue="kids", unique_key="k", unique_scope=scope))
    assert db.woken(claim.id) == ("queued", "children")
    assert seen(db, claim.id) == [(child, "succeeded")]
    assert seen(db, claim.id, 1) == [(child, "succeeded")]
    assert db.spawned(claim.id) == [(1, child), (2, child)]


def test_an_existing_job_is_not_canceled_with_the_machine_or_its_siblings(db, make):
    existing = db.enqueue(queue="other", unique_key="k").id
    claim = db.begin()
    mine = make.job(queue="kids")
    db.spawn(claim, make.job(unique_key="k"), mine, on_failure="stop")
    end(db, "dead")
    assert db.statuses(existing, claim.id) == ["queued", "waiting"]
    db.cancel(claim.id)
    assert db.statuses(existing) == ["queued"]


@pytest.mark.parametrize(("error", "bad"), [(Duplicate, "unique"), (InvalidJob, "after"), (QueueFull, "full")])
def test_a_spawn_that_is_refused_writes_nothing(db, make, error, bad):
    claim = db.begin(state={"n": 1})
    sent = db.signal(claim.id, "paid")
    db.enqueue(queue="kids", unique_key="k")
    if bad == "full":
        db.limit("tenant", "*", max_pending=1)
    options = {"unique": {"unique_key": "k", "on_conflict": "raise"}, "after": {"after": (new_id(),)}, "full": {}}[bad]
    before = (db.job(claim.id), db.attempts(claim.id), len(db.find()))
    children = (make.job(queue="kids"), make.job(queue="kids", **options))
    with pytest.raises(error):
        db.turn(claim, "spawn", children=children, consumed=(sent.id,), state={"n": 2})
    assert (db.job(claim.id), db.attempts(claim.id), len(db.find())) == before
    assert db.inboxes(claim.id) == [("paid", "pending", None)]
    assert db.settle(claim, "dead", error="refused") == []


def test_a_spawn_of_nobody_is_over_at_once(db):
    claim = db.begin()
    assert db.turn(claim, "spawn", step="two") == QUIET
    assert db.woken(claim.id) == ("queued", "children")
    assert db.children(claim.id) == []


# at_most_once


def test_a_child_that_a_new_job_retries_is_shown_as_that(db, make):
    claim = db.begin()
    child = make.job(queue="kids", delivery="at_most_once")
    db.spawn(claim, child, make.job(queue="kids"))
    db.settle(db.take(queue="kids"), "failed", charge=1, error="boom")
    (heir,) = db.find(retry_of=child.id)
    assert heir.parent_id == claim.id
    db.finish(*db.claim(queue="kids"))
    assert db.woken(claim.id) == ("queued", "children")
    (first, _) = db.children(claim.id)
    assert (first.id, first.status) == (heir.id, "succeeded")


def test_a_machine_that_a_new_job_retries_hands_its_children_on(db, make):
    claim = db.begin(delivery="at_most_once")
    db.spawn(claim, make.job(queue="kids"))
    end(db, "succeeded")
    before = db.children(claim.id)
    db.settle(db.take(), "failed", charge=1, error="boom")
    (heir,) = db.find(retry_of=claim.id)
    assert (heir.joining, heir.woken) == (1, "children")
    assert db.children(heir.id) == before


# the end of the parent


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_a_machine_that_ends_while_it_waits_has_its_children_canceled(db, make, how):
    machine, first, second, third = family(db, make, 3, expires_at=db.after(60_000))
    (running,) = db.claim(queue="kids", limit=1)
    if how == "cancel":
        db.cancel(machine)
    else:
        db.advance("2m")
        db.promote()
    assert db.statuses(machine, first, second, third) == ["canceled", "running", "canceled", "canceled"]
    assert machine in db.job(second).error
    assert db.job(first).cancel_requested_at is not None
    db.settle(running, "canceled")
    assert db.statuses(machine) == ["canceled"]


@pytest.mark.parametrize("by", ["a sibling", "a member of its group"])
@pytest.mark.parametrize("first", [True, False])
def test_a_machine_that_ends_with_the_batch_in_which_it_spawned_has_its_children_canceled(db, make, by, first):
    if by == "a sibling":
        db.spawn(db.begin(), *(new_machine(queue="kids") for _ in range(2)), on_failure="stop")
    else:
        group = make.group(on_failure="stop")
        db.enqueue_all([new_machine(queue="kids", group_id=group.id) for _ in range(2)], group)
    spawner, failing = db.claim(queue="kids", limit=2)
    batch = [
        turned(spawner, "spawn", children=(new_machine(queue="grandkids"), make.job(queue="grandkids"))),
        turned(failing, "stop"),
    ]
    assert db.turn_all(batch if first else batch[::-1]) == QUIET
    db.process_arrivals()
    assert db.job(spawner.id).status == "canceled"
    assert [status for _, status in seen(db, spawner.id, spawner.fence)] == ["canceled", "canceled"]
    assert db.claim(queue="grandkids", limit=2) == []


def test_grandchildren_are_canceled_with_the_root(db, make):
    root = db.begin()
    middle = make.machine(queue="kids")
    db.spawn(root, middle)
    (leaf,) = db.spawn(db.take(queue="kids"), make.job(queue="leaves"))
    db.cancel(root.id)
    assert db.statuses(root.id, middle.id, leaf) == ["canceled"] * 3


def test_a_retried_machine_waits_again_for_children_that_still_run(db, make):
    machine, first, second = family(db, make)
    (running,) = db.claim(queue="kids", limit=1)
    db.cancel(machine)
    assert db.statuses(second) == ["canceled"]
    db.retry(machine)
    assert db.woken(machine) == ("waiting", None)
    db.settle(running, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    assert seen(db, machine) == [(first, "succeeded"), (second, "canceled")]


def test_a_machine_that_is_retried_although_its_parent_died_waits_for_its_children(db, make):
    """The dead parent had stopped it, and does so no more."""
    parent = db.start(queue="parents")
    job_id = db.machine(after=(parent.id,))
    db.settle(parent, "dead", error="boom")
    assert db.statuses(job_id) == ["canceled"]
    db.retry(job_id)
    db.spawn(db.take(), make.job(queue="kids"))
    end(db, "succeeded")
    assert db.woken(job_id) == ("queued", "children")


@pytest.mark.parametrize("first", ["child", "machine"])
def test_a_machine_and_its_child_may_both_be_retried(db, make, first):
    machine, child = family(db, make, 1)
    db.cancel(machine)
    assert db.statuses(child) == ["canceled"]
    if first == "child":
        db.retry(child)
        db.retry(machine)
        assert db.woken(machine) == ("waiting", None)
    else:
        db.retry(machine, child)
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    assert seen(db, machine) == [(child, "succeeded")]


@pytest.mark.parametrize("order", ["child first", "machine first", "child while it is held"])
def test_a_retried_car_waits_for_its_retried_child_when_its_turn_comes(db, make, order):
    claim = db.begin(train="t")
    (child,) = db.spawn(claim, make.job(queue="kids"))
    db.machine(train="t", queue="others")
    db.cancel(claim.id)
    assert db.statuses(child) == ["canceled"]
    ahead = db.take(queue="others")
    for job_id in (child, claim.id) if order == "child first" else (claim.id, child):
        db.retry(job_id)
        if order == "child while it is held":
            db.process_arrivals()
    db.finish(ahead)
    assert db.woken(claim.id) == ("waiting", None)
    end(db, "succeeded")
    assert db.woken(claim.id) == ("queued", "children")
    assert seen(db, claim.id) == [(child, "succeeded")]


def test_a_retried_machine_whose_children_are_over_goes_on(db, make):
    machine, first = family(db, make, 1)
    db.cancel(machine)
    assert db.statuses(first) == ["canceled"]
    db.retry(machine)
    assert db.woken(machine) == ("queued", "children")


def test_a_retried_child_is_waited_for_again(db, make):
    machine, first, second = family(db, make)
    db.cancel(first)
    db.retry(first)
    end(db, "succeeded", "succeeded")
    assert db.woken(machine) == ("queued", "children")
    assert seen(db, machine) == [(first, "succeeded"), (second, "succeeded")]


def test_a_child_retried_after_the_machine_went_on_changes_nothing(db, make):
    machine, first = family(db, make, 1)
    end(db, "dead")
    claim = db.take()
    db.retry(first)
    db.park(claim, "paid")
    end(db, "succeeded")
    assert db.woken(machine) == ("waiting", None)


def test_a_child_is_kept_until_its_machine_has_gone_on(db, make):
    machine, *_ = family(db, make)
    end(db, "succeeded")
    db.advance("10h")
    assert db.prune("succeeded", older_than_ms=60_000) == 0
    assert len(seen(db, machine)) == 2
    end(db, "succeeded")
    claim = db.take()
    db.advance("10h")
    assert db.prune("succeeded", older_than_ms=60_000) == 0  # the step may look at them, and be run again
    db.turn(claim, "next", step="two")
    assert db.prune("succeeded", older_than_ms=60_000) == 2
    assert db.spawned(machine) == []


def test_a_pruned_machine_leaves_no_edge(db, make):
    family(db, make)
    end(db, "succeeded", "succeeded")
    db.turn(db.take(), "done")
    db.advance("10h")
    assert db.prune("succeeded", older_than_ms=60_000) == 3
    assert db.sql("select count(*) from {edges}") == [(0,)]


def test_a_sweep_wakes_a_machine_whose_child_an_outside_hand_deleted(db, make):
    machine, _, second = family(db, make)
    end(db, "succeeded")
    db.sql(f"delete from {{jobs}} where id = '{second}'")
    for _ in range(3):
        db.sweep()
    assert db.woken(machine) == ("queued", "children")
    # and what is left of it does not keep the next Spawn waiting
    (third,) = db.spawn(db.take(), make.job(queue="kids"))
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    assert seen(db, machine) == [(third, "succeeded")]


def test_ten_thousand_children_are_no_trouble(db, make):
    claim = db.begin()
    children = [make.job(queue="kids") for _ in range(10_000)]
    db.spawn(claim, *children)
    started = 0
    while claims := db.claim(queue="kids", limit=2_500):
        started += len(claims)
        assert db.woken(claim.id) == ("waiting", None)
        db.finish(*claims)
    assert started == 10_000
    assert db.woken(claim.id) == ("queued", "children")
    assert [child.id for child in db.children(claim.id)] == [child.id for child in children]
    db.turn(db.take(), "done")
