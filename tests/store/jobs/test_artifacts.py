"""The contract of artifacts' rows: kept under the fence, gone with their job, and no byte is ever unknown."""

from __future__ import annotations

from typing import Any

import pytest

from headway.errors import LeaseLost, NotAllowed
from headway.model.artifact import NewArtifact, NewPayload, TrashedBytes, WrittenPayload, path_of
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import Claim
from headway.model.spill import reference

HERE, THERE = "folder:1", "s3://bucket/prefix"
HASH = "ab" * 32


def new(claim: Claim, name: str = "report.csv", store: str = f"{HERE}@host:/var/artifacts") -> NewArtifact:
    artifact_id = new_id()
    return NewArtifact(
        id=artifact_id,
        tenant_id=claim.tenant_id,
        job_id=claim.id,
        fence=claim.fence,
        name=name,
        content_type="text/csv",
        store=store,
        path=path_of(claim.tenant_id, claim.id, artifact_id),
    )


def keep(db: Any, claim: Claim, name: str = "report.csv", **options: Any) -> Any:
    made = new(claim, name, **options)
    db.run(db.ops.begin_artifact(made))
    return db.run(db.ops.keep_artifact(made, size=42, sha256=HASH))


def trash(db: Any, *stores: str) -> list[TrashedBytes]:
    found: list[TrashedBytes] = db.run(db.ops.trash(stores or (HERE, THERE), limit=100))
    return found


def listed(db: Any, tenant_id: str | None = None, **options: Any) -> list[str]:
    where = {"job_id": None, "limit": 100, "before": None} | options
    return [each.name for each in db.run(db.ops.artifacts(tenant_id=tenant_id, **where))]


def test_an_artifact_is_kept_once_and_listed_with_its_job_and_attempt(db):
    claim, other = db.start(), db.start()
    made = new(claim)
    at = db.advance("3s")
    db.run(db.ops.begin_artifact(made))
    assert listed(db) == []
    kept = db.run(db.ops.keep_artifact(made, size=2**40, sha256=HASH))
    assert {name: getattr(kept, name) for name in made.__struct_fields__} == {
        name: getattr(made, name) for name in made.__struct_fields__
    }
    assert (kept.size, kept.sha256, kept.created_at) == (2**40, HASH, at)
    db.advance("1s")
    assert db.run(db.ops.keep_artifact(made, size=2**40, sha256=HASH)) == kept  # its answer was lost
    assert db.run(db.ops.artifact(kept.id, tenant_id=DEFAULT_TENANT_ID)) == kept
    assert db.run(db.ops.artifact(kept.id, tenant_id=new_id())) is None
    second = keep(db, claim, "log.txt")
    assert listed(db, job_id=claim.id) == ["log.txt", "report.csv"]
    assert listed(db, job_id=claim.id, before=second.id, limit=1) == ["report.csv"]
    assert (listed(db, job_id=other.id), listed(db, tenant_id=new_id())) == ([], [])
    assert [each.artifacts for each in db.attempts(claim.id)] == [(kept, second)]
    assert trash(db) == []


def test_what_was_never_kept_is_trash_once_its_attempt_has_ended(db):
    claim = db.start()
    begun = new(claim)
    db.run(db.ops.begin_artifact(begun))
    kept = keep(db, claim, "kept.txt")
    assert trash(db) == []
    db.settle(claim, "scheduled", charge=1, delay_ms=0)
    assert trash(db) == [TrashedBytes(begun.id, begun.store, begun.path)]
    db.promote()
    again = db.take()
    assert (again.id, again.fence) == (claim.id, 2)
    late = new(claim, "late.txt")
    for refused in (
        db.ops.begin_artifact(late),
        db.ops.keep_artifact(begun, size=1, sha256=HASH),
        db.ops.keep_artifact(late, size=1, sha256=HASH),
    ):
        with pytest.raises(LeaseLost):
            db.run(refused)
    assert trash(db) == [TrashedBytes(begun.id, begun.store, begun.path)]
    db.run(db.ops.empty_trash([begun.id]))
    assert trash(db) == []
    mine = keep(db, again, "kept.txt")  # each attempt has names of its own
    assert [each.artifacts for each in db.attempts(claim.id)] == [(kept,), (mine,)]
    with pytest.raises(NotAllowed):
        keep(db, again, "kept.txt")


def test_artifacts_go_with_their_job_and_their_bytes_become_trash(db):
    pruned, deleted, stays = db.start(), db.start(), db.start()
    for claim in (pruned, deleted, stays):
        keep(db, claim, "a.txt")
    there = keep(db, pruned, "b.txt", store=THERE)
    db.settle(pruned, "succeeded")
    db.settle(deleted, "dead")
    db.advance("1s")
    assert db.prune("succeeded", older_than_ms=0) == 1
    assert sorted(each.store for each in trash(db)) == [f"{HERE}@host:/var/artifacts", THERE]
    assert trash(db, THERE) == [TrashedBytes(there.id, THERE, there.path)]
    assert trash(db, "folder:11", "s3://bucket") == []
    db.run(db.ops.delete([deleted.id], tenant_id=None, reason=None, actor=None))
    assert (len(trash(db)), listed(db)) == (3, ["a.txt"])
    db.run(db.ops.empty_trash([each.id for each in trash(db)]))
    assert trash(db) == []


def begin(db: Any, *, job_id: str, tenant_id: str = DEFAULT_TENANT_ID) -> NewPayload:
    begun = NewPayload(new_id(), tenant_id, job_id, f"{HERE}@host:/var/artifacts")
    db.run(db.ops.begin_payloads([begun]))
    return begun


def keep_payload(db: Any, begun: NewPayload, job_id: str) -> None:
    db.run(db.ops.keep_payloads([WrittenPayload(begun.id, job_id, 2**40, HASH)]))


def payload_of(db: Any, job_id: str, tenant_id: str | None = None) -> str | None:
    found = db.run(db.ops.payload_artifact(job_id, tenant_id=tenant_id))
    return None if found is None else found.id


def test_a_payload_belongs_to_the_job_that_refers_to_it_and_else_is_trash(db):
    first, second, other = new_id(), new_id(), new_id()
    begun, replaced, unused = (begin(db, job_id=each) for each in (first, second, first))
    db.advance("59m")
    late = begin(db, job_id=other)
    assert trash(db) == []
    db.enqueue(id=first, payload=reference(begun.id))
    keep_payload(db, begun, first)
    keep_payload(db, begun, first)  # its answer was lost
    (kept,) = db.run(db.ops.artifacts(tenant_id=None, job_id=first, limit=9, before=None))
    assert (kept.id, kept.fence, kept.name, kept.size, kept.sha256) == (begun.id, 0, ".payload.json", 2**40, HASH)
    assert (kept.tenant_id, kept.store, kept.path) == (DEFAULT_TENANT_ID, begun.store, begun.path)
    assert payload_of(db, first) == payload_of(db, first, DEFAULT_TENANT_ID) == begun.id
    assert payload_of(db, first, new_id()) is None
    # a reference to another job's payload is none
    db.enqueue(id=second, payload=reference(begun.id))
    keep_payload(db, replaced, second)
    assert payload_of(db, second) is None
    assert trash(db) == [TrashedBytes(replaced.id, replaced.store, replaced.path)]
    db.run(db.ops.empty_trash([replaced.id]))
    # the job gets another payload: of two artifacts it has the one that it refers to
    db.change(first, payload=reference(unused.id))
    assert payload_of(db, first) is None
    keep_payload(db, unused, first)
    assert payload_of(db, first) == unused.id
    assert trash(db) == [TrashedBytes(begun.id, begun.store, begun.path)]
    db.run(db.ops.empty_trash([begun.id]))
    db.advance("61m")
    assert trash(db, THERE) == []
    assert trash(db) == [TrashedBytes(late.id, late.store, late.path)]
    db.enqueue(id=other, payload=reference(late.id))
    with pytest.raises(NotAllowed, match="may be deleted already"):
        keep_payload(db, late, other)


def test_artifacts_of_a_tenant_go_with_it(db):
    claim = db.start(tenant="acme", tenant_id=new_id())
    kept = keep(db, claim)
    assert kept.tenant_id == claim.tenant_id != DEFAULT_TENANT_ID
    assert listed(db, tenant_id=kept.tenant_id) == ["report.csv"]
    db.settle(claim, "succeeded")
    assert db.run(db.ops.tenant_rows(kept.tenant_id))["artifacts"] == 1
    assert db.run(db.ops.delete_tenant(kept.tenant_id, limit=100, actor=None)) is True
    assert (listed(db), [each.id for each in trash(db)]) == ([], [kept.id])
