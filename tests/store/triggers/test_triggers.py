"""Triggers: schedules and event triggers as rows; what people change, what the code declares, what is due."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import Duplicate, NotFound
from headway.model.definition import NewDefinition
from headway.model.ids import new_id
from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import ODD_JSON, firing, new_fire, new_listener, new_schedule, own_transaction
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")
COMPUTED = NewDefinition(kind="computed", computed=True)


def same_but(row, **values):
    return msgspec.structs.replace(row, **values)


# rows


@ALL_LIBRARIES
def test_every_field_of_a_schedule_is_stored(db):
    template = db.template(tenant="acme", kind="invoice")
    new = new_schedule(
        tenant="acme",
        name="nightly_1.A:b/c-d",
        template_id=template.id,
        payload=ODD_JSON,
        options='{"queue": "q", "z": 1, "a": 2}',
        description="text-1",
        label="Nightly, at last ☃",
        created_by="ann-2",
        every_ms=90_001,
        tz="Asia/Kathmandu",
        catch_up="all",
        catch_up_window_ms=3_600_003,
        overlap="skip",
        jitter_ms=4_004,
        start_at=db.after(5_005),
        end_at=db.after(6_000_006),
        next_fire_at=db.after(7_007),
    )
    made_at = db.now()
    answer = db.create_trigger(new)
    assert msgspec.structs.asdict(answer) == {
        "id": new.id,
        "tenant_id": ACME,
        "tenant": "acme",
        "type": "schedule",
        "name": "nightly_1.A:b/c-d",
        "kind": None,
        "template_id": template.id,
        "template_kind": "invoice",
        "payload": msgspec.json.decode(ODD_JSON),
        "options": {"queue": "q", "z": 1, "a": 2},
        "description": "text-1",
        "label": "Nightly, at last ☃",
        "enabled": True,
        "origin": "stored",
        "created_by": "ann-2",
        "created_at": made_at,
        "updated_at": made_at,
        "declared_at": None,
        "revision": 1,
        "cron": None,
        "every_ms": 90_001,
        "tz": "Asia/Kathmandu",
        "catch_up": "all",
        "catch_up_window_ms": 3_600_003,
        "overlap": "skip",
        "jitter_ms": 4_004,
        "start_at": new.start_at,
        "end_at": new.end_at,
        "next_fire_at": new.next_fire_at,
        "event": None,
        "when": {},
        "dedupe_window_ms": 300_000,
        "dedupe_key": None,
        "signal": None,
        "signal_to": None,
        "last_fired_at": None,
        "last_job_id": None,
        "error": None,
    }
    assert list(answer.payload) == list(msgspec.json.decode(ODD_JSON))
    db.advance("1m")
    assert db.triggers() == [answer]


@ALL_LIBRARIES
def test_every_field_of_an_event_trigger_is_stored(db):
    new = new_listener(
        "folder.updated:a/b-c_1",
        tenant="acme",
        name="on-update",
        kind="sync",
        enabled=False,
        when='{"event.z": ["x", 1], "event.a": null}',
        dedupe_window_ms=2**40,
        dedupe_key="{{event.id}}",
    )
    answer = db.create_trigger(new)
    assert (answer.type, answer.name, answer.kind, answer.template_id) == ("event", "on-update", "sync", None)
    assert (answer.event, answer.enabled, answer.cron) == ("folder.updated:a/b-c_1", False, None)
    assert answer.when == {"event.z": ["x", 1], "event.a": None}
    assert (answer.dedupe_window_ms, answer.dedupe_key, answer.next_fire_at) == (2**40, "{{event.id}}", None)
    assert db.triggers() == [answer]


def test_a_name_is_taken_once_in_its_tenant_and_type(db):
    db.schedule(tenant="acme", name="n")
    with pytest.raises(Duplicate):
        db.schedule(tenant="acme", name="n")
    db.listener("paid", tenant="acme", name="n")
    with pytest.raises(Duplicate):
        db.listener("other", tenant="acme", name="n")
    db.schedule(tenant="beta", name="n")
    assert len(db.triggers(name="n")) == 3


def test_a_repeated_create_is_answered_with_what_is_stored(db):
    new = new_schedule(name="n", next_fire_at=db.now())
    first = db.create_trigger(new, actor="ann")
    db.advance("1m")
    assert db.create_trigger(new, actor="ann") == first
    db.fire_now(first, next_fire_at=db.after(60_000))
    assert db.create_trigger(new, actor="ann") == db.trigger(new.id) != first
    assert db.audited() == [("ann", "trigger.created")]


def test_a_template_of_another_tenant_is_not_found(db):
    theirs = db.template(tenant="beta")
    for template in (theirs.id, new_id()):
        with pytest.raises(NotFound):
            db.schedule(tenant="acme", template_id=template)
        with pytest.raises(NotFound):
            db.listener("paid", tenant="acme", template_id=template)
    mine = db.schedule(tenant="acme")
    with pytest.raises(NotFound):
        db.change_trigger(mine.id, template_id=theirs.id, kind=None)
    assert db.triggers() == [mine]


def test_a_refusal_leaves_the_callers_transaction_alive(db):
    db.schedule(name="n")
    with own_transaction(db) as run:
        with pytest.raises(Duplicate):
            run(db.ops.create_trigger(new_schedule(name="n"), actor=None))
        with pytest.raises(NotFound):
            run(db.ops.create_trigger(new_schedule(name="o", template_id=new_id()), actor=None))
        run(db.ops.create_trigger(new_schedule(name="m"), actor=None))
    assert [each.name for each in db.triggers()] == ["n", "m"]


CHANGES = {
    "name": ("other", None),
    "kind": ("other", None),
    "payload": (ODD_JSON, msgspec.json.decode(ODD_JSON)),
    "options": ('{"b": 2, "a": 1}', {"b": 2, "a": 1}),
    "description": ("other", None),
    "label": ("Other", None),
    "enabled": (False, None),
    "cron": ("1 1 * * *", None),
    "tz": ("Europe/Berlin", None),
    "catch_up": ("none", None),
    "catch_up_window_ms": (2**40, None),
    "overlap": ("skip", None),
    "jitter_ms": (9, None),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_sets_one_field_and_counts(db, field):
    value, stored = CHANGES[field]
    before, beside = db.schedule(payload='{"p": 1}', options='{"o": 1}', description="text"), db.schedule()
    db.advance("1m")
    after = db.change_trigger(before.id, **{field: value})
    expected = {field: value if stored is None else stored, "revision": 2, "updated_at": db.now()}
    assert after == same_but(before, **expected)
    assert db.triggers() == [after, beside]


@pytest.mark.parametrize("field", ["start_at", "end_at", "next_fire_at"])
def test_a_change_sets_and_takes_back_a_time(db, field):
    before = db.schedule(start_at=db.after(1), end_at=db.after(2), next_fire_at=db.after(3))
    set_ = db.change_trigger(before.id, **{field: db.after(4_321)})
    assert set_ == same_but(before, **{field: db.after(4_321)}, revision=2)
    taken = db.change_trigger(before.id, **{field: None})
    assert taken == same_but(before, **{field: None}, revision=3)


def test_a_cron_becomes_an_interval_and_back(db):
    made = db.schedule()
    after = db.change_trigger(made.id, cron=None, every_ms=5_000)
    assert (after.cron, after.every_ms) == (None, 5_000)
    after = db.change_trigger(made.id, cron="0 3 * * *", every_ms=None)
    assert (after.cron, after.every_ms) == ("0 3 * * *", None)


def test_a_kind_becomes_a_template_and_back(db):
    template = db.template()
    made = db.schedule()
    after = db.change_trigger(made.id, kind=None, template_id=template.id)
    assert (after.kind, after.template_id, after.template_kind) == (None, template.id, template.kind)
    db.change_template(template.id, kind="another")
    assert db.trigger(made.id).template_kind == "another"
    after = db.change_trigger(made.id, kind="k", template_id=None)
    assert (after.kind, after.template_id, after.template_kind) == ("k", None, None)


def test_an_event_trigger_is_changed(db):
    made = db.listener("paid", dedupe_key="k")
    after = db.change_trigger(made.id, event="other", when='{"event.a": 1}', dedupe_window_ms=7, dedupe_key=None)
    assert after == same_but(made, event="other", when={"event.a": 1}, dedupe_window_ms=7, dedupe_key=None, revision=2)
    db.advance("1s")
    assert list(db.heard().values()) == []
    event = db.emit("other")
    db.emit("paid")
    assert db.heard()[event] == [made.id]


def test_a_change_takes_the_error_back(db):
    made = db.schedule()
    db.fire_now(made, error="boom", next_fire_at=db.after(60_000))
    assert db.trigger(made.id).error == "boom"
    assert db.change_trigger(made.id, description="mended").error is None
    assert db.trigger(made.id).error is None


def test_a_new_name_that_is_taken_is_refused(db):
    one, two = db.schedule(name="one"), db.schedule(name="two")
    db.listener("paid", name="three")
    with pytest.raises(Duplicate):
        db.change_trigger(two.id, name="one", kind="k")
    assert db.trigger(two.id) == two
    assert db.trigger(one.id) == one
    assert db.change_trigger(two.id, name="two").revision == 2
    assert db.change_trigger(two.id, name="three").name == "three"


def test_a_deleted_trigger_leaves_its_jobs_and_fires(db):
    made = db.schedule(name="n")
    fire = db.fire_now(made, next_fire_at=db.now())
    assert db.delete_trigger(made.id)
    assert (db.triggers(), db.due_ids()) == ([], [])
    assert not db.delete_trigger(made.id)
    assert db.change_trigger(made.id, kind="k") is None
    assert db.fires(trigger_id=made.id) == [fire]
    assert db.job(fire.job_id).trigger_id == made.id
    assert db.drain() == [fire.job_id]
    assert db.schedule(name="n").revision == 1


def test_another_tenants_trigger_is_as_if_absent(db):
    theirs = db.schedule(tenant="beta", name="n")
    assert db.change_trigger(theirs.id, kind="k", tenant_id=ACME) is None
    assert not db.delete_trigger(theirs.id, tenant_id=ACME)
    assert db.run_trigger(new_fire(theirs), tenant_id=ACME) is None
    assert db.triggers(tenant_id=ACME) == []
    assert db.triggers() == [theirs]
    assert (db.find(), db.fires()) == ([], [])
    assert db.audited() == [(None, "trigger.created")]
    assert db.change_trigger(theirs.id, kind="k", tenant_id=BETA).kind == "k"
    assert db.delete_trigger(theirs.id, tenant_id=BETA)


def test_a_tenant_that_is_named_first_here_gets_its_row(db):
    db.schedule(tenant="acme")
    db.declare(new_schedule(tenant="beta"))
    assert db.run(db.ops.tenants([ACME, BETA])) == {ACME: "acme", BETA: "beta"}


def test_triggers_are_read_by_type_name_event_and_in_pages(db):
    nightly = db.schedule(tenant="acme", name="nightly")
    paid = db.listener("paid", tenant="acme", name="on-paid")
    other = db.listener("other", tenant="beta", name="nightly")
    again = db.listener("paid", tenant="beta", name="on-paid")

    def ids(**where):
        return [each.id for each in db.triggers(**where)]

    assert ids() == [nightly.id, paid.id, other.id, again.id]
    assert ids(type="schedule") == [nightly.id]
    assert ids(type="event") == [paid.id, other.id, again.id]
    assert ids(name="nightly") == [nightly.id, other.id]
    assert ids(name="nightly", type="event") == [other.id]
    assert ids(events=["paid"]) == [paid.id, again.id]
    assert ids(events=["paid"], tenant_id=BETA) == [again.id]
    assert ids(events=["paid", "other", "none"]) == [paid.id, other.id, again.id]
    assert ids(events=["paid", "other"], limit=2, after=paid.id) == [other.id, again.id]
    assert ids(events=["paid", "other"], tenant_id=BETA, type="event", name="nightly") == [other.id]
    assert ids(events=["none", "nor this"]) == ids(events=["paid"], tenant_id=BETA, type="event", name="nightly") == []
    assert ids(limit=2) == [nightly.id, paid.id]
    assert ids(limit=2, after=paid.id) == [other.id, again.id]
    assert ids(limit=2, after=again.id) == []


def test_what_people_do_is_audited(db):
    made = db.schedule(tenant="acme", name="nightly", actor="ann")
    db.change_trigger(made.id, enabled=False, actor="bob")
    db.run_trigger(new_fire(made), actor="cy")
    db.delete_trigger(made.id, actor="dan")
    assert db.audited() == [
        ("ann", "trigger.created"),
        ("bob", "trigger.changed"),
        ("cy", "trigger.run"),
        ("dan", "trigger.deleted"),
    ]
    assert all("nightly" in detail for detail in db.audit_details())
    assert [str(each) for (each,) in db.sql("select distinct tenant_id from {audit}")] == [ACME]
    assert db.change_trigger(made.id, kind="k", actor="cy") is None
    assert not db.delete_trigger(made.id, actor="cy")
    assert db.run_trigger(new_fire(made), actor="cy") is None
    assert len(db.audited()) == 4


# what the code declares


def test_a_declared_schedule_is_stored_as_the_codes(db):
    new = new_schedule(
        tenant="acme", name="n", kind="k", tz="Europe/Berlin", overlap="skip", next_fire_at=db.after(60_000)
    )
    assert db.declare(new) == (new.id,)
    (row,) = db.triggers()
    assert (row.id, row.tenant, row.name, row.kind, row.tz) == (new.id, "acme", "n", "k", "Europe/Berlin")
    assert (row.origin, row.declared_at, row.created_at, row.revision) == ("code", db.now(), db.now(), 1)
    assert (row.enabled, row.overlap, row.next_fire_at) == (True, "skip", db.after(60_000))
    assert db.audited() == []


def test_a_schedule_declared_again_as_it_was_is_only_seen(db):
    new = new_schedule(name="n", payload=ODD_JSON, next_fire_at=db.after(60_000))
    db.declare(new)
    before = db.trigger(new.id)
    db.advance("1h")
    again = same_but(new, id=new_id(), next_fire_at=db.after(60_000))
    assert db.declare(again) == (new.id,)
    assert db.triggers() == [same_but(before, declared_at=db.now())]


@pytest.mark.parametrize(
    "values",
    [
        {"cron": "5 5 * * *"},
        {"cron": None, "every_ms": 1_000},
        {"tz": "Asia/Tokyo"},
        {"start_at": "soon"},
        {"end_at": "soon"},
    ],
    ids=str,
)
def test_another_time_sets_when_it_is_due_and_voids_what_was_planned(db, values):
    values = {name: db.after(90_000) if value == "soon" else value for name, value in values.items()}
    new = new_schedule(name="n", next_fire_at=db.now())
    db.declare(new)
    db.fire_now(db.trigger(new.id), error="boom", next_fire_at=db.now())
    planned = db.trigger(new.id)
    db.advance("1m")
    soon = db.after(1_000)
    assert db.declare(same_but(new, id=new_id(), next_fire_at=soon, **values)) == (new.id,)
    row = db.trigger(new.id)
    assert row == same_but(
        planned,
        **values,
        next_fire_at=soon,
        error=None,
        revision=2,
        updated_at=db.now(),
        declared_at=db.now(),
    )
    assert db.fire(firing(planned, db.now(), next_fire_at=None)) == []


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ({"kind": "other"}, {}),
        ({"payload": '{"z": 1, "a": 2}'}, {"payload": {"z": 1, "a": 2}}),
        ({"options": '{"queue": "q"}'}, {"options": {"queue": "q"}}),
        ({"description": "text"}, {}),
        ({"catch_up": "all"}, {}),
        ({"catch_up_window_ms": 5}, {}),
        ({"overlap": "skip"}, {}),
        ({"jitter_ms": 6}, {}),
    ],
    ids=str,
)
def test_other_changes_of_the_code_leave_when_it_is_due(db, values, stored):
    new = new_schedule(name="n", next_fire_at=db.after(60_000))
    db.declare(new)
    before = db.trigger(new.id)
    db.advance("10s")
    db.declare(same_but(new, next_fire_at=db.after(99_000), **values))
    assert db.trigger(new.id) == same_but(
        before, **{**values, **stored}, revision=2, updated_at=db.now(), declared_at=db.now()
    )


def test_a_schedule_that_an_operator_paused_stays_paused(db):
    new = new_schedule(name="n", next_fire_at=db.now())
    db.declare(new)
    db.change_trigger(new.id, enabled=False, next_fire_at=None)
    db.declare(new)
    row = db.trigger(new.id)
    assert (row.enabled, row.next_fire_at, row.revision) == (False, None, 2)
    db.declare(same_but(new, cron="5 5 * * *", kind="other"))
    row = db.trigger(new.id)
    assert (row.enabled, row.cron, row.kind) == (False, "5 5 * * *", "other")
    assert db.due_ids(declared=[new.id]) == []


def test_a_name_that_belongs_to_a_stored_schedule_is_left_alone(db):
    stored = db.schedule(name="n", kind="mine")
    other = new_schedule(name="o", next_fire_at=db.now())
    assert db.declare(new_schedule(name="n", kind="code"), other) == (other.id,)
    assert db.trigger(stored.id) == stored
    assert len(db.triggers()) == 2


def test_names_of_event_triggers_and_of_other_tenants_do_not_clash(db):
    db.listener("paid", name="n")
    db.schedule(name="n", tenant="acme")
    new = new_schedule(name="n")
    assert db.declare(new) == (new.id,)
    assert db.trigger(new.id).origin == "code"


def test_schedules_that_are_no_longer_declared_stay(db):
    one, two = new_schedule(name="one", next_fire_at=db.now()), new_schedule(name="two")
    assert set(db.declare(one, two)) == {one.id, two.id}
    assert db.declare(two) == (two.id,)
    assert db.trigger(one.id).enabled
    assert db.due_ids(declared=[two.id]) == []
    assert db.due_ids(declared=[one.id]) == [one.id]


def test_what_is_declared_is_declared_together(db):
    new = new_schedule(name="n")
    assert db.declare(COMPUTED, new, NewDefinition(kind="other")) == (new.id,)
    assert [each.kind for each in db.definitions()] == ["computed", "other"]
    assert db.declare() == ()


def test_a_code_schedule_deleted_by_hand_comes_back_with_the_next_start(db):
    new = new_schedule(name="n", next_fire_at=db.now())
    db.declare(new)
    assert db.delete_trigger(new.id)
    again = same_but(new, id=new_id())
    assert db.declare(again) == (again.id,)
