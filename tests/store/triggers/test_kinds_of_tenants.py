"""Kinds that are for some tenants: for every other tenant it is as if there were no such kind."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from headway.errors import UnknownKind
from headway.model.definition import NewDefinition
from headway.model.ids import DEFAULT_TENANT_ID
from tests.store.triggers.trigger_calls import firing, handling, job_of, new_fire
from tests.tenant_ids import tenant_id


@contextmanager
def unknown(kind="mail"):
    with pytest.raises(UnknownKind) as error:
        yield
    assert str(error.value) == (
        f'kind "{kind}" has no definition: nothing was enqueued; start a worker that has it, which declares it'
    )


def keep(db, *tenants, kind="mail"):
    db.change_definition(kind, tenants=tenants or ("acme",))


FORMS = [
    *({}, {"train": "t"}, {"unique_key": "u"}, {"delay_ms": 1_000}, {"partition": "p"}, {"concurrency": 1}),
    *({"on_conflict": "raise"}, {"unique_key": "u", "unique_for_ms": 1_000}, {"tags": ("a",)}),
]


@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize("tenant", ["default", "globex"])
def test_another_tenants_job_is_refused_in_every_form(db, tenant, options):
    keep(db)
    with unknown():
        db.enqueue(tenant=tenant, **options)
    assert db.find() == []
    assert db.enqueue(tenant="acme", **options).created
    db.change_definition("mail", tenants=None)
    assert db.enqueue(tenant=tenant, **options).created


def test_tenants_are_named_or_given_by_id_and_the_code_says_who(db):
    db.declare(NewDefinition(kind="mail", tenants=("acme", tenant_id("globex"))))
    db.enqueue(tenant="acme")
    db.enqueue(tenant="globex")
    with unknown():
        db.enqueue(tenant="initech")
    with unknown():
        db.enqueue()
    db.enqueue(kind="other")
    stored = db.definition("mail")
    assert stored.tenants == ("acme", tenant_id("globex"))
    assert sorted(stored.tenant_ids) == sorted([tenant_id("acme"), tenant_id("globex")])
    assert stored.is_for(tenant_id("acme"))
    assert not stored.is_for(DEFAULT_TENANT_ID)


def test_the_default_tenant_is_one_of_them(db):
    keep(db, "default")
    assert db.enqueue().created
    with unknown():
        db.enqueue(tenant="acme")


def test_a_batch_with_one_is_refused_as_a_whole(db, make):
    keep(db, kind="bad")
    with unknown("bad"):
        db.enqueue_all([make.job(), make.job(kind="bad", tenant="acme"), make.job(kind="bad", tenant="globex")])
    assert db.find() == []
    group = make.group()
    with unknown("bad"):
        db.enqueue_all([make.job(group_id=group.id), make.job(kind="bad", group_id=group.id)], group)
    assert db.group(group.id) is None


def test_it_is_unknown_also_where_it_is_inactive(db):
    keep(db)
    db.change_definition("mail", active=False)
    with unknown():
        db.enqueue()


def test_a_renamed_tenant_is_no_longer_named(db):
    keep(db)
    db.enqueue(tenant="acme")
    db.store.run(db.ops.rename_tenant(tenant_id("acme"), "acme-2", actor=None))
    with unknown():
        db.enqueue(tenant="acme")


def test_what_is_stored_already_runs_and_goes_on(db, make):
    claim = db.begin()
    keep(db)
    keep(db, kind="checkout")
    child = make.job(queue="kids")
    db.spawn(claim, child)
    assert db.status(child.id) == "queued"
    assert db.fork(make.machine(forked_from=claim.id)).created


def test_no_fire_makes_one(db):
    good, bad = db.schedule(kind="good"), db.schedule(kind="bad")
    keep(db, kind="bad")
    with unknown("bad"):
        db.fire(*(firing(each, db.now(), next_fire_at=db.after(60_000)) for each in (good, bad)))
    with unknown("bad"):
        db.run_trigger(new_fire(bad))
    trigger = db.listener("paid")
    event = db.emit("paid")
    keep(db)
    with unknown():
        db.handle(handling(event, new_fire(trigger, job=job_of(trigger))))
    assert (db.find(), db.fires(), db.event(event).status) == ([], [], "pending")
