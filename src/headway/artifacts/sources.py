"""Turns what a handler gives as an artifact's data into blocks of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from headway.errors import InvalidArtifact

BLOCK = 1_048_576
"""Bytes that are written at once, and in memory of an artifact of any size."""

Data: TypeAlias = "bytes | bytearray | memoryview | str | Path | BinaryIO | Iterable[bytes | str]"
"""A text is stored as UTF-8; a `Path` names a file to copy, and a file is read to its end."""


def blocks(data: Data) -> Iterator[bytes]:
    """The bytes of the data, in blocks of about `BLOCK`; raises `InvalidArtifact`, also midway."""
    if isinstance(data, str):
        yield data.encode()
    elif isinstance(data, bytes | bytearray | memoryview):
        yield bytes(data)
    elif isinstance(data, Path):
        with data.open("rb") as file:
            yield from _read(file)
    elif hasattr(data, "read"):
        yield from _read(data)
    elif isinstance(data, Iterable):
        gathered = bytearray()
        for piece in data:
            gathered += _bytes(piece)
            if len(gathered) >= BLOCK:
                yield bytes(gathered)
                gathered.clear()
        yield bytes(gathered)
    elif isinstance(data, AsyncIterable):
        raise InvalidArtifact("artifact(…) cannot await an async iterator: await ctx.aartifact(…)")
    else:
        raise InvalidArtifact(_wrong(data))


async def ablocks(data: AsyncIterable[bytes | str]) -> AsyncIterator[bytes]:
    """The same of an async iterator."""
    gathered = bytearray()
    async for piece in data:
        gathered += _bytes(piece)
        if len(gathered) >= BLOCK:
            yield bytes(gathered)
            gathered.clear()
            await asyncio.sleep(0)
    yield bytes(gathered)


def _read(file: Any) -> Iterator[bytes]:
    while piece := file.read(BLOCK):
        yield _bytes(piece)


def _bytes(piece: Any) -> bytes:
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    raise InvalidArtifact(f"{_wrong(piece)}, or an iterator of bytes or strings")


def _wrong(data: Any) -> str:
    return f"an artifact cannot be made from {type(data).__name__}: give bytes, a string, a Path or a file"
