"""How many cores who used meanwhile: figures from a machine on which others work, too, are not of the server alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")


class Cores(msgspec.Struct):
    server: float
    database: float
    all: float  # of the machine, whoever used them

    def __str__(self) -> str:
        rest = max(0.0, self.all - self.server - self.database)
        return f"{self.server:.1f} cores for the server, {self.database:.1f} for the database, {rest:.1f} for all else"


class Used:
    """From now on. `server` is the process of the server, `database` what the titles of its database's processes have;
    "" where it has none."""

    def __init__(self, server: int, database: str) -> None:
        self._server, self._database = server, database
        self._began = time.monotonic()
        self._before = self._now()

    def cores(self) -> Cores:
        seconds = time.monotonic() - self._began
        parts = zip(self._now(), self._before, strict=True)
        return Cores(*(max(0.0, now - before) / seconds for now, before in parts))

    def _now(self) -> tuple[float, float, float]:
        server = database = 0.0
        parents: dict[int, int] = {}
        times: dict[int, float] = {}
        for each in Path("/proc").glob("[0-9]*"):
            try:
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                title = (each / "cmdline").read_text()
            except OSError:
                continue
            pid = int(each.name)
            parents[pid], times[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS
            if self._database and self._database in title and title.startswith("postgres:"):
                database += times[pid]
        for pid, seconds in times.items():
            if self._server in (pid, parents[pid]):
                server += seconds
        lines = Path("/proc/stat").read_text().splitlines()
        user, nice, system, _, _, irq, soft, *_ = map(int, lines[0].split()[1:])
        return server, database, (user + nice + system + irq + soft) / _TICKS
