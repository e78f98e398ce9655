"""The outside ledger: what handlers and enqueuers really did, in a file that no store has a hand in."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_WHOLE = "."


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what happened, to which job (or batch), under which fence, in which process, when (epoch seconds)."""

    event: str
    subject: str
    fence: int
    pid: int
    at: float

    @property
    def run(self) -> tuple[str, int]:
        return self.subject, self.fence


def append(path: Path, event: str, subject: str, fence: int = 0) -> None:
    """Add a line and have it on the disk when this returns; one write, so that lines of many processes never mix. One
    that is killed at the edge of a memory page leaves the beginning of a line, which the next line break ends."""
    line = f"\n{event} {subject} {fence} {os.getpid()} {time.time():.6f} {_WHOLE}\n".encode()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        assert os.write(fd, line) == len(line)
        os.fsync(fd)
    finally:
        os.close(fd)


class Ledger:
    """Reads the file as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self._offset = 0

    def read(self) -> list[Entry]:
        """All entries until now, oldest first."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._offset += len(whole) + len(newline)
            for line in whole.decode().splitlines():
                if not line.endswith(f" {_WHOLE}"):
                    continue
                event, subject, fence, pid, at, _ = line.split(" ")
                self.entries.append(Entry(event, subject, int(fence), int(pid), float(at)))
        return self.entries

    def of(self, event: str) -> list[Entry]:
        return [entry for entry in self.read() if entry.event == event]

    def subjects(self, event: str) -> list[str]:
        return [entry.subject for entry in self.of(event)]

    def open_runs(self) -> dict[int, int]:
        """How many runs of each process have begun and not ended."""
        runs: dict[tuple[str, int], int] = {}
        for entry in self.read():
            if entry.event == "start":
                runs[entry.run] = entry.pid
            else:
                runs.pop(entry.run, None)
        counts: dict[int, int] = {}
        for pid in runs.values():
            counts[pid] = counts.get(pid, 0) + 1
        return counts
