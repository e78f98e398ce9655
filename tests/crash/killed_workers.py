"""Workers that are killed in the midst of their runs, each replaced at once, with every kill in the ledger."""

from __future__ import annotations

import random
from collections.abc import Callable

from headway.model.status import UNFINISHED
from tests.crash import ledger
from tests.crash.crash_site import CrashSite
from tests.crash.processes import Process, until

# nobody alive loses a claim, however busy this machine is: what runs twice at once is then no loss but a fault. The
# jobs of a killed one are found by the worker that takes its place.
PATIENT = {"lease": "10m", "heartbeat": "1s"}


class KilledWorkers:
    """A number of workers, and what the ledger tells of them."""

    def __init__(self, site: CrashSite, size: int, *, queues: str = "main", app: str = "ordered_jobs") -> None:
        self._site = site
        self._app = app
        self._queues = queues
        self._begun: set[str] = set()
        self._open: dict[tuple[str, int], int] = {}
        self._read = 0
        self._all: list[Process] = []
        self._alive = [self._new() for _ in range(size)]

    def kill_some(
        self, kills: int, *, every: int, within: float, before_each: Callable[[], None] = lambda: None
    ) -> None:
        """SIGKILL to a worker in the midst of its runs, each time that so many more jobs have begun."""
        for kill in range(kills):
            before_each()
            until(lambda jobs=every * (kill + 1): self._has_begun(jobs), "jobs run", within=within)
            until(lambda: self._kill_one() or self._is_over(), "a worker runs something")
        assert len(self._all) > len(self._alive), "none was killed"

    def kill_any(self) -> None:
        """SIGKILL to a worker, whatever it does at that moment."""
        self._kill(random.choice(self._alive))

    def until_over(self, within: float) -> None:
        """Wait until all jobs are over; nobody has anything left to look at then, and nothing had to be repaired."""
        until(self._is_over, "every job is over", within=within)
        until(lambda: not any(self._site.rows.left().values()), "nothing is left to look at")
        for process in self._alive:
            assert process.code is None, process.tail()
        for process in self._all:
            repaired = process.lines("waited for something that no longer exists")
            assert not repaired, f"something was stuck: {repaired}"
        self._site.rows.check()

    def _new(self) -> Process:
        self._all.append(self._site.fleet.worker(app=self._app, queues=self._queues, **PATIENT))
        return self._all[-1]

    def _kill_one(self) -> bool:
        """Wherever it is in claiming, running and settling."""
        self._look()
        busy = set(self._open.values())
        victims = [process for process in self._alive if process.pid in busy]
        if not victims:
            return False
        self._kill(random.choice(victims))
        return True

    def _kill(self, victim: Process) -> None:
        # before it happens: no sooner may anybody take over what it runs
        ledger.append(self._site.ledger.path, "kill", str(victim.pid))
        victim.kill()
        self._alive.remove(victim)
        self._alive.append(self._new())

    def _look(self) -> None:
        """Take in what the ledger has got since."""
        entries = self._site.ledger.read()
        for entry in entries[self._read :]:
            if entry.event == "start":
                self._begun.add(entry.subject)
                self._open[entry.run] = entry.pid
            else:
                self._open.pop(entry.run, None)
        self._read = len(entries)

    def _has_begun(self, jobs: int) -> bool:
        """Whether that many jobs have begun at least once."""
        self._look()
        return len(self._begun) >= jobs

    def _is_over(self) -> bool:
        return not self._site.rows.statuses().keys() & set(UNFINISHED)
