"""ByteStore: what a folder and an object store have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import BinaryIO, Protocol

import msgspec


class Written(msgspec.Struct, frozen=True):
    """What was written."""

    size: int
    sha256: str  # in hex


class ByteStore(Protocol):
    """Keeps bytes under paths, each written once. All of it blocks, and is safe to use from any thread."""

    @property
    def name(self) -> str:
        """What a row says of where its bytes are. The part before an @ identifies the store, the rest is for people."""
        ...

    def write(self, path: str, blocks: Iterable[bytes], content_type: str) -> Written:
        """Write all of it, or nothing that anybody can read. It is durable when this returns."""
        ...

    def open(self, path: str, size: int) -> BinaryIO:
        """The bytes, to read and to seek in. Raises `ArtifactGone`."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Delete what is there of these, also what a killed process had begun to write."""
        ...


def store_id(name: str) -> str:
    """The part of a store's name that identifies it."""
    return name.partition("@")[0]
