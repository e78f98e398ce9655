"""Tenants: created, renamed, suspended, resumed, deleted with everything that they own."""

from __future__ import annotations

from typing import Any

import pytest

from headway.errors import Duplicate, InvalidJob, NotAllowed, NotFound, TenantSuspended
from headway.model.access import NewApiKey
from headway.model.actor import Caller
from headway.model.artifact import NewArtifact
from headway.model.ids import new_id
from headway.model.job_list import NewJobList
from headway.model.journal import Entry
from headway.model.key_text import new_key
from headway.model.request import Request
from tests.store.db import new_group, new_job
from tests.store.machines.machine_calls import new_machine
from tests.store.triggers.trigger_calls import new_connector, new_template
from tests.tenant_ids import tenant_id

ACME, OTHER = tenant_id("acme"), tenant_id("other")


def of(name: str, /, **options: Any) -> dict[str, Any]:
    return {"tenant": name, "tenant_id": tenant_id(name), **options}


def audited(db: Any) -> list[tuple[str, str | None, str | None]]:
    log = db.run(db.ops.audit_log(tenant_id=None, actor=None, action=None, limit=100, before=None))
    return [(each.action, each.detail, each.actor) for each in reversed(log)]


def test_a_tenant_is_created_listed_and_renamed_and_no_name_is_used_again(db):
    for tenant, slug in ((ACME, "acme"), (OTHER, "other")):
        for _ in range(2):  # a repeat changes nothing
            db.run(db.ops.create_tenant(tenant, slug, actor="ada"))
    db.run(db.ops.rename_tenant(ACME, "zebra", actor="eve"))
    db.run(db.ops.rename_tenant(ACME, "zebra", actor="eve"))
    found = db.run(db.ops.list_tenants(limit=10))
    assert [(each.slug, each.suspended_at) for each in found] == [("default", None), ("other", None), ("zebra", None)]
    assert found[2].id == ACME
    assert found[1].created_at == db.now()
    assert [each.slug for each in db.run(db.ops.list_tenants(limit=1, after="default"))] == ["other"]
    assert db.run(db.ops.list_tenants(limit=1, only=OTHER)) == [found[1]]
    for zone in ("Europe/Berlin", "Europe/Berlin", "Asia/Tokyo"):
        db.run(db.ops.set_tenant_zone(ACME, zone, actor="eve"))
    db.run(db.ops.set_tenant_zone(OTHER, None, actor="eve"))
    assert [each.tz for each in db.run(db.ops.list_tenants(limit=10))] == [None, None, "Asia/Tokyo"]
    db.run(db.ops.set_tenant_zone(ACME, None, actor="eve"))
    assert db.run(db.ops.list_tenants(limit=1, only=ACME))[0].tz is None
    with pytest.raises(NotFound):
        db.run(db.ops.set_tenant_zone(new_id(), "UTC", actor=None))
    for refused in (
        db.ops.create_tenant(new_id(), "acme", actor=None),  # a former name
        db.ops.create_tenant(new_id(), "zebra", actor=None),
        db.ops.rename_tenant(OTHER, "acme", actor=None),
        db.ops.rename_tenant(OTHER, "zebra", actor=None),
    ):
        with pytest.raises(Duplicate, match=r'tenant name "(acme|zebra)" (is another|belonged to)'):
            db.run(refused)
    assert audited(db) == [
        ("tenant.created", "acme", "ada"),
        ("tenant.created", "other", "ada"),
        ("tenant.renamed", "acme to zebra", "eve"),
        ("tenant.changed", "zebra: tz Europe/Berlin", "eve"),
        ("tenant.changed", "zebra: tz Asia/Tokyo", "eve"),
        ("tenant.changed", "zebra: tz none", "eve"),
    ]


def test_nothing_of_a_suspended_tenant_starts_and_nothing_is_written_for_it(db):
    db.enqueue(**of("acme", id="01900000-0000-7000-8000-00000000000a"))
    db.enqueue(**of("other"))
    running = db.take()
    db.limit("tenant", ACME, max_running=2, max_pending=50)
    db.schedule(**of("acme", name="nightly", every_ms=1_000))
    db.enqueue(**of("acme"))
    db.run(db.ops.suspend_tenant(ACME, actor="ada"))
    db.run(db.ops.suspend_tenant(ACME, actor="ada"))
    (acme,) = db.run(db.ops.list_tenants(limit=1, only=ACME))
    assert (acme.suspended_at, acme.suspended_by) == (db.now(), "ada")
    assert running.tenant_id == ACME
    assert [claim.tenant_id for claim in db.claim()] == [OTHER]
    assert db.claim() == []
    assert db.run(db.ops.claim(db.home(), "default", 100, tenant_id=ACME)) == []
    db.advance("1m")
    assert db.due().schedules == ()
    for refused in (
        lambda: db.enqueue(**of("acme")),
        lambda: db.enqueue_all([new_job(**of("other")), new_job(**of("acme"))]),
        lambda: db.emit("paid", **of("acme")),
        lambda: db.schedule(**of("acme", name="hourly", every_ms=3_600_000)),
        lambda: db.limit("tenant", ACME, max_running=9),
        lambda: db.run(db.ops.refuse_suspended(ACME)),
    ):
        with pytest.raises(TenantSuspended, match=r"^tenant acme is suspended: nothing was written"):
            refused()
    db.run(db.ops.refuse_suspended(OTHER))
    db.finish(running)  # what runs goes on
    db.run(db.ops.resume_tenant(ACME, actor="eve"))
    db.run(db.ops.resume_tenant(ACME, actor="eve"))
    assert [(each.max_running, each.max_pending) for each in db.run(db.ops.limits())] == [(2, 50)]
    assert [schedule.trigger.name for schedule in db.due().schedules] == ["nightly"]
    db.enqueue(**of("acme"))
    assert [claim.tenant_id for claim in db.claim()] == [ACME, ACME]
    assert [entry for entry in audited(db) if entry[0].startswith("tenant")] == [
        ("tenant.suspended", "acme", "ada"),
        ("tenant.resumed", "acme", "eve"),
    ]


def test_a_tenant_without_limits_has_none_after_it_was_suspended(db):
    db.enqueue(**of("acme"))
    db.run(db.ops.suspend_tenant(ACME, actor=None))
    assert db.claim() == []
    db.run(db.ops.resume_tenant(ACME, actor=None))
    assert db.run(db.ops.limits()) == []
    assert len(db.claim()) == 1


def test_children_of_a_running_machine_are_stored_and_wait(db):
    machine = db.begin(**of("acme"))
    db.run(db.ops.suspend_tenant(ACME, actor=None))
    db.spawn(machine, new_machine(**of("acme"), parent_id=machine.id), step="second")
    assert db.claim() == []
    db.run(db.ops.resume_tenant(ACME, actor=None))
    assert len(db.claim()) == 1


def fill(db: Any, name: str) -> None:
    """One row or more of each table, of this tenant."""
    db.run(db.ops.create_tenant(tenant_id(name), name, actor="ada"))
    group = new_group(tenant_id=tenant_id(name))
    first, second = db.enqueue_all(
        [
            new_job(**of(name, queue=name, group_id=group.id, tags=("a",))),
            new_job(**of(name, queue=name, group_id=group.id)),
        ],
        group,
    )
    db.enqueue(**of(name, after=(first.id, second.id)))
    job = new_job(**of(name, train="t", queue="slow", unique_key="u", unique_for_ms=60_000))
    request = Request(tenant_id=tenant_id(name), key_id="k", route="POST /jobs", key="1", body_hash=bytes(32))
    db.run(db.ops.once(request, db.ops.enqueue([job])))
    db.hold_train("t", tenant_id=tenant_id(name))
    claim = db.take(queue=name)
    artifact_id = new_id()
    db.run(
        db.ops.keep_artifact(
            NewArtifact(
                id=artifact_id,
                tenant_id=claim.tenant_id,
                job_id=claim.id,
                fence=claim.fence,
                name="report.csv",
                content_type="text/csv",
                store="folder:1",
                path=f"{name}/{artifact_id}",
            ),
            size=7,
            sha256="ab",
        )
    )
    db.run(db.ops.record(None, [Entry(job_id=claim.id, fence=claim.fence, seq=1, kind="done", place="step")]))
    db.finish(claim)
    db.signal(second.id, "go")
    db.emit("paid", **of(name))
    db.run(db.ops.create_connector(new_connector(**of(name, name="shop")), actor="ada"))
    db.run(db.ops.create_template(new_template(**of(name, name="mail")), actor="ada"))
    db.fire_now(db.schedule(**of(name, name="nightly", every_ms=1_000)))
    made = new_key()
    key = NewApiKey(id=made.id, secret_hash=made.secret_hash, name=name, role="admin", tenant_id=tenant_id(name))
    db.run(db.ops.create_key(key, actor="ada"))
    db.limit("tenant", tenant_id(name), max_running=100)
    listed = NewJobList(token=new_id(), tenant_id=tenant_id(name), key_id=key.id, action="{}", ids=(first.id,))
    db.run(db.ops.keep_list(listed))
    until = db.after(60_000)
    db.run(db.ops.create_session(new_key().secret_hash, key.id, expires_at=until, valid_until=until))


def tables(db: Any) -> list[str]:
    """Every table that has rows of tenants."""
    if db.dialect == "sqlite":
        named = "select m.name from sqlite_master m, pragma_table_info(m.name) c where c.name = 'tenant_id'"
    else:
        named = (
            "select c.table_name from information_schema.columns c"
            " join information_schema.tables t using (table_schema, table_name)"
            " where c.table_schema = 'headway' and c.column_name = 'tenant_id' and t.table_type = 'BASE TABLE'"
        )
    return sorted({name for (name,) in db.sql(named)} - {"retired_slugs", "sweeps"})


def test_a_tenant_is_deleted_with_everything_in_batches_and_others_keep_theirs(db):
    for name in ("acme", "other"):
        fill(db, name)
        db.settle(db.start(**of(name, queue="bad")), "dead", charge=1, error="boom")
    db.run(db.ops.fold_stats(limit=100))
    db.run(db.ops.fold_errors(limit=100))
    for name in ("acme", "other"):
        db.settle(db.start(**of(name, queue="counted")), "dead", charge=1, error="boom")
    counts = {name: {each: rows(db, each, tenant_id(name)) for each in tables(db)} for name in ("acme", "other")}
    empty = {each for each, count in counts["acme"].items() if not count}
    assert empty <= {"arrivals", "tenant_roles"}, "give this tenant a row of each table"
    counted = db.run(db.ops.tenant_rows(ACME))
    assert {each: counted[each] for each in ("jobs", "triggers", "events")} == {
        each: counts["acme"][each] for each in ("jobs", "triggers", "events")
    }
    assert (counted["attempts"], counted["flow_journal"], counted["keys"]) == (3, 1, 1)
    running = db.take(queue="acme")
    with pytest.raises(NotAllowed, match=r"^tenant acme has 1 running jobs: nothing was deleted"):
        db.run(db.ops.delete_tenant(ACME, limit=1, actor="ada"))
    assert db.run(db.ops.list_tenants(limit=1, only=ACME))[0].suspended_at is None
    db.finish(running)
    before = {each: rows(db, each, OTHER) for each in tables(db)}
    calls = 1
    while not db.run(db.ops.delete_tenant(ACME, limit=1, actor="ada")):
        calls += 1
    assert calls > 4
    kept = {"audit": counts["acme"]["audit"] + 2}  # suspended, deleted
    assert {each: rows(db, each, ACME) for each in tables(db)} == dict.fromkeys(tables(db), 0) | kept
    assert {each: rows(db, each, OTHER) for each in tables(db)} == before
    assert [limit.name for limit in db.run(db.ops.limits())] == [OTHER]
    assert db.sql(f"select count(*) from {db.table('sessions')}") == [(1,)]
    assert audited(db)[-1] == ("tenant.deleted", f"acme ({ACME})", "ada")
    with pytest.raises(NotFound):
        db.run(db.ops.delete_tenant(ACME, limit=1, actor="ada"))
    for again in (of("acme"), {"tenant": ACME, "tenant_id": ACME}, of("acme", tenant_id=new_id())):
        with pytest.raises(InvalidJob, match="never used again"):
            db.enqueue(**again)


def rows(db: Any, table: str, tenant: str) -> int:
    ((count,),) = db.sql(f"select count(*) from {db.table(table)} where tenant_id = ?", tenant)
    return int(count)


def test_a_tenant_without_a_name_is_not_brought_back_by_its_id(db):
    nameless = new_id()
    db.enqueue(tenant=nameless, tenant_id=nameless)
    while not db.run(db.ops.delete_tenant(nameless, limit=100, actor=None)):
        pass
    with pytest.raises(InvalidJob, match=f"tenant {nameless} was deleted"):
        db.enqueue(tenant=nameless, tenant_id=nameless)


def test_the_audit_keeps_the_request_of_a_caller(db):
    job = db.enqueue().id
    caller = Caller.of("key:4fXk02LmQz9a", request_id="r-1", address="10.0.0.7")
    db.run(db.ops.cancel([job], tenant_id=None, reason=None, actor=caller))
    db.run(db.ops.pause("mail", actor=caller))
    db.run(db.ops.resume("mail", actor="ada"))
    log = db.run(db.ops.audit_log(tenant_id=None, actor=None, action=None, limit=10, before=None))
    assert [(each.action, each.actor, each.request_id, each.address) for each in reversed(log)] == [
        ("cancel", "key:4fXk02LmQz9a", "r-1", "10.0.0.7"),
        ("pause", "key:4fXk02LmQz9a", "r-1", "10.0.0.7"),
        ("resume", "ada", None, None),
    ]
