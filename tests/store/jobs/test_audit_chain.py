"""The audit's chain: what is sealed cannot be changed unnoticed, and pruning and erasing do not break it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.app.audit_chain import AuditChainVerbs
from headway.clock import to_micros
from headway.errors import InvalidJob
from tests.tenant_ids import tenant_id

HOUR_MS = 3_600_000


def noted(db, *details):
    for each in details:
        db.pause(each, actor="ann")


def seal(db, limit=500):
    return db.run(db.ops.seal_audit(limit=limit))


def prune(db, limit=500):
    return db.run(db.ops.prune_audit(older_than_ms=HOUR_MS, limit=limit))


class Verbs(AuditChainVerbs):
    """Those of an app for all tenants."""

    def __init__(self, store):
        self._store = store
        self._visible_tenant = None


def verify(db, **options):
    return Verbs(db.store).verify_audit(**options)


def stored(db, at):
    return at if db.dialect == "postgres" else to_micros(at)


def three_seals(db):
    """Entries 1 to 6 under three seals, an hour and a minute apart, and one without."""
    for queues in (("a", "b"), ("c", "d", "e"), ("f",)):
        noted(db, *queues)
        assert seal(db) == len(queues)
        db.advance("61m")
    noted(db, "last")


def test_an_entry_is_sealed_once_and_the_chain_is_whole(db):
    assert verify(db) == verify(db, newest=3)
    assert (verify(db).is_whole, verify(db).newest) == (True, None)
    three_seals(db)
    assert [(each.seal, each.hash is not None) for each in reversed(db.audit_log())] == [
        (1, True), (1, True), (2, True), (2, True), (2, True), (3, True), (None, False),
    ]  # fmt: skip
    check = verify(db)
    assert (check.faults, check.entries, check.seals, check.unsealed, check.since) == ((), 6, 3, 1, None)
    assert check.oldest_unsealed_at == db.audit_log()[0].at
    assert (seal(db), seal(db)) == (1, 0)
    assert (verify(db).entries, verify(db).unsealed, verify(db, newest=2).entries) == (7, 0, 2)
    assert verify(db, seal=check.newest).is_whole


def test_every_field_of_an_entry_is_sealed(db):
    """Also those that are null, and none can take from its neighbor."""
    uuid = "01900000-0000-7000-8000-000000000000"
    values = {
        "tenant_id": uuid,
        "job_id": uuid[:-1] + "1",
        "actor": "ann",
        "actor_name": "Ann 船",
        "detail": "détail 🚂",
        "changes": "[1, 2]",
        "request_id": "r1",
        "address": "127.0.0.1",
    }
    names = ", ".join(values)
    literals = ", ".join(f"'{value}'" for value in values.values())
    db.sql(f"insert into {{audit}} (at, action, {names}) values (?, 'change', {literals})", stored(db, db.now()))
    db.sql("insert into {audit} (at, action) values (?, 'x')", stored(db, db.now()))
    assert seal(db) == 2
    assert verify(db).is_whole
    for name, value in values.items():
        for other in ("null", f"'{uuid}'" if name == "job_id" else f"'{value[:-1]}2'"):
            db.sql(f"update {{audit}} set {name} = {other} where action = 'change'")
            assert not verify(db).is_whole, (name, other)
        db.sql(f"update {{audit}} set {name} = '{value}' where action = 'change'")
        assert verify(db).is_whole
    later = stored(db, db.now() + timedelta(microseconds=1))
    db.sql("update {audit} set at = ? where action = 'x'", later)
    assert not verify(db).is_whole
    db.sql("update {audit} set at = ? where action = 'x'", stored(db, db.now()))
    assert verify(db).is_whole
    db.sql("update {audit} set action = 'y' where action = 'x'")
    assert not verify(db).is_whole


FORGERIES = {
    "an entry is changed": ("update {audit} set detail = 'x' where detail = 'c'", "entry 3 (of seal 2) is not what"),
    "with its hash": ("update {audit} set hash = (select hash from {audit} where id = 1) where id = 2", "entry 2"),
    "an entry is deleted": ("delete from {audit} where id = 3", "seal 2 covers 3 entries, and 2 are there"),
    "an entry is deleted at the start": ("delete from {audit} where id = 1", "seal 1 covers 2 entries"),
    "an entry moves to another seal": ("update {audit} set seal = 1 where id = 3", "seal that does not cover them: 1"),
    "an entry loses its seal": ("update {audit} set seal = null where id = 3", "seal 2 covers 3 entries, and 2"),
    "an entry names no seal": ("update {audit} set seal = 99 where id = 7", "does not cover them: 1"),
    "a seal is deleted": ("delete from {audit_seals} where n = 2", "the seals between 1 and 3 are missing"),
    "the first seal is deleted": ("delete from {audit_seals} where n = 1", "the seals between 0 and 2 are missing"),
    "a seal is changed": (
        "update {audit_seals} set hash = (select hash from {audit} where id = 1) where n = 2",
        "seal 2",
    ),
    "words are said to be erased": (
        "update {audit} set erased_at = at, actor = null, detail = null where id = 3",
        "entries are erased, and no entry audit.erased names them: 1",
    ),
    "an erased entry says something": (
        "update {audit} set erased_at = at, detail = 'x' where id = 3",
        "entry 3 (of seal 2)",
    ),
    "numbers change": ("update {audit} set id = 33 where id = 3", "seal 2 covers 3 entries, and 2 are there"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(db, name):
    statement, fault = FORGERIES[name]
    three_seals(db)
    if db.dialect == "postgres":
        db.sql("alter table {audit} alter column id drop identity if exists")
    db.sql(statement)
    check = verify(db)
    assert not check.is_whole
    assert fault in "\n".join(check.faults), check.faults


def test_a_chain_that_was_made_anew_is_not_the_one_that_was_kept(db):
    three_seals(db)
    kept = verify(db).newest
    db.sql("delete from {audit_seals}")
    db.sql("update {audit} set seal = null, hash = null, detail = 'x'")
    assert seal(db, 3) == 3
    assert verify(db).is_whole
    assert verify(db, seal=kept).faults == ("seal 3 is missing: the chain was cut, or made anew",)
    assert (seal(db, 2), seal(db, 2)) == (2, 2)
    assert verify(db, seal=kept).faults == ("seal 3 is not the one that you kept: the chain was made anew",)
    for wrong in ("", "3", "3:", "x:" + "0" * 64, "3:abc"):
        with pytest.raises(InvalidJob, match="is no seal"):
            verify(db, seal=wrong)


def test_pruning_leaves_an_anchor(db):
    three_seals(db)  # 183, 122 and 61 minutes ago
    before = verify(db)
    assert prune(db, 1) == 2
    check = verify(db, seal=before.newest)
    assert (check.faults, check.entries, check.seals) == ((), 4, 3)
    assert check.since is not None
    assert (prune(db), prune(db)) == (4, 0)
    check = verify(db, seal=before.newest)
    assert (check.faults, check.entries, check.seals, check.unsealed) == ((), 0, 1, 1)
    assert check.newest == before.newest
    db.advance("2h")
    assert prune(db) == 0  # it has no seal
    assert (seal(db), verify(db).is_whole) == (1, True)
    assert (prune(db), verify(db).is_whole, db.audit_log()) == (1, True, [])
    noted(db, "new")
    assert (seal(db), verify(db).seals, verify(db).is_whole) == (1, 2, True)


def test_erasing_leaves_the_hash_of_an_entry(db):
    three_seals(db)
    kept = verify(db).newest
    ids = [each.id for each in reversed(db.audit_log())]
    assert db.run(db.ops.erase_audit([ids[1], ids[2], ids[-1], 99], actor="bob")) == 2  # the last has no seal
    assert db.run(db.ops.erase_audit([ids[1]], actor="bob")) == 0
    found = {each.id: each for each in db.audit_log()}
    assert [(found[n].actor, found[n].detail, found[n].action) for n in ids[:3]] == [
        ("ann", "a", "pause"), (None, None, "pause"), (None, None, "pause"),
    ]  # fmt: skip
    assert found[ids[1]].erased_at == db.now()
    assert (db.audit_log()[0].actor, db.audit_log()[0].action, db.audit_log()[0].detail) == (
        "bob", "audit.erased", f"{ids[1]}, {ids[2]}",
    )  # fmt: skip
    check = verify(db, seal=kept)
    assert (check.faults, check.entries, check.erased) == ((), 6, 2)
    assert seal(db) == 2
    assert verify(db, seal=kept).is_whole
    # who erased can be erased, too, and what they erased is still known
    ((number, detail),) = [(each.id, each.detail) for each in db.audit_log() if each.action == "audit.erased"]
    assert db.run(db.ops.erase_audit([number], actor="eve")) == 1
    assert [(each.actor, each.detail) for each in db.audit_log() if each.id == number] == [(None, detail)]
    assert verify(db, seal=kept).is_whole
    for name in ("actor", "actor_name", "detail", "changes", "request_id", "address"):
        db.sql(f"update {{audit}} set {name} = 'zed' where id = {ids[1]}")
        assert verify(db).faults == (f"entry {ids[1]} (of seal 1) is not what was sealed",), name
        db.sql(f"update {{audit}} set {name} = null where id = {ids[1]}")
    assert verify(db, seal=kept).is_whole


def test_a_seal_is_bounded_by_count_and_by_bytes(db):
    noted(db, *(f"q{n}" for n in range(7)))
    assert [seal(db, 3) for _ in range(4)] == [3, 3, 1, 0]
    for _ in range(4):
        db.sql("insert into {audit} (at, action, detail) values (?, 'x', ?)", stored(db, db.now()), "x" * 600_000)
    assert [seal(db) for _ in range(5)] == [1, 1, 1, 1, 0]
    assert verify(db).is_whole


def test_a_deleted_tenants_audit_stays(db):
    job = db.enqueue(tenant="acme")
    acme = tenant_id("acme")
    db.cancel(job.id, actor="bob")
    seal(db)
    while not db.run(db.ops.delete_tenant(acme, limit=100, actor="ada")):
        pass
    assert [(each.actor, each.action) for each in db.audit_log(tenant_id=acme)] == [
        ("ada", "tenant.deleted"), ("ada", "tenant.suspended"), ("bob", "cancel"),
    ]  # fmt: skip
    assert verify(db).is_whole


class Between(Verbs):
    """Something happens before each of its reads."""

    def __init__(self, store, happens):
        super().__init__(store)
        self._happens = happens

    def _run(self, op, conn=None):
        self._happens()
        return super()._run(op, conn)


@pytest.mark.parametrize("skipped", range(9))
def test_a_check_while_others_seal_prune_and_erase_finds_no_fault(db, skipped):
    three_seals(db)
    calls = iter(range(100))

    def happens():
        at = next(calls) - skipped
        if at >= 0:
            noted(db, f"new-{at}")
            seal(db)
            db.run(db.ops.erase_audit([each.id for each in db.audit_log()][at : at + 1], actor=None))
            if at % 2 == 0:
                prune(db, 1)

    assert Between(db.store, happens).verify_audit().faults == ()
    assert verify(db).is_whole


def test_a_late_commit_gets_a_later_seal_and_nobody_waits(postgres_store, make_db, clock):
    """An entry has its number before it is committed, so a lower one may appear after a higher one was sealed."""
    db = make_db(postgres_store, clock)
    noted(db, "first")
    with connection(db) as late, connection(db) as sealer, connection(db) as other:
        late.execute("select headway.pause('late', 'ann')")
        noted(db, "second")
        assert sealer.execute("select headway.seal_audit(500)").fetchone() == (2,)
        # while the seal is not committed: nobody else seals or prunes, everybody writes
        assert other.execute("select headway.seal_audit(500)").fetchone() == (0,)
        assert other.execute("select headway.prune_audit(0, 500)").fetchone() == (0,)
        other.commit()
        noted(db, "third")
        assert verify(db).unsealed == 3
        sealer.commit()
        late.commit()
    assert [(each.detail, each.seal) for each in reversed(db.audit_log())] == [
        ("first", 1), ("late", None), ("second", 1), ("third", None),
    ]  # fmt: skip
    assert seal(db) == 2
    assert (verify(db).faults, verify(db).entries, verify(db).seals) == ((), 4, 2)
    everything = {"older_than_ms": -HOUR_MS, "limit": 1}
    assert [db.run(db.ops.prune_audit(**everything)) for _ in range(3)] == [2, 2, 0]
    assert verify(db).faults == ()


def connection(db):
    import psycopg

    return psycopg.connect(db.store.url)
