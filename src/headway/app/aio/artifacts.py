"""Generated from app/artifacts.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.artifacts import ArtifactVerbs
from headway.app.base import page_size
from headway.model.artifact import Artifact
from headway.model.ids import as_id


class AsyncArtifactVerbs(ArtifactVerbs, AsyncVerbBase):
    """The async twins of the verbs of `ArtifactVerbs`."""

    async def aartifact(self, artifact_id: str | UUID) -> Artifact:
        """What is known of an artifact; raises `NotFound`, also once it was pruned with its job."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._artifact(artifact_id))

    async def aartifacts(
        self, job_id: str | UUID | None = None, *, limit: int = 100, before: str | UUID | None = None
    ) -> list[Artifact]:
        """The artifacts of a job, of all its attempts, or of all jobs; newest first. `before` is the last id of the
        previous page."""
        await self._aensure_known(self._own_tenant)
        op = self._store.ops.artifacts(
            tenant_id=self._visible_tenant,
            job_id=None if job_id is None else as_id(job_id),
            limit=page_size(limit),
            before=None if before is None else as_id(before, "artifact"),
        )
        return await self._arun(op)

    async def aopen_artifact(self, artifact_id: str | UUID) -> BinaryIO:
        """Its bytes, as a file to read: `with app.open_artifact(id) as file: …`.

        Raises `NotFound`, `ArtifactElsewhere` if they are in another host's folder, `ArtifactGone` if somebody deleted
        them, `ArtifactsUnavailable`.
        """
        await self._aensure_known(self._own_tenant)
        found = await self._arun(self._artifact(artifact_id))
        return await self._places.aopen(found)

    async def adownload_artifact(
        self, artifact_id: str | UUID, to: str | Path = ".", *, overwrite: bool = False
    ) -> Path:
        """Copy its bytes to a file, or under its own name into a folder; returns the file's path.

        The file is there once it is whole and its hash is right. Raises as `open_artifact` does, and `FileExistsError`
        if it is there already, unless `overwrite`.
        """
        await self._aensure_known(self._own_tenant)
        found = await self._arun(self._artifact(artifact_id))
        return await self._places.adownload(found, Path(to), overwrite)
