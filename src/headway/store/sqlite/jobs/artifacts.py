"""Artifacts: rows about bytes that are elsewhere. Bytes are noted as trash before they are written, so that none are
ever unknown; keeping them takes them off that list, under the fence of their attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headway.clock import from_micros
from headway.model import refusals
from headway.model.artifact import Artifact, NewArtifact, NewPayload, TrashedBytes, WrittenPayload
from headway.model.spill import CONTENT_TYPE, PAYLOAD_FENCE, PAYLOAD_NAME, reference
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.quotas import check_spilled_bytes

_SQL = statements("jobs/artifacts")
_KEPT_WITHIN = 3_600_000_000  # microseconds: longer than any enqueue takes to write its payloads


class ArtifactVerbs(Verbs):
    def begin_artifact(self, new: NewArtifact) -> Op[None]:
        def steps() -> Steps[None]:
            yield from _check(new)
            row = (new.id, new.job_id, new.fence, new.store, new.path, self._clock.now())
            yield Statement(_SQL["begin"], row)

        return SqliteOp(steps, writes=True)

    def keep_artifact(self, new: NewArtifact, *, size: int, sha256: str) -> Op[Artifact]:
        def steps() -> Steps[Artifact]:
            if kept := (yield Statement(_SQL["kept"], (new.id, new.job_id))):
                return to_artifact(kept[0])
            tenant_id = yield from _check(new)
            yield Statement(_SQL["take_from_trash"], (new.id,))
            whose = (new.id, tenant_id, new.job_id, new.fence)
            what = (new.name, new.content_type, size, sha256, new.store, new.path, self._clock.now())
            return to_artifact((yield Statement(_SQL["keep"], (*whose, *what)))[0])

        return SqliteOp(steps, writes=True)

    def begin_payloads(self, news: Sequence[NewPayload]) -> Op[None]:
        def steps() -> Steps[None]:
            now = self._clock.now()
            rows = [(new.id, new.job_id, PAYLOAD_FENCE, new.store, new.path, now) for new in news]
            yield Batch(_SQL["begin"], rows)

        return SqliteOp(steps, writes=True)

    def keep_payloads(self, written: Sequence[WrittenPayload]) -> Op[None]:
        def steps() -> Steps[None]:
            kept: Counter[str] = Counter()
            for each in written:
                tenant_id = yield from _keep_payload(each, self._clock.now())
                if tenant_id is not None:
                    kept[tenant_id] += each.size
            yield from check_spilled_bytes(kept)

        return SqliteOp(steps, writes=True)

    def payload_artifact(self, job_id: str, *, tenant_id: str | None) -> Op[Artifact | None]:
        def steps() -> Steps[Artifact | None]:
            rows = yield Statement(_SQL["payload"], (job_id, tenant_id))
            return to_artifact(rows[0]) if rows else None

        return SqliteOp(steps, writes=False)

    def artifact(self, artifact_id: str, *, tenant_id: str | None) -> Op[Artifact | None]:
        def steps() -> Steps[Artifact | None]:
            rows = yield Statement(_SQL["one"], (artifact_id, tenant_id))
            return to_artifact(rows[0]) if rows else None

        return SqliteOp(steps, writes=False)

    def artifacts(
        self, *, tenant_id: str | None, job_id: str | None, limit: int, before: str | None
    ) -> Op[list[Artifact]]:
        def steps() -> Steps[list[Artifact]]:
            rows = yield Statement(_SQL["page"], (tenant_id, job_id, before, limit))
            return [to_artifact(row) for row in rows]

        return SqliteOp(steps, writes=False)

    def trash(self, stores: Sequence[str], *, limit: int) -> Op[list[TrashedBytes]]:
        def steps() -> Steps[list[TrashedBytes]]:
            yield Statement(_SQL["give_up_payloads"], (self._clock.now() - _KEPT_WITHIN,))
            rows = yield Statement(_SQL["trash"], (json_list(list(stores)), limit))
            return [TrashedBytes(*row) for row in rows]

        return SqliteOp(steps, writes=True)

    def empty_trash(self, ids: Sequence[str]) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["empty"], (json_list(list(ids)),))

        return SqliteOp(steps, writes=True)


def _check(new: NewArtifact) -> Steps[str]:
    """The tenant of the running attempt; raises `LeaseLost`, `NotAllowed`."""
    rows = yield Statement(_SQL["runs"], (new.job_id, new.fence))
    if not rows:
        raise refusals.claim_lost(new.job_id, new.fence)
    ((taken,),) = yield Statement(_SQL["name_taken"], (new.job_id, new.fence, new.name, new.id))
    if taken:
        raise refusals.artifact_name_taken(new.name, new.job_id, new.fence)
    tenant_id: str = rows[0][0]
    return tenant_id


def _keep_payload(written: WrittenPayload, now: int) -> Steps[str | None]:
    """The tenant that owns the payload from now on; None if it did already, or if no job refers to it."""
    if (yield Statement(_SQL["kept"], (written.id, written.job_id))):
        return None  # repeated
    owner = yield Statement(_SQL["refers"], (written.job_id, reference(written.id)))
    if not owner:
        yield Statement(_SQL["give_up"], (written.id,))
        return None
    bytes_at = yield Statement(_SQL["take_payload"], (written.id,))
    if not bytes_at:
        raise refusals.payload_swept(written.job_id)
    gone = yield Statement(_SQL["delete_payload"], (written.job_id,))
    if gone:
        yield Batch(_SQL["throw_away"], [(*row, now) for row in gone])
    tenant_id: str = owner[0][0]
    whose = (written.id, tenant_id, written.job_id, PAYLOAD_FENCE)
    what = (PAYLOAD_NAME, CONTENT_TYPE, written.size, written.sha256, *bytes_at[0], now)
    yield Statement(_SQL["keep"], (*whose, *what))
    return tenant_id


def copy_payloads(heirs: Mapping[str, str], now: int) -> Steps[None]:
    """Share spilled payloads with the new jobs that retry these: both refer to the same bytes, which become trash once
    neither does."""
    rows = yield Statement(_SQL["copy_payloads"], (json_list(list(heirs.items())), now))
    if rows:
        yield Batch(_SQL["refer"], [(job_id, reference(job_id)) for (job_id,) in rows])


def artifacts_of(job_id: str, tenant_id: str | None) -> Steps[list[Artifact]]:
    """The artifacts of a job, in the order of its attempts."""
    return [to_artifact(row) for row in (yield Statement(_SQL["of_a_job"], (job_id, tenant_id)))]


def delete_artifacts(job_ids: Sequence[str], now: int) -> Steps[None]:
    """Delete the artifacts of jobs that are being deleted; their bytes become trash."""
    gone = yield Statement(_SQL["delete"], (json_list(job_ids),))
    if gone:
        yield Batch(_SQL["throw_away"], [(*row, now) for row in gone])


def to_artifact(row: Row) -> Artifact:
    *values, created_at = row
    fields = dict(zip(Artifact.__struct_fields__, values, strict=False))
    return Artifact(**fields, created_at=from_micros(created_at))
