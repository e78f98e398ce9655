"""Definitions: written by the code at a worker's start, under what an operator changed; an inactive kind is refused."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest

from headway.errors import NotAllowed
from headway.model.definition import FIELDS, NewDefinition
from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import ODD_JSON, firing, handling, job_of, new_fire

CODE = NewDefinition(
    kind="invoice",
    description="bills, \u2603",
    schema=ODD_JSON,
    timeout_ms=1_001,
    max_attempts=2,
    queue="billing",
    enqueuer_may='{"timeout": 300000, "queue": ["billing", "slow"]}',
    tenants=("acme", "00000000-0000-4000-8000-000000000005"),
    policy='{"priority": 3, "backoff_base_ms": 4, "train": "t"}',
    computed=True,
)
OTHER = NewDefinition(
    kind="invoice",
    description="other",
    schema='{"type": "array"}',
    timeout_ms=None,
    max_attempts=12,
    queue="elsewhere",
    enqueuer_may='{"rate": [100, 60000]}',
    policy="{}",
    computed=False,
)

OPERATOR = {
    "description": "mine",
    "schema": '{"type": "string"}',
    "timeout_ms": 21,
    "max_attempts": 22,
    "queue": "q-23",
    "enqueuer_may": '{"partition": true}',
    "tenants": ("globex",),
}


def values(definition):
    """The fields that an operator may change."""
    return {name: getattr(definition, name) for name in FIELDS}


def said(new):
    return {
        **{name: getattr(new, name) for name in FIELDS},
        "schema": msgspec.json.decode(new.schema or "null"),
        "enqueuer_may": msgspec.json.decode(new.enqueuer_may),
    }


OPERATORS = {**OPERATOR, "schema": {"type": "string"}, "enqueuer_may": {"partition": True}}


# what the code says


@ALL_LIBRARIES
def test_every_field_of_a_definition_is_stored(db):
    written_at = db.now()
    assert db.declare(CODE) == ()
    db.advance("1m")
    (stored,) = db.definitions()
    assert msgspec.structs.asdict(stored) == {
        "kind": "invoice",
        **said(CODE),
        "policy": {"priority": 3, "backoff_base_ms": 4, "train": "t"},
        "computed": True,
        "active": True,
        "changed": (),
        "origin": "code",
        "revision": 1,
        "created_at": written_at,
        "updated_at": written_at,
        "tenant_ids": (),
    }
    assert list(stored.schema) == list(msgspec.json.decode(ODD_JSON))


def test_a_plain_definition_has_the_documented_defaults(db):
    db.declare(NewDefinition(kind="k"))
    stored = db.definition("k")
    assert values(stored) == {
        "description": "",
        "schema": None,
        "timeout_ms": None,
        "max_attempts": 5,
        "queue": "default",
        "enqueuer_may": {},
        "tenants": None,
    }
    assert (stored.policy, stored.computed, stored.active, stored.changed) == ({}, False, True, ())


def test_another_version_of_the_code_is_written_over_the_first(db):
    created_at = db.now()
    db.declare(CODE)
    changed_at = db.advance("1m")
    db.declare(OTHER)
    stored = db.definition("invoice")
    assert values(stored) == said(OTHER)
    assert (stored.policy, stored.computed, stored.origin) == ({}, False, "code")
    assert (stored.created_at, stored.updated_at) == (created_at, changed_at)


def test_a_start_with_the_same_code_changes_nothing(db):
    """A caller that keeps definitions looks at how many there are, and how often they were written."""
    db.declare(CODE)
    before = db.definition("invoice")
    db.advance("1m")
    db.declare(CODE)
    assert db.definition("invoice") == before
    assert db.due().defined == "1/1"


def test_a_start_does_not_forget_the_kinds_of_others(db):
    db.declare(CODE)
    db.declare(NewDefinition(kind="another"))
    assert [each.kind for each in db.definitions()] == ["another", "invoice"]
    db.declare()
    assert [each.kind for each in db.definitions()] == ["another", "invoice"]


def test_definitions_are_read_by_kind_in_order_of_kind(db):
    kinds = ["b", "a", "Z", "_z", "a.b", "a-b", "A"]
    db.declare(*(NewDefinition(kind=kind) for kind in kinds))
    assert [each.kind for each in db.definitions()] == sorted(kinds)
    assert [each.kind for each in db.definitions("b", "nothing", "a")] == ["a", "b"]
    assert db.definitions("nothing") == []
    assert db.run(db.ops.definitions([])) == []


# what an operator changes


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_an_operator_changed_no_longer_follows_the_code(db, field):
    db.declare(CODE)
    changed_at = db.advance("1m")
    answer = db.change_definition("invoice", **{field: OPERATOR[field]})
    assert values(answer) == {**said(CODE), field: OPERATORS[field]}
    assert (answer.changed, answer.updated_at, answer.origin) == ((field,), changed_at, "code")
    assert db.definition("invoice") == answer
    db.declare(OTHER)
    again = db.definition("invoice")
    assert values(again) == {**said(OTHER), field: OPERATORS[field]}
    assert (again.changed, again.computed, again.policy) == ((field,), False, {})


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_is_reset_is_what_the_code_said_last(db, field):
    db.declare(CODE)
    db.change_definition("invoice", **OPERATOR)
    db.declare(OTHER)
    db.advance("1m")
    answer = db.change_definition("invoice", reset=(field,))
    assert values(answer) == {**OPERATORS, field: said(OTHER)[field]}
    assert set(answer.changed) == set(FIELDS) - {field}
    assert answer.updated_at == db.now()
    db.declare(CODE)
    assert values(db.definition("invoice")) == {**OPERATORS, field: said(CODE)[field]}


def test_what_is_set_to_nothing_is_changed_too(db):
    db.declare(CODE)
    answer = db.change_definition("invoice", schema=None, timeout_ms=None)
    assert (answer.schema, answer.timeout_ms) == (None, None)
    assert set(answer.changed) == {"schema", "timeout_ms"}
    db.declare(CODE)
    assert db.definition("invoice") == answer


def test_what_is_set_to_what_the_code_says_no_longer_follows_it_either(db):
    db.declare(CODE)
    assert db.change_definition("invoice", queue=CODE.queue).changed == ("queue",)
    db.declare(OTHER)
    assert db.definition("invoice").queue == CODE.queue


def test_several_changes_add_up_and_a_field_is_named_once(db):
    db.declare(CODE)
    db.change_definition("invoice", queue="one")
    db.change_definition("invoice", queue="two", max_attempts=9)
    answer = db.change_definition("invoice", description="text")
    assert sorted(answer.changed) == ["description", "max_attempts", "queue"]
    assert (answer.queue, answer.max_attempts, answer.description) == ("two", 9, "text")


def test_one_change_may_set_some_and_reset_others(db):
    db.declare(CODE)
    db.change_definition("invoice", queue="mine", max_attempts=9)
    answer = db.change_definition("invoice", timeout_ms=77, reset=("queue", "description"))
    assert sorted(answer.changed) == ["max_attempts", "timeout_ms"]
    assert values(answer) == {**said(CODE), "max_attempts": 9, "timeout_ms": 77}


def test_a_kind_that_no_code_has_written_yet_can_be_changed(db):
    created_at = db.now()
    answer = db.change_definition("invoice", queue="mine", schema=ODD_JSON)
    assert (answer.kind, answer.origin, answer.active, answer.computed) == ("invoice", "stored", True, False)
    assert (answer.queue, answer.schema, answer.policy) == ("mine", msgspec.json.decode(ODD_JSON), {})
    assert (answer.max_attempts, answer.timeout_ms, answer.description) == (5, None, "")
    assert (answer.created_at, answer.updated_at) == (created_at, created_at)
    db.advance("1m")
    db.declare(OTHER)
    after = db.definition("invoice")
    assert values(after) == {**said(OTHER), "queue": "mine", "schema": msgspec.json.decode(ODD_JSON)}
    assert (after.origin, sorted(after.changed), after.created_at) == ("code", ["queue", "schema"], created_at)
    assert db.change_definition("invoice", reset=("queue",)).queue == OTHER.queue


def test_a_reset_where_no_code_has_said_anything_gives_the_default(db):
    db.change_definition("invoice", queue="mine", max_attempts=9, timeout_ms=7)
    answer = db.change_definition("invoice", reset=FIELDS)
    assert (answer.queue, answer.max_attempts, answer.timeout_ms, answer.changed) == ("default", 5, None, ())


def test_active_is_the_operators_whatever_the_code_says(db):
    db.declare(CODE)
    answer = db.change_definition("invoice", active=False)
    assert (answer.active, answer.changed) == (False, ())
    db.declare(OTHER)
    assert not db.definition("invoice").active
    assert db.change_definition("invoice", active=True).active


def test_a_change_of_one_kind_leaves_the_others(db):
    db.declare(CODE, NewDefinition(kind="another"))
    before = db.definition("another")
    db.advance("1m")
    db.change_definition("invoice", active=False, **OPERATOR)
    assert db.definition("another") == before


def test_a_change_may_be_repeated(db):
    db.declare(CODE)
    answers = [db.change_definition("invoice", queue="mine", active=False, reset=("schema",)) for _ in range(2)]
    assert answers[0] == msgspec.structs.replace(answers[1], revision=2)
    assert answers[1].revision == 3


def test_a_definition_is_forgotten_with_what_was_changed(db):
    db.declare(CODE)
    db.change_definition("invoice", active=False, **OPERATOR)
    assert db.delete_definition("invoice")
    assert db.definitions() == []
    assert not db.delete_definition("invoice")
    db.advance("1m")
    db.declare(CODE)
    stored = db.definition("invoice")
    assert (values(stored), stored.active, stored.changed) == (said(CODE), True, ())
    assert stored.created_at == db.now()


def test_what_an_operator_does_is_audited(db):
    db.declare(CODE)
    assert db.audited() == []
    db.change_definition("invoice", queue="mine", actor="ann")
    db.delete_definition("invoice", actor="bob")
    assert db.audited() == [("ann", "definition.changed"), ("bob", "definition.deleted")]
    assert all("invoice" in detail for detail in db.audit_details())
    assert "queue" in db.audit_details()[0]
    assert not db.delete_definition("invoice", actor="bob")
    assert len(db.audited()) == 2


# inactive kinds


def stop(db, kind="mail"):
    db.change_definition(kind, active=False)


def refuses(kind="mail"):
    return pytest.raises(NotAllowed, match=f'kind "{kind}" is not active')


@ALL_LIBRARIES
def test_an_inactive_kind_is_refused(db):
    stop(db)
    with refuses() as error:
        db.enqueue()
    assert "headway definitions activate mail" in str(error.value)
    assert db.find() == []
    db.enqueue(kind="another")
    db.change_definition("mail", active=True)
    assert db.enqueue().created


def test_an_inactive_kind_is_refused_for_every_tenant(db):
    stop(db)
    with refuses():
        db.enqueue(tenant="acme")


def test_a_batch_with_an_inactive_kind_is_refused_as_a_whole(db, make):
    stop(db, "bad")
    with refuses("bad"):
        db.enqueue_all([make.job(), make.job(kind="bad"), make.job()])
    assert db.find() == []


def test_a_group_with_an_inactive_kind_is_refused_as_a_whole(db, make):
    stop(db, "bad")
    group = make.group()
    with refuses("bad"):
        db.enqueue_all([make.job(group_id=group.id), make.job(kind="bad", group_id=group.id)], group)
    assert (db.find(), db.group(group.id)) == ([], None)


@pytest.mark.parametrize(
    "options", [{"train": "t"}, {"unique_key": "u"}, {"delay_ms": 1_000}, {"partition": "p"}, {"concurrency": 1}]
)
def test_an_inactive_kind_is_refused_in_every_form(db, options):
    stop(db)
    with refuses():
        db.enqueue(**options)
    assert db.find() == []


def test_an_inactive_machine_is_refused(db):
    stop(db, "checkout")
    with refuses("checkout"):
        db.machine()


@pytest.mark.parametrize("options", [{}, {"on_conflict": "raise"}], ids=["plain", "refusable"])
def test_an_inactive_kind_is_refused_in_the_callers_transaction(db, make, options):
    stop(db)
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.store.run_in(conn, db.ops.enqueue([make.job(kind="fine")]))
        with refuses():
            db.store.run_in(conn, db.ops.enqueue([make.job(**options)]))
        if options:  # what may be refused by design leaves the caller's transaction alive
            db.store.run_in(conn, db.ops.enqueue([make.job(kind="more")]))
        conn.execute("commit" if options else "rollback")
    assert [job.kind for job in db.find()] == (["more", "fine"] if options else [])


def test_what_is_stored_already_runs_and_is_retried(db):
    claim = db.start()
    waiting = db.enqueue().id
    stop(db)
    db.settle(claim, "dead", error="boom")
    assert db.retry(claim.id) == {claim.id: claim.id}
    assert db.drain() == [claim.id, waiting]


def test_the_retry_of_an_at_most_once_job_is_made_all_the_same(db):
    claim = db.start(delivery="at_most_once")
    stop(db)
    assert db.settle(claim, "failed", charge=1) == []
    (again,) = db.find(retry_of=claim.id)
    assert again.status == "queued"
    over = db.take()
    db.settle(over, "dead", error="boom")
    assert db.retry(over.id)[over.id] != over.id


def test_children_and_forks_are_made_all_the_same(db, make):
    claim = db.begin()
    stop(db)
    stop(db, "checkout")
    child = make.job(queue="kids")
    db.spawn(claim, child)
    assert db.status(child.id) == "queued"
    assert db.fork(make.machine(forked_from=claim.id)).created


def test_a_fire_of_an_inactive_kind_is_refused_with_everything_beside_it(db):
    good, bad = db.schedule(kind="good"), db.schedule(kind="bad")
    stop(db, "bad")
    plan = [firing(each, db.now(), next_fire_at=db.after(60_000)) for each in (good, bad)]
    with refuses("bad"):
        db.fire(*plan)
    assert (db.find(), db.fires()) == ([], [])
    assert db.due_ids() == [good.id, bad.id]
    assert len(db.fire(plan[0])) == 1
    with refuses("bad"):
        db.run_trigger(new_fire(bad))
    assert len(db.fires()) == 1


def test_an_event_with_an_inactive_kind_is_refused_and_stays_pending(db):
    trigger = db.listener("paid")
    event = db.emit("paid")
    stop(db)
    with refuses():
        db.handle(handling(event, new_fire(trigger, job=job_of(trigger))))
    assert (db.find(), db.fires(), db.event(event).status) == ([], [], "pending")


# what `due` says of them


def test_due_says_whether_a_definition_was_written_or_deleted(db):
    """All in one moment: the clock does not tell two writes apart."""
    assert db.due().defined == "0/0"
    db.declare(CODE)
    assert db.due().defined == "1/1"
    db.declare(CODE)
    assert db.due().defined == "1/1"
    db.declare(OTHER)
    assert db.due().defined == "1/2"
    db.change_definition("another", queue="q")
    assert db.due().defined == "2/3"
    db.change_definition("another", active=False)
    assert [(each.kind, each.revision) for each in db.definitions()] == [("another", 2), ("invoice", 2)]
    assert db.due().defined == "2/4"
    db.delete_definition("another")
    assert db.due().defined == "1/2"
    db.delete_definition("invoice")
    assert db.due().defined == "0/0"
