"""Events: handled once, kept where they fail, retried, read and pruned."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import Duplicate, InvalidJob
from headway.model.ids import new_id
from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import handling, job_of, new_event, new_fire, refused
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


# handle


@ALL_LIBRARIES
def test_every_field_of_an_events_fire_is_stored(db):
    made = db.listener("paid", tenant="acme")
    db.advance("1s")
    event = db.emit("paid", tenant="acme")
    fired_at = db.advance("1s")
    job = job_of(made, payload='{"z": 9007199254740993}', correlation_id="c")
    new = new_fire(made, job=job, dedupe_key="digest")
    (fire,) = db.handle(handling(event, new))
    assert msgspec.structs.asdict(fire) == {
        "id": new.id,
        "trigger_id": made.id,
        "tenant_id": ACME,
        "nominal_at": None,
        "event_id": event,
        "fired_at": fired_at,
        "status": "enqueued",
        "job_id": job.id,
        "error": None,
    }
    assert db.fires(event_id=event) == [fire]
    stored = db.job(job.id)
    assert (stored.tenant_id, stored.trigger_id, stored.source) == (ACME, made.id, "event")
    assert (stored.payload, stored.correlation_id) == ({"z": 9007199254740993}, "c")
    after = db.event(event)
    assert (after.status, after.handled_at, after.error) == ("handled", fired_at, None)
    row = db.trigger(made.id)
    assert (row.last_fired_at, row.last_job_id, row.error, row.revision) == (fired_at, job.id, None, 1)
    assert db.heard() == {}


def test_an_event_fires_each_trigger_it_meets(db):
    made = [db.listener("paid") for _ in range(3)]
    db.advance("1s")
    event = db.emit("paid")
    fires = db.handle(handling(event, *made))
    assert [each.trigger_id for each in fires] == [each.id for each in made]
    assert len(db.find()) == 3
    assert len(db.fires(event_id=event)) == 3


def test_a_repeated_handle_changes_nothing(db, paid):
    event = db.emit("paid")
    plan = handling(event, paid)
    assert len(db.handle(plan)) == 1
    before = db.event(event), db.fires(), db.find(), db.triggers()
    db.advance("1m")
    assert db.handle(plan) == []
    assert db.handle(handling(event, paid)) == []
    assert (db.event(event), db.fires(), db.find(), db.triggers()) == before


def test_an_event_twice_in_one_call_is_handled_once(db, paid):
    event = db.emit("paid")
    assert len(db.handle(handling(event, paid), handling(event, paid))) == 1
    assert len(db.find()) == len(db.fires()) == 1


@pytest.mark.parametrize("how", ["unknown", "deleted", "disabled"])
def test_a_trigger_that_is_gone_or_off_does_not_fire_and_the_event_is_handled(db, paid, how):
    other = db.listener("paid")
    event = db.emit("paid")
    plan = handling(event, paid, other)
    if how == "deleted":
        db.delete_trigger(paid.id)
    elif how == "disabled":
        db.change_trigger(paid.id, enabled=False)
    else:
        plan = handling(event, new_fire(msgspec.structs.replace(paid, id=new_id())), other)
    assert [each.trigger_id for each in db.handle(plan)] == [other.id]
    assert db.event(event).status == "handled"
    assert len(db.find()) == 1


def test_an_event_that_is_not_there_is_void(db, paid):
    assert db.handle(handling(new_id(), paid)) == []
    assert (db.find(), db.fires()) == ([], [])
    assert db.handle() == []


def test_a_changed_trigger_still_fires(db, paid):
    """Only gone and disabled ones do not."""
    event = db.emit("paid")
    plan = handling(event, paid)
    db.change_trigger(paid.id, description="changed")
    assert len(db.handle(plan)) == 1


def test_a_refused_job_takes_everything_of_its_call_back(db, paid):
    db.enqueue(unique_key="taken")
    before = db.triggers()
    good, bad = db.emit("paid"), db.emit("paid")
    plan = [handling(good, paid), handling(bad, refused(new_fire(paid)))]
    with pytest.raises(Duplicate):
        db.handle(*plan)
    assert (db.fires(), db.triggers(), len(db.find())) == ([], before, 1)
    assert list(db.heard()) == [good, bad]
    assert len(db.handle(plan[0])) == 1


def test_a_job_that_meets_another_by_its_key_is_that_one(db, paid):
    there = db.enqueue(unique_key="u").id
    (fire,) = db.handle(handling(db.emit("paid"), new_fire(paid, job=job_of(paid, unique_key="u"))))
    assert (fire.status, fire.job_id) == ("deduped", there)


# events that fail


def test_an_event_with_a_fire_that_failed_is_failed_with_the_errors(db):
    names = ["first_1", "good", "third"]
    made = {name: db.listener("paid", name=name) for name in names}
    db.advance("1s")
    event = db.emit("paid")
    failed_at = db.advance("1s")
    fires = db.handle(
        handling(
            event,
            new_fire(made["first_1"], error="no value at event.x"),
            made["good"],
            new_fire(made["third"], error="not a number"),
        )
    )
    assert [(each.status, each.error) for each in fires] == [
        ("failed", "no value at event.x"),
        ("enqueued", None),
        ("failed", "not a number"),
    ]
    after = db.event(event)
    assert (after.status, after.handled_at) == ("failed", failed_at)
    one, two = after.error.split("\n")
    assert one.startswith("first_1")
    assert one.endswith("no value at event.x")
    assert two.startswith("third")
    assert two.endswith("not a number")
    assert len(db.find()) == 1
    assert db.trigger(made["third"].id).error == "not a number"
    assert db.trigger(made["good"].id).error is None
    assert db.heard() == {}


def test_a_fire_that_succeeds_takes_the_triggers_error_back(db, paid):
    db.handle(handling(db.emit("paid"), new_fire(paid, error="boom")))
    assert db.trigger(paid.id).error == "boom"
    db.handle(handling(db.emit("paid"), paid))
    assert db.trigger(paid.id).error is None


def test_a_retried_event_is_heard_by_the_triggers_whose_fire_failed(db, paid):
    other = db.listener("paid", name="other")
    db.advance("1s")
    event = db.emit("paid")
    bad, good = db.handle(handling(event, new_fire(paid, error="boom"), other))
    db.advance("1m")
    late = db.listener("paid", name="late")
    assert db.retry_events(event, actor="ann") == [event]
    after = db.event(event)
    assert (after.status, after.handled_at, after.error) == ("pending", None, None)
    assert db.fires(event_id=event) == [good]
    assert db.heard() == {event: [paid.id]}
    # a stale plan does not fire again for those that had fired
    again = db.handle(handling(event, paid, other))
    assert [(each.trigger_id, each.status) for each in again] == [(paid.id, "enqueued")]
    assert (db.event(event).status, len(db.find())) == ("handled", 2)
    assert bad.id not in {each.id for each in db.fires()}
    assert late.id not in {each.trigger_id for each in db.fires()}


def test_a_retried_event_may_fail_again(db, paid):
    event = db.emit("paid")
    for n in range(3):
        db.handle(handling(event, new_fire(paid, error=f"boom {n}")))
        assert db.event(event).status == "failed"
        assert db.event(event).error.endswith(f"boom {n}")
        assert db.retry_events(event) == [event]
    assert db.fires() == []


def test_only_failed_events_are_retried(db, paid):
    pending, handled, failed = (db.emit("paid", n) for n in range(3))
    db.handle(handling(handled, paid), handling(failed, new_fire(paid, error="boom")))
    before = db.event(pending), db.event(handled), db.fires(event_id=handled)
    assert db.retry_events(pending, handled, new_id(), failed, failed, actor="ann") == [failed]
    assert (db.event(pending), db.event(handled), db.fires(event_id=handled)) == before
    assert db.retry_events(failed, actor="ann") == []
    assert db.retry_events() == []
    assert db.audited() == [(None, "trigger.created"), ("ann", "event.retried")]
    assert "paid" in db.audit_details()[1]


def test_another_tenants_event_is_as_if_absent(db):
    made = db.listener("paid", tenant="beta")
    db.advance("1s")
    event = db.emit("paid", tenant="beta")
    db.handle(handling(event, new_fire(made, error="boom")))
    assert db.retry_events(event, tenant_id=ACME) == []
    assert db.events([event], tenant_id=ACME) == db.events(tenant_id=ACME) == []
    assert db.fires(tenant_id=ACME) == db.fires(event_id=event, tenant_id=ACME) == []
    assert db.event(event).status == "failed"
    assert len(db.fires(event_id=event, tenant_id=BETA)) == 1
    assert db.retry_events(event, tenant_id=BETA) == [event]


@ALL_LIBRARIES
def test_an_event_id_that_another_tenant_has_is_taken_and_no_more(db):
    theirs = new_event("paid", {"n": 1}, tenant="beta")
    db.emit_all([theirs])
    before = db.events()
    for tenant in ("acme", "default"):
        mine = new_event("other", {"n": 2}, tenant=tenant)
        same = msgspec.structs.replace(mine, id=theirs.id)
        for batch in ([same], [mine, same]):
            with pytest.raises(InvalidJob, match=f"^event id {theirs.id} is taken: give a new event an id of its own$"):
                db.emit_all(batch)
    assert db.events() == before
    twice = msgspec.structs.replace(new_event("paid", tenant="acme"), id=mine.id)
    with pytest.raises(InvalidJob, match=f"event id {mine.id} is taken"):
        db.emit_all([mine, twice])
    assert db.events() == before


def test_a_fire_for_an_event_of_another_tenant_is_not_written(db, paid):
    event = db.emit("paid", tenant="acme")
    assert db.handle(handling(event, paid)) == []
    assert (db.find(), db.event(event).status) == ([], "handled")


# reads and retention


def test_events_are_read_by_id_name_status_and_in_pages(db, paid):
    ids = [db.emit("paid" if n % 2 else "other", n, tenant="acme" if n < 3 else "beta") for n in range(6)]
    db.handle(handling(ids[0]), handling(ids[1]))

    def found(wanted=None, **where):
        return [each.id for each in db.events(wanted, **where)]

    newest = list(reversed(ids))
    assert found() == newest
    assert found(names=["paid"]) == [ids[5], ids[3], ids[1]]
    assert found(statuses=["pending"]) == newest[:4]
    assert found(statuses=["handled"], names=["paid"]) == [ids[1]]
    assert found(names=["paid", "other"], statuses=["handled", "failed"]) == [ids[1], ids[0]]
    assert found(tenant_id=ACME) == newest[3:]
    assert found(tenant_id=ACME, names=["other"], statuses=["pending"]) == [ids[2]]
    assert found([ids[1], ids[4], new_id()]) == [ids[4], ids[1]]
    assert found([ids[1], ids[4]], tenant_id=BETA) == [ids[4]]
    assert found([]) == []
    assert found(limit=4) == newest[:4]
    assert found(limit=4, before=newest[3]) == newest[4:]
    assert found(names=["paid"], limit=1, before=ids[5]) == [ids[3]]


def test_events_are_pruned_with_their_fires_by_when_they_were_handled(db, paid):
    pending, handled, failed = (db.emit("paid", n) for n in range(3))
    db.advance("1h")
    db.handle(handling(handled, paid), handling(failed, new_fire(paid, error="boom")))
    db.advance("1h")
    hour = 3_600_000
    assert db.prune_fires(events_ms=hour, failed_ms=hour) == 0
    db.advance(0.001)
    assert db.prune_fires(events_ms=hour) == 1
    assert {each.id for each in db.events()} == {pending, failed}
    assert [each.event_id for each in db.fires()] == [failed]
    assert db.prune_fires(failed_ms=hour, fires_ms=0) == 1
    assert ([each.id for each in db.events()], db.fires()) == ([pending], [])
    assert len(db.find()) == 1


def test_prunable_counts_events_and_fires_apart(db, paid):
    _, first, second, failed = (db.emit("paid", n) for n in range(4))
    db.handle(handling(first, paid), handling(second, paid), handling(failed, new_fire(paid, error="boom")))
    db.advance("1h")
    kept = {"events": 60_000, "failed_events": 60_000, "fires": 60_000}
    assert db.run(db.ops.prunable(kept)) == {"events": 2, "failed_events": 1, "fires": 0}
    assert db.prune_fires(events_ms=60_000) == 2
    assert db.run(db.ops.prunable(kept)) == {"events": 0, "failed_events": 1, "fires": 0}


def test_fires_of_events_are_not_pruned_as_fires_of_schedules(db, paid):
    event = db.emit("paid")
    db.handle(handling(event, paid))
    db.advance("1d")
    assert db.prune_fires(fires_ms=0) == 0
    assert len(db.fires()) == 1


def test_events_are_pruned_up_to_a_limit_of_each(db, paid):
    handled, failed = ([db.emit("paid", n) for n in range(5)] for _ in range(2))
    db.handle(*(handling(each, paid) for each in handled))
    db.handle(*(handling(each, new_fire(paid, error="boom")) for each in failed))
    db.advance("1d")
    assert db.prune_fires(events_ms=0, failed_ms=0, limit=2) == 4
    assert len(db.events(statuses=["handled"])) == len(db.events(statuses=["failed"])) == 3
    assert len(db.fires()) == 6
    assert db.prune_fires(events_ms=0, failed_ms=0) == 6
    assert (db.events(), db.fires()) == ([], [])
