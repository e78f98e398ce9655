"""Places: where this process puts artifacts, and where it finds those that others put elsewhere."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from headway.artifacts.byte_store import ByteStore, Written, store_id
from headway.artifacts.folder import Folder
from headway.artifacts.objects import Objects
from headway.artifacts.off_loop import in_thread
from headway.artifacts.sources import BLOCK
from headway.errors import ArtifactElsewhere, ArtifactGone, ConfigError
from headway.model.artifact import Artifact, NewPayload, TrashedBytes, file_name
from headway.model.spill import CONTENT_TYPE

_OBJECTS = ("s3", "gs", "az", "azure", "abfs", "abfss")


def checked_place(place: object) -> str:
    """The setting `artifacts`: a folder, or the URL of a bucket and a prefix in it. Raises `ConfigError`."""
    if not isinstance(place, str | Path) or not str(place).strip():
        raise ConfigError(f"artifacts={place!r} must be a folder or a URL, such as s3://bucket/prefix")
    text = str(place)
    if "://" not in text:
        return text
    parts = urlsplit(text)
    if parts.scheme not in (*_OBJECTS, "file"):
        raise ConfigError(
            f"artifacts={parts.scheme}://… is not a place for artifacts: use a folder, s3://bucket/prefix, "
            "gs://bucket/prefix or az://account/container/prefix"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            f"artifacts={parts.scheme}://… must have a bucket and a prefix only: credentials come from the environment"
        )
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path):
        raise ConfigError(f"artifacts={text!r} must have three slashes: file:///folder")
    if parts.scheme != "file" and not parts.netloc:
        raise ConfigError(f"artifacts={text!r} names no bucket: s3://bucket/prefix")
    return text


class Places:
    """`setting` is where new artifacts go; None: `default`, a folder."""

    def __init__(self, setting: str | None, default: Path) -> None:
        self.own = _opened(setting) if setting is not None else Folder(default.absolute())
        self._default = Folder(default.absolute())
        self._others: dict[str, ByteStore] = {}

    def of(self, name: str) -> ByteStore:
        """The store of this name, as a row has it. Raises `ArtifactElsewhere` for another host's folder."""
        wanted = store_id(name)
        for found in (self.own, self._default):
            if found.id == wanted:
                return found
        if wanted.startswith("folder:"):
            where = name.partition("@")[2] or "another host"
            raise ArtifactElsewhere(
                f"its bytes are in a folder of {where}, which this process does not have: ask there, mount the folder "
                "here and name it in the setting artifacts, or keep artifacts in an object store"
            )
        return self._others.setdefault(wanted, Objects(wanted))

    def write_payload(self, new: NewPayload, text: str) -> Written:
        """Write a job's payload. Raises `ArtifactsUnavailable`."""
        return self.of(new.store).write(new.path, (text.encode(),), CONTENT_TYPE)

    async def awrite_payload(self, new: NewPayload, text: str) -> Written:
        return await in_thread(self.write_payload, new, text)

    def open(self, artifact: Artifact) -> BinaryIO:
        """Its bytes, to read and to seek in. Raises `ArtifactElsewhere`, `ArtifactGone`, `ArtifactsUnavailable`."""
        return self.of(artifact.store).open(artifact.path, artifact.size)

    async def aopen(self, artifact: Artifact) -> BinaryIO:
        return await in_thread(self.open, artifact)

    def read(self, artifact: Artifact) -> bytes:
        """All of its bytes; raises as `open` does."""
        with self.open(artifact) as file:
            content = file.read()
        if sha256(content).hexdigest() != artifact.sha256:
            raise ArtifactGone(f"the bytes of artifact {artifact.id} are not those that were stored")
        return content

    async def aread(self, artifact: Artifact) -> bytes:
        return await in_thread(self.read, artifact)

    def download(self, artifact: Artifact, to: Path, overwrite: bool) -> Path:
        """Copy its bytes to a file, or into a folder; all of them or none."""
        path = to / file_name(artifact) if to.is_dir() else to
        if path.exists() and not overwrite:
            raise FileExistsError(errno.EEXIST, "there is such a file already", str(path))
        part = path.with_name(f".{artifact.id}.part")
        digest = sha256()
        try:
            with self.open(artifact) as source, part.open("xb") as file:
                while block := source.read(BLOCK):
                    digest.update(block)
                    file.write(block)
            if digest.hexdigest() != artifact.sha256:
                raise ArtifactGone(
                    f"the bytes of artifact {artifact.id} are not those that were stored: nothing was kept"
                )
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    async def adownload(self, artifact: Artifact, to: Path, overwrite: bool) -> Path:
        return await in_thread(self.download, artifact, to, overwrite)

    def discard(self, trash: Sequence[TrashedBytes]) -> None:
        """Delete these bytes, of stores that this process looks after."""
        paths: dict[str, list[str]] = {}
        for each in trash:
            paths.setdefault(each.store, []).append(each.path)
        for store, of_it in paths.items():
            self.of(store).delete(of_it)

    async def adiscard(self, trash: Sequence[TrashedBytes]) -> None:
        await in_thread(self.discard, trash)

    @property
    def ids(self) -> list[str]:
        """The stores that this process looks after."""
        return [found for found in dict.fromkeys((self.own.id, self._default.id)) if found is not None]


def _opened(place: str) -> Folder | Objects:
    if "://" not in place:
        return Folder(Path(place).expanduser().absolute())
    if place.startswith("file:"):
        return Folder(Path(unquote(urlsplit(place).path)).absolute())
    return Objects(place)
