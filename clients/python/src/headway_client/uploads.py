"""Uploads: stores the files that handlers give to `ctx.artifact`, from a thread or on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from headway_client.aio import AsyncClient
from headway_client.client import Client
from headway_client.errors import HeadwayError
from headway_client.requests import Request
from headway_client.values import Artifact, read

if TYPE_CHECKING:
    from headway_client.context import Context

Data: TypeAlias = "bytes | str | Path | IO[Any] | Iterable[bytes | str]"
"""A text is stored as UTF-8; a `Path` names a file to send, and a file is read to its end."""

_BLOCK = 262_144
_LONGEST_S = 3600.0  # a large file may take long; the job's own timeout ends it


class Uploads:
    """What a worker does for `ctx.artifact`."""

    def __init__(self, client: Client, async_client: AsyncClient, worker_id: str) -> None:
        self._client = client
        self._async_client = async_client
        self._worker_id = worker_id

    def store(self, ctx: Context, name: str, data: Data, content_type: str | None) -> Artifact:
        """For a plain function, in its thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._client.send(self._request(ctx, name, _blocks(data), content_type))
        raise HeadwayError("artifact(…) would block the event loop of this async handler: await ctx.aartifact(…)")

    async def astore(
        self, ctx: Context, name: str, data: Data | AsyncIterable[bytes | str], content_type: str | None
    ) -> Artifact:
        """For an async handler."""
        given = _encoded(data) if isinstance(data, AsyncIterable) else _read_in_thread(_blocks(data))
        return await self._async_client.send(self._request(ctx, name, given, content_type))

    def _request(self, ctx: Context, name: str, upload: Any, content_type: str | None) -> Request[Artifact]:
        return Request(
            "POST",
            f"/worker/jobs/{ctx.job_id}/artifacts",
            lambda said: read(Artifact, said),
            query={"worker_id": self._worker_id, "fence": ctx.fence, "name": name, "content_type": content_type},
            upload=upload,
            repeatable=False,  # its data may be read once
            wait_s=_LONGEST_S,
        )


def _blocks(data: Data) -> Iterator[bytes]:
    if isinstance(data, str | bytes | bytearray | memoryview):
        yield _bytes(data)
    elif isinstance(data, Path):
        with data.open("rb") as file:
            yield from _blocks(file)
    elif hasattr(data, "read"):
        while piece := data.read(_BLOCK):
            yield _bytes(piece)
    elif isinstance(data, Iterable):
        yield from map(_bytes, data)
    else:
        raise HeadwayError(_wrong(data))


async def _encoded(data: AsyncIterable[bytes | str]) -> AsyncIterator[bytes]:
    async for piece in data:
        yield _bytes(piece)


async def _read_in_thread(blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Blocks that may come from a disk: it must not hold up the event loop."""
    while (block := await asyncio.to_thread(next, blocks, None)) is not None:
        yield block


def _bytes(piece: Any) -> bytes:
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    raise HeadwayError(_wrong(piece))


def _wrong(data: Any) -> str:
    if isinstance(data, AsyncIterable):
        return "artifact(…) cannot await an async iterator: await ctx.aartifact(…)"
    return f"an artifact cannot be made from {type(data).__name__}: give bytes, a string, a Path, a file or an iterator"
