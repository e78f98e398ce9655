"""What somebody may do to triggers, templates and events by SQL or by an open transaction does not stop the others."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import apsw
import psycopg
import pytest

from headway.errors import InvalidJob, NotAllowed, NotFound, StoreBusy
from headway.model.definition import NewDefinition
from headway.model.ids import new_id
from headway.model.trigger import TriggerChange
from headway.store.ops import Op, Statement
from tests.store.triggers.trigger_calls import (
    firing,
    handling,
    job_of,
    new_event,
    new_fire,
    new_listener,
    new_schedule,
    new_template,
    own_transaction,
    unwanted,
)

POSTGRES = pytest.mark.parametrize("store", ["postgres"], indirect=True)
REFUSED = (psycopg.errors.CheckViolation, apsw.ConstraintError)
LONGEST_MS = 3_162_240_000_000
NO_OBJECTS = ["null", "[]", "0", '"text"', "true"]
UNREADABLE = {
    "number": '{"a": 1e400}',
    "surrogate": '{"a": "\\ud800"}',
    "deep": '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}",
}
MALFORMED_TIMES = [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(9999, 1, 1, 0, 0, 1, tzinfo=UTC)]


# what the verbs refuse


@pytest.mark.parametrize("text", NO_OBJECTS)
@pytest.mark.parametrize("field", ["payload", "options", "when"])
def test_what_is_no_object_is_refused(db, field, text):
    made, template = db.schedule(), db.template()
    with pytest.raises(InvalidJob):
        db.schedule(**{field: text})
    with pytest.raises(InvalidJob):
        db.change_trigger(made.id, **{field: text})
    with pytest.raises(InvalidJob):
        db.declare(new_schedule(next_fire_at=db.now(), **{field: text}))
    if field != "when":
        with pytest.raises(InvalidJob):
            db.template(**{field: text})
        with pytest.raises(InvalidJob):
            db.change_template(template.id, **{field: text})
    assert (db.triggers(), db.templates()) == ([made], [template])


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("field", ["payload", "options", "when"])
def test_what_cannot_be_read_is_refused(db, field, text):
    made, template = db.schedule(), db.template()
    with pytest.raises(InvalidJob):
        db.schedule(**{field: text})
    with pytest.raises(InvalidJob):
        db.change_trigger(made.id, **{field: text})
    if field != "when":
        with pytest.raises(InvalidJob):
            db.template(**{field: text})
        with pytest.raises(InvalidJob):
            db.change_template(template.id, **{field: text})
    assert (db.triggers(), db.templates()) == ([made], [template])


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("every_ms", [1_000, LONGEST_MS], [999, 0, -1, LONGEST_MS + 1]),
        ("catch_up_window_ms", [0, LONGEST_MS], [-1, LONGEST_MS + 1]),
        ("jitter_ms", [0, LONGEST_MS], [-1, LONGEST_MS + 1]),
        ("dedupe_window_ms", [0, LONGEST_MS], [-1, LONGEST_MS + 1]),
    ],
)
def test_a_duration_has_a_range(db, field, good, bad):
    every = db.schedule(every_ms=5_000)
    for value in good:
        assert getattr(db.schedule(**{field: value}), field) == value
        assert getattr(db.change_trigger(every.id, **{field: value}), field) == value
    before = db.triggers()
    for value in bad:
        with pytest.raises(InvalidJob):
            db.schedule(**{field: value})
        with pytest.raises(InvalidJob):
            db.change_trigger(every.id, **{field: value})
    assert db.triggers() == before


@pytest.mark.parametrize("time", MALFORMED_TIMES, ids=str)
@pytest.mark.parametrize("field", ["start_at", "end_at", "next_fire_at"])
def test_a_time_has_a_range(db, field, time):
    made = db.schedule()
    with pytest.raises(InvalidJob):
        db.schedule(**{field: time})
    with pytest.raises(InvalidJob):
        db.change_trigger(made.id, **{field: time})
    with pytest.raises(InvalidJob):
        db.fire(firing(made, db.now(), next_fire_at=time))
    assert (db.triggers(), db.fires(), db.find()) == ([made], [], [])


def test_a_refusal_leaves_the_callers_transaction_alive(db):
    with own_transaction(db) as run:
        for bad in (new_schedule(payload="[]"), new_schedule(every_ms=1), new_schedule(start_at=MALFORMED_TIMES[0])):
            with pytest.raises(InvalidJob):
                run(db.ops.create_trigger(bad, actor=None))
        with pytest.raises(InvalidJob):
            run(db.ops.create_template(new_template(options="0"), actor=None))
        run(db.ops.create_trigger(new_schedule(name="n"), actor=None))
    assert [each.name for each in db.triggers()] == ["n"]


@POSTGRES
@pytest.mark.parametrize("name", ["", " ", "a b", "a\nb", "-a", "é", "x" * 129, "{{a}}"])
def test_names_that_no_enqueue_would_take_are_refused(db, name):
    """The application is asked before the store; whoever calls the functions is not."""
    made, template = db.listener("paid"), db.template()
    refused = [
        lambda: db.schedule(name=name),
        lambda: db.schedule(kind=name),
        lambda: db.listener(name),
        lambda: db.declare(new_schedule(name=name)),
        lambda: db.template(name=name),
        lambda: db.template(kind=name),
        lambda: db.change_trigger(made.id, name=name),
        lambda: db.change_trigger(made.id, kind=name),
        lambda: db.change_trigger(made.id, event=name),
        lambda: db.change_template(template.id, name=name),
        lambda: db.change_template(template.id, kind=name),
        lambda: db.change_definition(name, active=True),
        lambda: db.change_definition("mail", queue=name),
        lambda: db.emit(name),
    ]
    for each in refused:
        with pytest.raises(InvalidJob):
            each()
    assert (db.triggers(), db.templates(), db.definitions(), db.events()) == ([made], [template], [], [])


@POSTGRES
@pytest.mark.parametrize(
    "values",
    [
        '"id": 7',
        '"next_fire_at": "infinity"',
        '"start_at": "-infinity"',
        '"end_at": "10000-01-01"',
        '"end_at": "never"',
        '"every_ms": 1e30, "cron": null',
        '"jitter_ms": "x"',
        '"options": null',
        '"payload": null',
        '"when": null',
        '"type": "other"',
        '"overlap": "other"',
        '"catch_up": null',
        '"kind": null',
        '"cron": null',
        '"name": null',
        '"enabled": null',
    ],
)
def test_a_function_called_with_nonsense_refuses_it(db, values):
    made = db.schedule()
    base = '"type": "schedule", "name": "n", "kind": "mail", "cron": "* * * * *"'
    for call, params in (
        ("select headway.create_trigger(?::json)", (f"{{{base}, {values}}}",)),
        ("select headway.change_trigger(?, ?::json)", (made.id, f"{{{values}}}")),
    ):
        if "change" in call and values in ('"id": 7', '"type": "other"'):
            continue  # no change sets these
        with pytest.raises(psycopg.Error) as caught:
            db.sql(call, *params)
        assert caught.value.sqlstate == "HW004"
    assert db.triggers() == [made]


@POSTGRES
@pytest.mark.parametrize("time", ["infinity", "-infinity", "10000-01-01"])
def test_a_run_by_hand_at_a_time_that_cannot_be_is_refused(db, time):
    made = db.schedule()
    with pytest.raises(psycopg.Error) as caught:
        db.sql("select headway.run_trigger(?, ?, null, 'boom', ?)", new_id(), made.id, time)
    assert caught.value.sqlstate == "HW004"
    assert (db.triggers(), db.fires()) == ([made], [])


# what the tables refuse


POISON = {
    "payload": "'[]'",
    "options": "'null'",
    '"when"': "'7'",
    "every_ms": "999",
    "catch_up_window_ms": str(LONGEST_MS + 1),
    "jitter_ms": "-1",
    "dedupe_window_ms": "-1",
    "start_at": ("'infinity'", "-1"),
    "end_at": ("'9999-01-02'", "253370764800000001"),
    "next_fire_at": ("'-infinity'", str(2**62)),
    "last_fired_at": ("'infinity'", "-1"),
}


@pytest.mark.parametrize("column", POISON)
def test_poison_does_not_come_in_by_sql(db, column):
    made, template = db.schedule(every_ms=60_000), db.template()
    value = POISON[column]
    text = value if isinstance(value, str) else value[db.dialect == "sqlite"]
    with pytest.raises(REFUSED):
        db.sql(f"update {db.table('triggers')} set {column} = {text}")
    if column in ("payload", "options"):
        with pytest.raises(REFUSED):
            db.sql(f"update {db.table('templates')} set {column} = {text}")
    assert (db.triggers(), db.templates()) == ([made], [template])


# what cannot be read, and is there all the same


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("table", ["triggers", "templates"])
def test_a_row_that_cannot_be_read_does_not_stop_the_others(db, table, text):
    poisoned, good = db.template(), db.template()
    bad, fine = (db.schedule(template_id=each.id) for each in (poisoned, good))
    deaf, hears = (db.listener("paid", template_id=each.id) for each in (poisoned, good))
    db.advance("1s")
    event = db.emit("paid")
    ids = (bad.id, deaf.id) if table == "triggers" else (poisoned.id, poisoned.id)
    update = f"update {{{table}}} set payload = ? where id in (?, ?)"
    if db.dialect == "sqlite" and text == UNREADABLE["deep"]:  # SQLite's own JSON ends at 1000 levels
        with pytest.raises(REFUSED):
            db.sql(update, text, *ids)
        return
    db.sql(update, text, *ids)
    assert db.due_ids() == [fine.id]
    assert db.heard() == {event: [hears.id]}
    assert len(db.triggers()) == 4
    shown = db.triggers(name=bad.name) if table == "triggers" else db.templates([poisoned.id])
    assert [each.payload for each in shown] == [text]
    db.fire_now(fine, next_fire_at=None)
    # nobody is told to look at once, again and again
    assert (db.due_ids(), db.due().next_due_ms) == ([], None)
    if table == "triggers":
        assert db.change_trigger(bad.id, payload="{}").payload == {}
    else:
        assert db.change_template(poisoned.id, payload="{}").payload == {}
    assert db.due_ids() == [bad.id]


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_an_event_that_cannot_be_read_is_given_with_its_fault(db, text):
    made = db.listener("paid")
    db.advance("1s")
    before, event, after = (db.emit("paid", n) for n in range(3))
    db.sql("update {events} set payload = ? where id = ?", text, event)
    heard = db.due().events
    assert [each.event.id for each in heard] == [before, event, after]
    assert [each.event.payload for each in heard] == [0, None, 2]
    assert [each.fault is None for each in heard] == [True, False, True]
    assert heard[1].fault.startswith("the payload cannot be read")
    assert [met.trigger.id for met in heard[1].triggers] == [made.id]
    assert db.event(event).payload == text
    assert [each.payload for each in db.events()] == [2, text, 0]
    db.handle(handling(before, made), handling(event, new_fire(made, error=heard[1].fault)), handling(after, made))
    assert [each.status for each in db.events()] == ["handled", "failed", "handled"]
    assert db.retry_events(event) == [event]


@POSTGRES
@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_an_event_that_nobody_could_read_is_refused_where_sql_emits_it(db, text):
    with pytest.raises(Exception, match="the data of an event cannot be read"):
        db.sql("select headway.emit('paid', ?::json)", text)
    assert db.events() == []


# computed kinds


def test_an_event_for_the_computed_kinds_of_two_pools_is_handled_by_both(db):
    """Neither knows the other's kind; each fires its own, whoever comes first."""
    db.declare(*(NewDefinition(kind=kind, computed=True) for kind in ("red", "blue")))
    red, blue, plain = (db.listener("paid", kind=kind) for kind in ("red", "blue", "plain"))
    db.advance("1s")
    event = db.emit("paid")

    def given(kind):
        return {met.trigger.id: met.computed for heard in db.due(kinds=[kind]).events for met in heard.triggers}

    assert given("red") == {red.id: False, blue.id: True, plain.id: False}
    fires = db.handle(handling(event, red, plain, left=True))
    assert [each.status for each in fires] == ["enqueued"] * 2
    after = db.event(event)
    assert (after.status, after.handled_at, after.error) == ("pending", None, None)
    assert given("red") == {}
    assert given("blue") == {blue.id: False}
    db.handle(handling(event, blue))
    assert (db.event(event).status, len(db.find()), len(db.fires())) == ("handled", 3, 3)


def test_an_event_that_nobody_can_fire_for_is_given_up_after_ten_minutes(db):
    db.declare(NewDefinition(kind="red", computed=True))
    red, plain = db.listener("paid", kind="red"), db.listener("paid", kind="plain")
    db.advance("1s")
    event = db.emit("paid")
    db.handle(handling(event, plain, left=True))
    assert db.heard() == {}
    db.advance("10m")
    assert db.heard() == {event: [red.id]}
    db.handle(handling(event, new_fire(red, error="nobody knows red")))
    assert (db.event(event).status, db.event(event).error) == ("failed", f"{red.name}: nobody knows red")
    assert db.retry_events(event) == [event]
    assert db.heard(kinds=["red"]) == {event: [red.id]}


# fires of events


def test_an_event_that_is_left_fails_later_by_what_failed_before(db):
    one, two, three = (db.listener("paid", name=name) for name in ("one", "two", "three"))
    db.advance("1s")
    event = db.emit("paid")
    db.handle(handling(event, new_fire(one, error="boom"), left=True))
    assert (db.event(event).status, db.event(event).error) == ("pending", None)
    assert db.trigger(one.id).error == "boom"
    assert db.heard() == {event: [two.id, three.id]}
    db.handle(handling(event, two, left=True))
    db.handle(handling(event, new_fire(three, error="bang")))
    after = db.event(event)
    assert (after.status, after.error, after.handled_at) == ("failed", "one: boom\nthree: bang", db.now())
    assert db.retry_events(event) == [event]
    assert db.heard() == {event: [one.id, three.id]}
    db.handle(handling(event, one, left=True))
    db.handle(handling(event, three))
    assert (db.event(event).status, db.event(event).error) == ("handled", None)


def test_a_trigger_that_does_not_want_an_event_has_seen_it(db):
    wants, not_ = db.listener("paid"), db.listener("paid")
    db.advance("1s")
    event = db.emit("paid")
    skipped = unwanted(not_)
    (fire,) = db.handle(handling(event, skipped, left=True))
    assert (fire.id, fire.status, fire.job_id, fire.error) == (skipped.id, "skipped", None, None)
    assert db.trigger(not_.id) == not_
    assert db.heard() == {event: [wants.id]}
    assert [each.trigger_id for each in db.handle(handling(event, wants, not_))] == [wants.id]
    assert (db.event(event).status, len(db.find())) == ("handled", 1)


# what a trigger remembers


def test_only_fires_that_made_a_job_move_when_it_fired_last(db):
    made = db.schedule(overlap="skip")
    first = db.fire_now(made, next_fire_at=db.after(1_000))
    moved = db.trigger(made.id)
    assert (moved.last_fired_at, moved.last_job_id) == (first.nominal_at, first.job_id)
    db.advance("1s")
    assert db.fire_now(made, next_fire_at=db.after(1_000)).status == "skipped"
    db.advance("1s")
    assert db.fire_now(made, error="boom", next_fire_at=db.after(1_000)).status == "failed"
    after = db.trigger(made.id)
    assert (after.last_fired_at, after.last_job_id, after.error) == (first.nominal_at, first.job_id, "boom")
    db.drain()
    db.advance("1s")
    fires = [new_fire(made, db.now()), new_fire(made, db.after(1), error="boom")]
    enqueued, _ = db.fire(firing(db.trigger(made.id), *fires, next_fire_at=None))
    after = db.trigger(made.id)
    assert (after.last_fired_at, after.last_job_id, after.error) == (db.now(), enqueued.job_id, "boom")


def test_a_fire_that_met_another_job_made_none(db):
    made = db.schedule()
    there = db.enqueue(unique_key="u").id
    fire = db.fire_now(made, job=job_of(made, unique_key="u"), next_fire_at=db.after(1_000))
    assert (fire.status, fire.job_id) == ("deduped", there)
    after = db.trigger(made.id)
    assert (after.last_fired_at, after.last_job_id) == (None, None)


def test_what_made_no_job_dedupes_and_overlaps_nothing(db):
    there = db.enqueue(unique_key="u").id
    made = db.schedule(overlap="skip")
    plan = firing(
        made,
        new_fire(made, db.now(), job=job_of(made, unique_key="u")),
        new_fire(made, db.after(1)),
        new_fire(made, db.after(2)),
        next_fire_at=None,
    )
    fires = db.fire(plan)
    assert [each.status for each in fires] == ["deduped", "enqueued", "skipped"]
    assert (fires[0].job_id, fires[2].job_id) == (there, fires[1].job_id)
    listener = db.listener("paid")
    events = [db.emit("paid") for _ in range(3)]
    jobs = [job_of(listener, unique_key="u"), job_of(listener), job_of(listener)]
    fires = db.handle(
        *(handling(event, new_fire(listener, job=job, dedupe_key="k")) for event, job in zip(events, jobs, strict=True))
    )
    assert [each.status for each in fires] == ["deduped", "enqueued", "deduped"]
    assert [each.job_id for each in fires] == [there, jobs[1].id, jobs[1].id]


def test_an_overlap_is_seen_past_any_number_of_failed_fires(db):
    made = db.schedule(overlap="skip")
    first = db.fire_now(made, next_fire_at=db.after(1_000))
    db.advance("1s")
    fires = [new_fire(made, db.after(n), error="boom") for n in range(60)]
    db.fire(firing(db.trigger(made.id), *fires, next_fire_at=db.after(1_000)))
    db.advance("1s")
    last = db.fire_now(made)
    assert (last.status, last.job_id) == ("skipped", first.job_id)


# changes


def test_a_change_made_for_another_revision_is_refused(db):
    made = db.schedule(name="n")
    changed = db.change_trigger(made.id, of_revision=1, description="first", actor="ann")
    assert (changed.revision, changed.description) == (2, "first")
    with pytest.raises(NotAllowed):
        db.change_trigger(made.id, of_revision=1, description="second")
    with pytest.raises(NotAllowed):
        db.change_trigger(made.id, of_revision=3, description="second")
    assert db.trigger(made.id) == changed
    assert db.change_trigger(made.id, description="whatever it is").revision == 3
    assert db.change_trigger(new_id(), of_revision=1, description="second") is None
    assert "of_revision" not in " ".join(db.audit_details())
    assert len(db.audited()) == 3


def test_a_firing_does_not_void_a_change(db):
    """Only what people and code set counts the revision."""
    made = db.schedule()
    db.fire_now(made, next_fire_at=db.after(1_000))
    assert db.change_trigger(made.id, of_revision=1, description="mine").revision == 2


def test_templates_are_read_by_id(db):
    one, two = db.template(tenant="acme"), db.template()
    assert db.templates([two.id, new_id(), one.id]) == [one, two]
    assert db.templates([one.id], tenant_id=one.tenant_id) == [one]
    assert db.templates([two.id], tenant_id=one.tenant_id) == []
    assert db.templates([]) == []


def test_what_the_engine_says_is_not_for_others_to_say(db):
    db.listener("headway.job.dead")
    for name in ("headway.job.dead", "headway.", "headway.other"):
        with pytest.raises(InvalidJob):
            db.emit_all([new_event("paid"), new_event(name)])
        if db.dialect == "postgres":
            with pytest.raises(psycopg.Error, match="headway"):
                db.sql("select headway.emit(?)", name)
    assert db.events() == []
    db.emit("headwayx")
    db.enqueue()
    db.settle(db.take(), "dead", error="boom")
    assert {each.name for each in db.events()} == {"headwayx", "headway.job.dead"}


# transactions that stay open


@pytest.fixture
def others(db):
    """A schedule and an event of somebody else, who must not wait: fires and handles them, and says that it went."""

    def go():
        made = db.schedule(tenant="beta")
        heard = db.listener("beta.paid", tenant="beta")
        event = db.emit("beta.paid", tenant="beta")
        due = db.due()
        plans = [firing(met.trigger, db.now(), next_fire_at=None) for met in due.schedules]
        events = [handling(each.event.id, *(met.trigger for met in each.triggers)) for each in due.events]
        assert made.id in {each.trigger_id for each in db.fire(*plans)}
        assert heard.id in {each.trigger_id for each in db.handle(*events)}
        assert db.event(event).status == "handled"

    return go


@POSTGRES
@pytest.mark.parametrize("what", ["change", "delete", "run", "lock", "template", "create", "emit", "retry"])
def test_an_open_transaction_holds_up_nobody_else(db, session, others, what):
    template = db.template(tenant="acme")
    mine = db.schedule(tenant="acme", template_id=template.id)
    listener = db.listener("paid", tenant="acme", template_id=template.id)
    failed = db.emit("paid", tenant="acme")
    db.handle(handling(failed, new_fire(listener, error="boom")))
    event = db.emit("paid", tenant="acme")
    open_ = session()
    change = TriggerChange(description="changed")
    for each in (mine, listener):
        match what:
            case "change":
                open_.run(db.ops.change_trigger(each.id, change, tenant_id=None, actor=None))
            case "delete":
                open_.run(db.ops.delete_trigger(each.id, tenant_id=None, actor=None))
            case "run":
                open_.run(db.ops.run_trigger(new_fire(each), tenant_id=None, actor=None))
            case "lock":
                open_.conn.execute("select from headway.triggers where id = %s for update", (each.id,))
            case "template":
                open_.conn.execute("select from headway.templates where id = %s for update", (template.id,))
            case "create":
                open_.run(db.ops.create_trigger(new_listener("paid", tenant="acme"), actor=None))
            case "emit":
                open_.run(db.ops.emit([new_event("paid", tenant="acme")]))
            case "retry":
                open_.run(db.ops.retry_events([failed, event], tenant_id=None, actor=None))
    others()
    held = what in ("change", "delete", "run", "lock")
    assert (db.trigger(mine.id).last_fired_at is None) == held
    assert db.event(event).status == ("pending" if held else "handled")
    open_.rollback()
    if held:
        assert db.due_ids() == [mine.id]
        assert db.heard() == {event: [listener.id]}


@POSTGRES
def test_an_event_row_that_is_held_is_left(db, session, others):
    db.listener("paid")
    event = db.emit("paid")
    open_ = session()
    open_.conn.execute("select from headway.events where id = %s for update", (event,))
    others()
    assert db.event(event).status == "pending"
    open_.rollback()
    assert list(db.heard()) == [event]


@POSTGRES
def test_a_key_that_is_held_is_a_busy_store_for_its_own_firing_only(db, session):
    """All or none: who wrote them together writes them one by one, and only the one that is held fails."""
    mine, theirs = db.schedule(), db.schedule()
    usual = db.store.run(_setting("lock_timeout"))
    open_ = session()
    open_.run(db.ops.enqueue([job_of(mine, unique_key="k")]))
    plans = [
        firing(mine, new_fire(mine, db.now(), job=job_of(mine, unique_key="k")), next_fire_at=None),
        firing(theirs, db.now(), next_fire_at=None),
    ]
    with pytest.raises(StoreBusy):
        db.fire(*plans)
    assert db.fires() == []
    with pytest.raises(StoreBusy):
        db.fire(plans[0])
    assert len(db.fire(plans[1])) == 1
    # the wait is the transaction's: the next on this connection waits as it did
    assert db.store.run(_setting("lock_timeout")) == usual
    open_.commit()
    (fire,) = db.fire(plans[0])
    assert fire.status == "deduped"


def _setting(name):
    def steps():
        return (yield Statement("select current_setting($1)", [name]))

    return Op(steps, writes=False)


@POSTGRES
def test_a_template_that_is_being_deleted_is_waited_for_by_who_points_at_it(db, session, until):
    template = db.template()
    deleter, creator = session(), session()
    deleter.run(db.ops.delete_template(template.id, tenant_id=None, actor=None))
    later = creator.start(db.ops.create_trigger(new_schedule(template_id=template.id), actor=None))
    until(lambda: creator.blocked() or later.done())
    deleter.commit()
    with pytest.raises(NotFound):
        later.result(10)


def test_a_clock_that_stands_still_does_not_hide_a_definition(db):
    """Two writes in one moment, and one that was deleted: each is another token than the one before."""
    before = db.due().defined
    for write in (
        lambda: db.declare(NewDefinition(kind="a")),
        lambda: db.change_definition("a", queue="q"),
        lambda: db.change_definition("a", queue="r"),
        lambda: db.declare(NewDefinition(kind="b")),
        lambda: db.delete_definition("a"),
    ):
        write()
        after = db.due().defined
        assert after != before
        before = after


def test_a_connection_of_another_session_reads_them_too(db):
    """As on a caller's own connection, whose library decodes JSON by itself."""
    made = db.schedule(payload='{"a": 1}')
    event = db.emit("paid", {"b": 2})
    with closing(db.connect()) as conn:
        conn.execute("begin")
        due = db.store.run_in(conn, db.ops.due(kinds=[], declared=[], limit=10))
        conn.execute("commit")
    assert [met.trigger for met in due.schedules] == [made]
    assert [(each.event.id, each.event.payload) for each in due.events] == [(event, {"b": 2})]
    assert due.now - db.now() == timedelta(0)
