"""Journals go with their jobs, are never changed, and are seen by their tenant only."""

from __future__ import annotations

import psycopg
import pytest

from tests.store.flows.flow_calls import begin, end, entry, record, rows
from tests.tenant_ids import tenant_id


def count(db):
    ((found,),) = db.sql("select count(*) from {flow_journal}")
    return found


def test_prune_deletes_the_journal_of_what_it_prunes(db):
    for n in range(3):
        claim = begin(db)
        record(db, entry(claim, 1), entry(claim, 2))
        if n:
            end(db, claim)
    db.advance("30d")
    assert db.prune("succeeded", older_than_ms=1) == 2
    assert count(db) == 2


def test_delete_deletes_the_journal(db):
    claim = begin(db)
    record(db, entry(claim, 1))
    end(db, claim)
    assert db.delete(claim.id) == {claim.id: "deleted"}
    assert count(db) == 0


def test_the_deletion_of_a_tenant_deletes_its_journals(db):
    for name in ("acme", "other"):
        claim = begin(db, tenant=name)
        record(db, entry(claim, 1))
        end(db, claim)
    while not db.run(db.ops.delete_tenant(tenant_id("acme"), limit=10, actor=None)):
        pass
    assert (count(db), len(rows(db, claim.id))) == (1, 1)


def test_a_row_is_never_changed(db):
    claim = begin(db)
    record(db, entry(claim, 1))
    with pytest.raises(Exception, match="never changed"):
        db.sql("update {flow_journal} set place = 'other'")
    assert rows(db, claim.id)[0].place == "step1"


def test_only_its_tenant_sees_a_row_on_postgres(postgres_store, clock, make_db):
    db = make_db(postgres_store, clock)
    claim = begin(db, tenant="acme")
    record(db, entry(claim, 1))
    with psycopg.connect(postgres_store.url) as conn:
        conn.execute("create role journal_reader")
        conn.execute("grant usage on schema headway to journal_reader")
        conn.execute("grant select on headway.flow_journal to journal_reader")
        conn.execute("grant execute on all functions in schema headway to journal_reader")
        conn.execute("set role journal_reader")
        for name, seen in (("acme", 1), ("other", 0)):
            conn.execute("select set_config('headway.tenant_id', %s, true)", [tenant_id(name)])
            assert len(conn.execute("select * from headway.flow_journal").fetchall()) == seen
            found = conn.execute(
                "select * from headway.journal(array[%s]::uuid[], array[-1], null, 1000)", [claim.id]
            ).fetchall()
            assert len(found) == seen
        conn.rollback()
