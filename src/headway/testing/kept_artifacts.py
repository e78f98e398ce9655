"""ctx.artifact in a test that has no worker and no database: the files are kept in memory, for the test to look at."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Iterable, Mapping
from datetime import UTC, datetime

from headway.artifacts import Data, ablocks, blocks
from headway.define import Context
from headway.errors import NotAllowed
from headway.model.artifact import Artifact, checked_name, checked_type, path_of
from headway.model.ids import new_id
from headway.model.job import Claim
from headway.model.refusals import artifact_name_taken
from headway.worker.artifacts import refuse_to_block


class KeptInMemory:
    """What a context made by hand does for `artifact`: checks as a worker does, and keeps the bytes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def store(self, attempt: Claim, name: str, data: Data, content_type: str | None) -> Artifact:
        refuse_to_block()
        return self._kept(attempt, checked_name(name), blocks(data), content_type)

    async def astore(
        self, attempt: Claim, name: str, data: Data | AsyncIterable[bytes | str], content_type: str | None
    ) -> Artifact:
        named = checked_name(name)
        given = [block async for block in ablocks(data)] if isinstance(data, AsyncIterable) else blocks(data)
        return self._kept(attempt, named, given, content_type)

    def _kept(self, attempt: Claim, name: str, data: Iterable[bytes], content_type: str | None) -> Artifact:
        kept_as = checked_type(content_type, name)
        content = b"".join(data)
        if name in self.files:
            raise artifact_name_taken(name, attempt.id, attempt.fence)
        self.files[name] = content
        artifact_id = new_id()
        return Artifact(
            id=artifact_id,
            tenant_id=attempt.tenant_id,
            job_id=attempt.id,
            fence=attempt.fence,
            name=name,
            content_type=kept_as,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            store="headway.testing",
            path=path_of(attempt.tenant_id, attempt.id, artifact_id),
            created_at=datetime.now(UTC),
        )


def artifacts_of(ctx: Context) -> Mapping[str, bytes]:
    """The files that the handler stored through this context, made by `context` or `step_context`, by their names.

    >>> from headway import Context, Registry
    >>> from headway.testing import artifacts_of, context, perform
    >>> shop = Registry()
    >>> @shop.job
    ... def export(ctx: Context) -> int:
    ...     return ctx.artifact("orders.csv", ["id\\n", "7\\n"]).size
    >>> ctx = context(export)
    >>> perform(export, ctx=ctx)
    5
    >>> artifacts_of(ctx)["orders.csv"]
    b'id\\n7\\n'
    """
    if not isinstance(ctx.artifact_writer, KeptInMemory):
        raise NotAllowed("a worker runs this job, or nobody does: app.artifacts(job_id) lists what it stored")
    return dict(ctx.artifact_writer.files)
