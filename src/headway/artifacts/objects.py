"""An object store: S3, GCS or Azure, through obstore."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO, cast

from headway.artifacts.byte_store import Written
from headway.errors import ArtifactGone, ArtifactsUnavailable, ConfigError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_IN_MEMORY = 8 * 1_048_576
_AT_ONCE = 4 * 1_048_576
_PATIENCE = timedelta(minutes=1)
"""How long to retry a store that does not answer; obstore's own three minutes would keep callers waiting too long."""


class Objects:
    """Credentials, region and endpoint come from the environment, as the provider's own tools read them."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    @property
    def id(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return self.url

    @cached_property
    def _store(self) -> ObjectStore:
        try:
            from obstore.store import from_url
        except ImportError as error:
            raise ConfigError(
                f"artifacts in {self.url} need obstore, which is not installed ({error}): "
                "pip install 'headway-engine[artifacts]'"
            ) from None
        with self._told():
            return from_url(self.url, retry_config={"retry_timeout": _PATIENCE})

    def write(self, path: str, blocks: Iterable[bytes], content_type: str) -> Written:
        """The data is complete here before any of it is sent: a handler that fails midway leaves no upload."""
        import obstore

        digest, size = sha256(), 0
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spooled:
            for block in blocks:
                digest.update(block)
                size += len(block)
                spooled.write(block)
            spooled.seek(0)
            store = self._store
            with self._told():
                obstore.put(store, path, cast(BinaryIO, spooled), attributes={"Content-Type": content_type})
        return Written(size, digest.hexdigest())

    def open(self, path: str, size: int) -> BinaryIO:
        import obstore

        with self._told(path):
            found = obstore.head(self._store, path)
        if found["size"] != size:
            raise ArtifactGone(f"{self.url}/{path} does not have its {size:,} bytes: somebody changed it")
        return cast(BinaryIO, io.BufferedReader(_Ranges(self, path, size), _AT_ONCE))

    def delete(self, paths: Sequence[str]) -> None:
        import obstore

        with self._told():
            try:
                obstore.delete(self._store, list(paths))
            except FileNotFoundError:
                for path in paths:
                    self._delete_one(path)

    def _delete_one(self, path: str) -> None:
        import obstore

        try:
            obstore.delete(self._store, path)
        except FileNotFoundError:
            return

    def read_range(self, path: str, start: int, end: int) -> bytes:
        import obstore

        with self._told(path):
            return bytes(obstore.get_range(self._store, path, start=start, end=end))

    @contextmanager
    def _told(self, path: str | None = None) -> Iterator[None]:
        """The provider's errors in our words."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            if path is not None and isinstance(error, FileNotFoundError):
                raise ArtifactGone(f"{self.url}/{path} is gone: somebody deleted it") from None
            said = " ".join(str(error).partition("Debug source")[0].split())[:500]
            raise ArtifactsUnavailable(
                f"{self.url} cannot be used right now: {said}. Check the bucket, and the credentials, region and "
                "endpoint in this process's environment"
            ) from error


class _Ranges(io.RawIOBase):
    """Reads an object by ranges."""

    def __init__(self, objects: Objects, path: str, size: int) -> None:
        self._objects = objects
        self._path = path
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        found = self._objects.read_range(self._path, self._at, end)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
