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
from headway.worker import maintenance
from tests.crash.crash_jobs import SOON, app, kinds

__all__ = ["app"]

POINTS = ("half", "part", "bytes", "row")
"""Within the bytes, before they have their name, between bytes and row, after the row and before the outcome."""


def die_once(point: str) -> None:
    mark = Path(os.environ["CRASH_FOLDER"]) / f"died-{point}"
    wanted = (Path(os.environ["CRASH_FOLDER"]) / "points").read_text().split()
    if point in wanted and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@kinds.job(queue="main", backoff=SOON, max_losses=30)
def store(ctx: Context) -> str:
    def data() -> Iterator[bytes]:
        yield b"x" * 1_048_576
        die_once("half")
        yield b"y" * 1_048_576

    kept = ctx.artifact("report.bin", data())
    die_once("row")
    return kept.id


_rename, _write, _discard = Folder._rename, Folder.write, Places.discard


def rename(self: Folder, part: Path, final: Path) -> None:
    die_once("part")
    _rename(self, part, final)


def write(self: Folder, *args: Any) -> Any:
    written = _write(self, *args)
    die_once("bytes")
    return written


def discard(self: Places, trash: Any) -> None:
    die_once("sweep")
    _discard(self, trash)
    die_once("swept")


if "CRASH_FOLDER" in os.environ:  # in a worker of the test, not in the test's own process
    Folder._rename, Folder.write, Places.discard = rename, write, discard  # type: ignore[method-assign]
    maintenance.FIRST_PRUNE_S = maintenance.PRUNE_EVERY_S = 0.2
