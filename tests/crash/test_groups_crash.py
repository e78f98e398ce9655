"""Groups and `after` while workers are killed: what waits for others runs after them, once, and none is left."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count, pairwise

import pytest

from headway import Headway
from tests.crash.crash_site import CrashSite
from tests.crash.killed_workers import KilledWorkers
from tests.crash.ledger import Entry
from tests.crash.ordered_jobs import MAX_ATTEMPTS, job, job_once

WORKERS = 3
SORTS = 9


@dataclass
class Expected:
    """Which labels run only after which others are over, and which never."""

    after: dict[str, list[str]] = field(default_factory=dict)
    never: set[str] = field(default_factory=set)
    ends: set[str] = field(default_factory=set)


def test_what_waits_for_others_runs_after_them_and_once(site: CrashSite, request: pytest.FixtureRequest) -> None:
    kills = request.config.getoption("--crash-kills")
    sets = max(SORTS, request.config.getoption("--crash-jobs") // (10 * kills))
    patience_s = 60 + kills * sets / 2
    workers = KilledWorkers(site, WORKERS)
    expected = Expected()
    numbers = count()

    def enqueue() -> None:
        for _ in range(sets):
            _enqueue(site.app, next(numbers), expected)

    workers.kill_some(kills, every=3 * sets, within=patience_s, before_each=enqueue)
    workers.until_over(within=patience_s)
    _check(site.ledger.read(), expected)


def _enqueue(app: Headway, number: int, expected: Expected) -> None:
    """One set of jobs of the sort that this number has."""
    labels = [f"{number}/{place}" for place in range(4)]
    first, second, third, last = labels
    jobs = [job(label, ms=number % 11) for label in labels]
    dies = job(first, fails=MAX_ATTEMPTS)
    never: set[str] = set()
    match number % SORTS:
        case 0:
            app.group(jobs[:3], callback=jobs[3])
            after = {last: labels[:3]}
        case 1:
            app.group(jobs[:3], mode="sequential", callback=jobs[3])
            after = {second: [first], third: [second], last: [third]}
        case 2:
            app.group([dies, *jobs[1:3]], on_failure="continue", callback=jobs[3])
            after = {last: labels[:3]}
        case 3:
            app.group([dies, *jobs[1:3]], on_failure="skip", callback=jobs[3])
            after, never = {}, {last}
        case 4:
            app.group([dies, *jobs[1:3]], mode="sequential", callback=jobs[3])
            after, never = {}, {second, third, last}
        case 5:  # a chain, link by link
            before = app.enqueue(jobs[0])
            for label in labels[1:]:
                before = app.enqueue(job(label, after=[before]))
            after = {second: [first], third: [second], last: [third]}
        case 6:  # one, then two, then one
            two = [job(second, after=[jobs[0]]), job(third, after=[jobs[0]])]
            app.enqueue_many([jobs[0], *two, job(last, after=two)])
            after = {second: [first], third: [first], last: [second, third]}
        case 7:  # cars of a train, of which one waits for others, too
            train = f"train{number}"
            cars = [job(second, train=train, after=[jobs[0]]), job(third, train=train), job(last, train=train)]
            app.enqueue_many([jobs[0], *cars])
            after = {second: [first], third: [second], last: [third]}
        case _:  # one that is retried by a new job when it is lost
            once = job_once(first, ms=number % 11)
            app.enqueue_many([once, *(job(label, after=[once]) for label in labels[1:])])
            after = {label: [first] for label in labels[1:]}
    expected.after |= after
    expected.never |= never
    expected.ends |= set(labels) - never


def _check(entries: list[Entry], expected: Expected) -> None:
    runs: dict[str, list[tuple[int, Entry]]] = defaultdict(list)
    killed: dict[int, int] = {}
    for line, entry in enumerate(entries):
        if entry.event == "kill":
            killed[int(entry.subject)] = line
        else:
            runs[entry.subject].append((line, entry))
    assert runs.keys() == expected.ends
    assert not runs.keys() & expected.never
    for label, others in expected.after.items():
        for other in others:
            assert runs[other][-1][0] < runs[label][0][0], f"{label} began before {other} was over"
    for label, lines in runs.items():
        # again only after a failed try, or where a kill came before its end was written
        for (_, before), (line, entry) in pairwise(lines):
            if entry.event == "start":
                assert before.event == "raise" or killed.get(before.pid, line) < line, f"{label} ran twice"
        assert lines[-1][1].event in ("end", "raise")
