"""A folder of this host: a file for each artifact, renamed into place once it is whole and on disk."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from headway.artifacts.byte_store import Written
from headway.errors import ArtifactGone, ArtifactsUnavailable

_PARTS = "parts"
_ID = "id"
_TRIES = 20


class Folder:
    """Identified by a file `id` in it, not by its path or host: it may be moved, or mounted on several hosts."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def id(self) -> str | None:
        """What identifies it; None if nothing was ever written here. Read each time: it may be deleted or mounted
        while this process runs."""
        with suppress(OSError):
            return self._read_id()
        return None

    @property
    def name(self) -> str:
        found = self.id
        if found is None:
            with _told(self._root):
                self._make()
                found = self._read_id()
        return f"{found}@{socket.gethostname()}:{self._root}"

    def write(self, path: str, blocks: Iterable[bytes], content_type: str) -> Written:  # noqa: ARG002 - the row has it
        final = self._at(path)
        part = self._part(path)
        digest, size = sha256(), 0
        source = _Source(blocks)
        with _told(self._root, source):
            part.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(part, "xb", opener=_private) as file:
                    for block in source:
                        digest.update(block)
                        size += len(block)
                        file.write(block)
                    file.flush()
                    os.fsync(file.fileno())
                self._rename(part, final)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        return Written(size, digest.hexdigest())

    def open(self, path: str, size: int) -> BinaryIO:
        try:
            file = self._at(path).open("rb")
        except FileNotFoundError:
            raise ArtifactGone(f"the file {self._at(path)} is gone: somebody deleted it") from None
        except OSError as error:
            raise ArtifactsUnavailable(f"{self._at(path)} cannot be read: {error}") from error
        if os.fstat(file.fileno()).st_size != size:
            file.close()
            raise ArtifactGone(f"the file {self._at(path)} does not have its {size:,} bytes: somebody changed it")
        return file

    def delete(self, paths: Sequence[str]) -> None:
        with _told(self._root):
            for path in paths:
                file = self._at(path)
                file.unlink(missing_ok=True)
                self._part(path).unlink(missing_ok=True)
                for parent in (file.parent, file.parent.parent):
                    if parent != self._root:
                        with suppress(OSError):  # others are in it
                            parent.rmdir()

    def _at(self, path: str) -> Path:
        parts = PurePosixPath(path).parts
        if not parts or ".." in parts or path.startswith("/"):
            raise ArtifactGone(f"an artifact's row has the path {path!r}, which is not in its folder")
        return self._root.joinpath(*parts)

    def _part(self, path: str) -> Path:
        return self._root / _PARTS / PurePosixPath(path).name

    def _rename(self, part: Path, final: Path) -> None:
        for tried in range(_TRIES):
            new = not final.parent.is_dir()
            final.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.rename(final)
            except FileNotFoundError:
                # a sweep removed the empty folder in between
                if tried == _TRIES - 1 or not part.exists():
                    raise
                continue
            _sync(final.parent)
            if new:
                _sync(final.parent.parent)
                _sync(self._root)
            return

    def _read_id(self) -> str:
        return f"folder:{(self._root / _ID).read_text('utf-8').strip()}"

    def _make(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        mine = self._root / f"{_ID}.{uuid.uuid4().hex}"
        with open(mine, "x", opener=_private) as file:
            file.write(uuid.uuid4().hex)
            file.flush()
            os.fsync(file.fileno())
        try:
            with suppress(FileExistsError):  # another process was first
                os.link(mine, self._root / _ID)
        finally:
            mine.unlink()
        _sync(self._root)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync(folder: Path) -> None:
    """A file is durable under its name only once its folder is."""
    if os.name == "nt":
        return
    found = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(found)
    finally:
        os.close(found)


class _Source:
    """The blocks; keeps an error of their source apart, since it says nothing about the folder."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = blocks
        self.error: OSError | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._blocks
        except OSError as error:
            self.error = error
            raise


@contextmanager
def _told(root: Path, source: _Source | None = None) -> Iterator[None]:
    """Adds to a file system error which setting chose the folder."""
    try:
        yield
    except OSError as error:
        if source is not None and error is source.error:
            raise
        raise ArtifactsUnavailable(
            f"artifacts cannot be stored in {root}: {error}. Make room, or name another folder or an object store in "
            "the setting artifacts"
        ) from error
