"""Workers that are killed in the midst of their runs, each replaced at once, with every kill in the ledger."""

from __future__ import annotations

import random

import ledger
from conftest import Ground
from fleet import Process, until

# nobody alive loses a claim, however busy this machine is: what runs twice at once is then no loss but a fault. The
# jobs of a killed one are found by the worker that takes its place.
PATIENT = {"lease": "10m", "heartbeat": "1s"}


class Crew:
    """A number of workers, and what the ledger tells of them."""

    def __init__(self, ground: Ground, size: int, *, queues: str) -> None:
        self.begun: set[str] = set()
        self._ground = ground
        self._queues = queues
        self._open: dict[tuple[str, int], int] = {}
        self._read = 0
        self._all: list[Process] = []
        self._alive = [self._new() for _ in range(size)]

    def kill_one(self) -> None:
        """SIGKILL to a worker that runs something, wherever it is in claiming, running and settling."""
        victim: Process = until(self._busy, "a worker that runs something")
        # before it happens: no sooner may anybody take over what it runs
        ledger.append(self._ground.ledger.path, "kill", str(victim.pid))
        victim.kill()
        self._alive.remove(victim)
        self._alive.append(self._new())

    def look(self) -> None:
        """Take in what the ledger has got since."""
        entries = self._ground.ledger.read()
        for entry in entries[self._read :]:
            if entry.event == "start":
                self.begun.add(entry.subject)
                self._open[entry.run] = entry.pid
            else:
                self._open.pop(entry.run, None)
        self._read = len(entries)

    def has_begun(self, jobs: int) -> bool:
        """Whether that many jobs have begun at least once."""
        self.look()
        return len(self.begun) >= jobs

    def check(self) -> None:
        """None that was not killed ended, and none found anything that had to be repaired."""
        for process in self._alive:
            assert process.code is None, process.tail()
        for process in self._all:
            repaired = process.lines("waited for what was not there")
            assert not repaired, f"something was stuck: {repaired}"

    def _new(self) -> Process:
        self._all.append(self._ground.fleet.worker(app="traffic:app", queues=self._queues, **PATIENT))
        return self._all[-1]

    def _busy(self) -> Process | None:
        self.look()
        busy = set(self._open.values())
        victims = [process for process in self._alive if process.pid in busy]
        return random.choice(victims) if victims else None
