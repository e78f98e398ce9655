"""Jobs that store artifacts, whose worker is killed at one point of it: before, between and after bytes and row, and
while the bytes of a deleted job are swept."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway import Context
from headway.artifacts.folder import Folder
from headway.artifacts.places import Places
from headway.model.spill import CONTENT_TYPE
from headway.worker import maintenance
from headway.worker.artifacts import ArtifactWriter
from tests.crash.crash_jobs import SOON, app, kinds

__all__ = ["app"]

POINTS = ("half", "part", "bytes", "row", "result-bytes", "result-row")
"""Within the bytes, before they have their name, between bytes and row, after the row and before the outcome; the last
two again for the result, which is too large for the job's row."""
RESULT = "z" * 1_200_000


def die_once(point: str) -> None:
    mark = Path(os.environ["CRASH_FOLDER"]) / f"died-{point}"
    wanted = (Path(os.environ["CRASH_FOLDER"]) / "points").read_text().split()
    if point in wanted and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@kinds.job(queue="main", backoff=SOON, max_losses=30, spill=True)
def store(ctx: Context) -> str:
    def data() -> Iterator[bytes]:
        yield b"x" * 1_048_576
        die_once("half")
        yield b"y" * 1_048_576

    ctx.artifact("report.bin", data())
    die_once("row")
    return RESULT


_rename, _write, _discard, _spill = Folder._rename, Folder.write, Places.discard, ArtifactWriter.aspill


def rename(self: Folder, part: Path, final: Path) -> None:
    die_once("part")
    _rename(self, part, final)


def write(self: Folder, *args: Any) -> Any:
    written = _write(self, *args)
    die_once("result-bytes" if args[-1] == CONTENT_TYPE else "bytes")
    return written


async def spill(self: ArtifactWriter, *args: Any) -> str:
    reference = await _spill(self, *args)
    die_once("result-row")
    return reference


def discard(self: Places, trash: Any) -> None:
    die_once("sweep")
    _discard(self, trash)
    die_once("swept")


if "CRASH_FOLDER" in os.environ:  # in a worker of the test, not in the test's own process
    Folder._rename, Folder.write, Places.discard = rename, write, discard  # type: ignore[method-assign]
    ArtifactWriter.aspill = spill  # type: ignore[method-assign]
    maintenance.FIRST_PRUNE_S = maintenance.PRUNE_EVERY_S = 0.2
