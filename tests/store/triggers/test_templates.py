"""Templates: a kind, a payload and options under a name, in one tenant; jobs keep what they were made of."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import Duplicate, NotAllowed
from headway.model.ids import new_id
from headway.model.job import Report
from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import ODD_JSON, new_template, own_transaction
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


@ALL_LIBRARIES
def test_every_field_of_a_template_is_stored(db):
    new = new_template(
        tenant="acme",
        name="monthly_1.A:b/c-d",
        kind="invoice",
        payload=ODD_JSON,
        options='{"queue": "q", "z": 1, "a": {"delay": "5m"}}',
        description="text-1",
        created_by="ann-2",
    )
    made_at = db.now()
    answer = db.create_template(new)
    assert msgspec.structs.asdict(answer) == {
        "id": new.id,
        "tenant_id": ACME,
        "tenant": "acme",
        "name": "monthly_1.A:b/c-d",
        "kind": "invoice",
        "payload": msgspec.json.decode(ODD_JSON),
        "options": {"queue": "q", "z": 1, "a": {"delay": "5m"}},
        "description": "text-1",
        "revision": 1,
        "created_by": "ann-2",
        "created_at": made_at,
        "updated_at": made_at,
    }
    assert list(answer.payload) == list(msgspec.json.decode(ODD_JSON))
    assert list(answer.options) == ["queue", "z", "a"]
    db.advance("1m")
    assert db.templates() == [answer]


def test_a_name_is_taken_once_in_its_tenant(db):
    first = db.template(tenant="acme", name="n")
    with pytest.raises(Duplicate):
        db.template(tenant="acme", name="n", kind="other")
    other = db.template(tenant="beta", name="n")
    db.template(tenant="acme", name="N")
    assert [each.id for each in db.templates(name="n")] == [first.id, other.id]


def test_a_refused_name_leaves_the_callers_transaction_alive(db):
    db.template(name="n")
    with own_transaction(db) as run:
        with pytest.raises(Duplicate):
            run(db.ops.create_template(new_template(name="n"), actor=None))
        run(db.ops.create_template(new_template(name="m"), actor=None))
    assert {each.name for each in db.templates()} == {"n", "m"}


def test_a_repeated_create_is_answered_with_what_is_stored(db):
    new = new_template(name="n", payload='{"a": 1}')
    first = db.create_template(new, actor="ann")
    db.advance("1m")
    assert db.create_template(new, actor="ann") == first
    changed = db.change_template(new.id, name="m", actor="ann")
    assert db.create_template(new, actor="ann") == changed
    assert len(db.templates()) == 1
    assert db.audited() == [("ann", "template.created"), ("ann", "template.changed")]


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("name", "other", "other"),
        ("kind", "other", "other"),
        ("payload", ODD_JSON, msgspec.json.decode(ODD_JSON)),
        ("options", '{"o": 2}', {"o": 2}),
        ("description", "other", "other"),
    ],
)
def test_a_change_sets_one_field_and_counts(db, field, value, stored):
    before = db.template(payload='{"a": 1}', options='{"b": 1}', description="text", created_by="ann")
    beside = db.template()
    db.advance("1m")
    after = db.change_template(before.id, **{field: value})
    expected = {field: stored, "revision": 2, "updated_at": db.now()}
    assert after == msgspec.structs.replace(before, **expected)
    assert db.templates() == [after, beside]
    assert db.change_template(before.id, **{field: value}).revision == 3


def test_a_new_name_that_is_taken_is_refused(db):
    one, two = db.template(tenant="acme", name="one"), db.template(tenant="acme", name="two")
    db.template(tenant="beta", name="three")
    with pytest.raises(Duplicate):
        db.change_template(two.id, name="one", kind="k")
    assert db.templates(tenant_id=ACME) == [one, two]
    assert db.change_template(two.id, name="two").name == "two"
    assert db.change_template(two.id, name="three").name == "three"


def test_a_deleted_template_is_gone_and_its_name_free(db):
    made = db.template(name="n")
    assert db.delete_template(made.id)
    assert db.templates() == []
    assert not db.delete_template(made.id)
    assert db.change_template(made.id, kind="k") is None
    assert db.template(name="n").revision == 1


@pytest.mark.parametrize("how", ["schedule", "listener"])
def test_a_template_in_use_is_not_deleted(db, how):
    made = db.template()
    make = db.schedule if how == "schedule" else lambda **options: db.listener("paid", **options)
    users = [make(template_id=made.id, name=f"user-{n}") for n in range(5)]
    with pytest.raises(NotAllowed) as refusal:
        db.delete_template(made.id)
    assert sum(f"user-{n}" in str(refusal.value) for n in range(5)) == 3
    assert db.templates() == [made]
    for user in users[:4]:
        db.delete_trigger(user.id)
    with pytest.raises(NotAllowed, match="user-4"):
        db.delete_template(made.id)
    db.change_trigger(users[4].id, template_id=None, kind="mail")
    assert db.delete_template(made.id)


def test_a_disabled_trigger_uses_its_template_too(db):
    made = db.template()
    db.schedule(template_id=made.id, enabled=False, next_fire_at=None)
    with pytest.raises(NotAllowed):
        db.delete_template(made.id)


def test_another_tenants_template_is_as_if_absent(db):
    theirs = db.template(tenant="beta", name="n")
    assert db.change_template(theirs.id, kind="k", tenant_id=ACME) is None
    assert not db.delete_template(theirs.id, tenant_id=ACME)
    assert db.templates(tenant_id=ACME) == []
    assert db.templates(tenant_id=ACME, name="n") == []
    assert db.templates() == [theirs]
    assert db.audited() == [(None, "template.created")]
    assert db.change_template(theirs.id, kind="k", tenant_id=BETA).kind == "k"
    assert db.delete_template(theirs.id, tenant_id=BETA)


def test_a_tenant_that_is_named_first_here_gets_its_row(db):
    db.template(tenant="acme")
    assert db.run(db.ops.tenants([ACME])) == {ACME: "acme"}


def test_templates_are_read_in_pages(db):
    made = [db.template(tenant="acme" if n % 2 else "beta").id for n in range(7)]
    pages, after = [], None
    while page := db.templates(limit=3, after=after):
        pages.append([each.id for each in page])
        after = page[-1].id
    assert pages == [made[:3], made[3:6], made[6:]]
    mine = db.templates(tenant_id=ACME, limit=2)
    assert [each.id for each in mine] == [made[1], made[3]]
    assert [each.id for each in db.templates(tenant_id=ACME, limit=2, after=made[3])] == [made[5]]


def test_what_people_do_is_audited(db):
    made = db.template(tenant="acme", name="monthly", actor="ann")
    db.change_template(made.id, kind="k", actor="bob")
    db.delete_template(made.id, actor="cy")
    assert db.audited() == [
        ("ann", "template.created"),
        ("bob", "template.changed"),
        ("cy", "template.deleted"),
    ]
    assert all("monthly" in detail for detail in db.audit_details())
    assert [str(each) for (each,) in db.sql("select distinct tenant_id from {audit}")] == [ACME]
    assert not db.delete_template(made.id, actor="cy")
    assert db.change_template(new_id(), kind="k", actor="cy") is None
    assert len(db.audited()) == 3


# what is made of them


def test_a_job_keeps_what_it_was_made_of(db):
    made = db.template()
    trigger = new_id()
    job_id = db.enqueue(template_id=made.id, template_revision=7, trigger_id=trigger).id
    db.change_template(made.id, kind="other")
    db.delete_template(made.id)
    job = db.job(job_id)
    assert (job.template_id, job.template_revision, job.trigger_id) == (made.id, 7, trigger)
    plain = db.job(db.enqueue().id)
    assert (plain.template_id, plain.template_revision, plain.trigger_id) == (None, None, None)


@pytest.mark.parametrize("how", ["settle", "reap", "retry"])
def test_the_job_that_retries_another_was_made_of_the_same(db, how):
    worker = db.worker()
    options = {"template_id": new_id(), "template_revision": 7, "trigger_id": new_id(), "delivery": "at_most_once"}
    claim = db.start(worker, **options)
    if how == "settle":
        db.settle(claim, "failed", worker, charge=1)
    elif how == "reap":
        db.unregister(worker)
        db.reap()
    else:
        db.settle(claim, "dead", worker, error="boom")
        db.retry(claim.id)
    (again,) = db.find(retry_of=claim.id)
    assert {name: getattr(again, name) for name in options} == options


def test_a_fork_was_made_of_the_same(db, make):
    options = {"template_id": new_id(), "template_revision": 7, "trigger_id": new_id()}
    claim = db.begin(**options)
    fork = make.machine(forked_from=claim.id, **options)
    db.fork(fork)
    job = db.job(fork.id)
    assert {name: getattr(job, name) for name in options} == options


# what an execution leaves


def test_a_report_shows_where_the_tail_of_the_log_ends(db):
    worker = db.worker()
    claim = db.start(worker)
    assert (db.job(claim.id).log_tail, db.job(claim.id).log_end) == (None, None)
    db.report(worker, Report(claim.id, 1, None, None, "lines", 2**40))
    assert (db.job(claim.id).log_tail, db.job(claim.id).log_end) == ("lines", 2**40)
    db.report(worker, Report(claim.id, 1, 0.5, "half", None))
    assert (db.job(claim.id).log_tail, db.job(claim.id).log_end) == ("lines", 2**40)
    db.report(worker, Report(claim.id, 9, None, None, "stale", 1))
    assert db.job(claim.id).log_end == 2**40
    db.report(worker, Report(claim.id, 1, None, None, "more", 2**40 + 4))
    assert (db.job(claim.id).log_tail, db.job(claim.id).log_end) == ("more", 2**40 + 4)


@pytest.mark.parametrize("how", ["claim", "limited", "failed", "next"])
def test_the_next_execution_has_a_log_of_its_own(db, how):
    worker = db.worker()
    options = {"limited": {"concurrency": 1}, "failed": {"delivery": "at_most_once"}}.get(how, {})
    claim = db.begin(worker) if how == "next" else db.start(worker, **options)
    db.report(worker, Report(claim.id, 1, None, None, "lines", 5))
    if how == "next":
        db.go_on(claim, worker=worker)
        after = db.job(claim.id)
    elif how == "failed":
        db.settle(claim, "failed", worker, charge=1)
        (after,) = db.find(retry_of=claim.id)
        assert (db.job(claim.id).log_tail, db.job(claim.id).log_end) == ("lines", 5)
    else:
        db.settle(claim, "queued", worker)
        assert db.job(claim.id).log_end == 5
        after = db.job(db.take(worker).id)
        assert after.id == claim.id
    assert (after.log_tail, after.log_end) == (None, None)


def test_an_attempt_has_the_process_that_ran_it(db):
    claim = db.start()
    db.settle(claim, "scheduled", pid=4_711, exit_code=3, stdout_tail="out", stderr_tail="err", delay_ms=1)
    db.advance("1s")
    db.promote()
    db.settle(db.take(), "succeeded")
    first, second = db.attempts(claim.id)
    assert (first.pid, first.exit_code, first.stdout_tail, first.stderr_tail) == (4_711, 3, "out", "err")
    assert second.pid is None
