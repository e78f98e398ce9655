"""What somebody may write into triggers, templates and events, by a verb or by SQL, does not stop the others."""

from __future__ import annotations

from datetime import UTC, datetime

import apsw
import psycopg
import pytest

from headway.errors import InvalidJob
from headway.model.ids import new_id
from tests.store.store_marks import POSTGRES
from tests.store.triggers.trigger_calls import (
    firing,
    handling,
    new_fire,
    new_schedule,
    new_template,
    own_transaction,
)

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
    """The application checks before the store; callers of the SQL functions do not."""
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
