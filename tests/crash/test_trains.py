"""Eight enqueuers and four workers on fifty trains, workers killed: order, exclusion and completeness by the ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest

from tests.crash.crash_site import CrashSite
from tests.crash.killed_workers import KilledWorkers
from tests.crash.ledger import Entry
from tests.crash.ordered_jobs import MAX_ATTEMPTS

ENQUEUERS = 8
WORKERS = 4
RUN = ("start", "cut", "raise", "end")


def test_trains_keep_their_order_while_workers_are_killed(site: CrashSite, request: pytest.FixtureRequest) -> None:
    kills = request.config.getoption("--crash-kills")
    cars = max(600, request.config.getoption("--crash-jobs"))
    patience_s = 60 + cars / 20
    workers = KilledWorkers(site, WORKERS)
    enqueuers = [
        site.fleet.script("cars", f"e{number}", str(cars // ENQUEUERS), program="ordered_jobs")
        for number in range(ENQUEUERS)
    ]
    workers.kill_some(kills, every=cars * 4 // (kills * 5), within=patience_s)
    for enqueuer in enqueuers:
        assert enqueuer.ended(within=patience_s) == 0, enqueuer.tail()
    workers.until_over(within=patience_s)

    told = Told.of(site.ledger.read())
    assert len(told.committed) >= cars
    for train, entries in told.runs.items():
        _check_order(told, _check_runs(told, train, entries))
    _check_complete(told)
    assert Counter(row["retry_of"] is None for row in site.rows.jobs().values())[True] == len(told.committed)
    assert site.app.trains() == []


@dataclass
class Told:
    """What the ledger says, by its lines' numbers: their order is one in which things happened."""

    calling: dict[str, int] = field(default_factory=dict)  # before the car's enqueue was called
    called: dict[str, int] = field(default_factory=dict)  # after that had returned
    committed: dict[str, int] = field(default_factory=dict)  # after its commit had returned
    undone: set[str] = field(default_factory=set)
    canceled: set[str] = field(default_factory=set)
    killed: dict[int, int] = field(default_factory=dict)  # before the process was killed
    runs: dict[str, list[tuple[int, Entry]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, entries: list[Entry]) -> Told:
        told = cls()
        for line, entry in enumerate(entries):
            labels = entry.subject.split(",")
            match entry.event:
                case "calling":
                    told.calling |= dict.fromkeys(labels, line)
                case "called":
                    told.called |= dict.fromkeys(labels, line)
                case "committed":
                    told.committed |= dict.fromkeys(labels, line)
                    told.called = dict.fromkeys(labels, line) | told.called
                case "undone":
                    told.undone.update(labels)
                case "cancel":
                    told.canceled.update(labels)
                case "kill":
                    told.killed[int(entry.subject)] = line
                case event if event in RUN:
                    told.runs[entry.subject.partition("/")[0]].append((line, entry))
        return told

    def died(self, pid: int, line: int) -> bool:
        """Whether that process was killed before this line."""
        return self.killed.get(pid, line) < line


@dataclass
class Turn:
    """One car's time as the locomotive: from its first start until its last sign."""

    car: str
    first: int
    last: int
    entry: Entry
    raises: int = 0

    def is_over(self, told: Told, line: int) -> bool:
        """Whether another car may begin: it ended, or it was canceled while it did not run."""
        match self.entry.event:
            case "end" | "cut":
                return True
            case "raise" if self.car.endswith(".dies") and self.raises >= MAX_ATTEMPTS:
                return True
            case "raise":
                return self.car in told.canceled
            case _:
                return self.car in told.canceled and told.died(self.entry.pid, line)


def _check_runs(told: Told, train: str, entries: list[tuple[int, Entry]]) -> list[Turn]:
    """One run at a time; a car that began keeps its train until it is over; gives the turns in order."""
    turns: list[Turn] = []
    for line, entry in entries:
        turn = turns[-1] if turns else None
        if entry.event != "start":
            assert turn is not None
            assert (turn.entry.event, turn.entry.run, turn.entry.pid) == ("start", entry.run, entry.pid), (
                f"{train}: {entry} while the last was {turn.entry}"
            )
            turn.entry, turn.last = entry, line
            turn.raises += entry.event == "raise"
        elif turn is None or turn.car != entry.subject:
            assert turn is None or turn.is_over(told, line), f"{train}: {entry} began, but {turn.entry} was not over"
            turns.append(Turn(entry.subject, line, line, entry))
        else:
            # again: after a failed try, or because its worker was killed before it could say how it ended
            assert turn.entry.event == "raise" or told.died(turn.entry.pid, line), f"{train}: {entry}, {turn.entry}"
            assert entry.fence > turn.entry.fence or entry.subject.endswith(".once")
            turn.entry, turn.last = entry, line
    assert len({turn.car for turn in turns}) == len(turns), f"{train}: a car ran again after another had begun"
    return turns


def _check_order(told: Told, turns: list[Turn]) -> None:
    """The promise about order, as far as the ledger can tell it."""
    places = {turn.car: place for place, turn in enumerate(turns)}
    # one whose commit returned before another was called runs before it
    latest = -1
    for turn in turns:
        assert told.committed[turn.car] > latest, f"{turn.car} ran after one that was enqueued later"
        latest = max(latest, told.calling[turn.car])
    # whenever the train goes on, of those that are committed the one that was called first goes first
    ordered = sorted(places, key=told.called.__getitem__)
    for place, turn in enumerate(turns):
        went_on = turns[place - 1].last if place else -1
        for car in ordered:
            if told.called[car] > told.calling[turn.car]:
                break
            if told.committed[car] < went_on:
                assert places[car] <= place, f"{turn.car} was let go before {car}, called and committed before"
    # those of one transaction run in the order of its calls
    together: dict[int, list[str]] = defaultdict(list)
    for car in places:
        together[told.committed[car]].append(car)
    for batch in together.values():
        assert sorted(batch, key=_number) == batch


def _number(car: str) -> int:
    return int(car.split(".")[1])


def _check_complete(told: Told) -> None:
    """Every committed car ran to its end, and nothing else did."""
    last = {entry.subject: entry for runs in told.runs.values() for _, entry in runs}
    assert last.keys() <= told.committed.keys()
    assert not told.undone & told.committed.keys()
    for car in told.committed.keys() - told.canceled:
        assert car in last, f"{car} was left behind"
        assert last[car].event == ("raise" if car.endswith(".dies") else "end")
