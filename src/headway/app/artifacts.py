"""The verbs of artifacts: the files that jobs stored."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from headway.app.base import VerbBase, page_size
from headway.model.artifact import Artifact
from headway.model.ids import as_id


class ArtifactVerbs(VerbBase):
    """An artifact belongs to the attempt that stored it, and goes with its job."""

    def artifact(self, artifact_id: str | UUID) -> Artifact:
        """What is known of an artifact; raises `NotFound`, also once it was pruned with its job."""
        return self._run(self._artifact(artifact_id))

    def artifacts(
        self, job_id: str | UUID | None = None, *, limit: int = 100, before: str | UUID | None = None
    ) -> list[Artifact]:
        """The artifacts of a job, of all its attempts, or of all jobs; newest first. `before` is the last id of the
        previous page."""
        op = self._store.ops.artifacts(
            tenant_id=self._visible_tenant,
            job_id=None if job_id is None else as_id(job_id),
            limit=page_size(limit),
            before=None if before is None else as_id(before, "artifact"),
        )
        return self._run(op)

    def open_artifact(self, artifact_id: str | UUID) -> BinaryIO:
        """Its bytes, as a file to read: `with app.open_artifact(id) as file: …`.

        Raises `NotFound`, `ArtifactElsewhere` if they are in another host's folder, `ArtifactGone` if somebody deleted
        them, `ArtifactsUnavailable`.
        """
        found = self._run(self._artifact(artifact_id))
        return self._places.open(found)

    def download_artifact(self, artifact_id: str | UUID, to: str | Path = ".", *, overwrite: bool = False) -> Path:
        """Copy its bytes to a file, or under its own name into a folder; returns the file's path.

        The file is there once it is whole and its hash is right. Raises as `open_artifact` does, and `FileExistsError`
        if it is there already, unless `overwrite`.
        """
        found = self._run(self._artifact(artifact_id))
        return self._places.download(found, Path(to), overwrite)
