"""Which queue comes next: shares over many claims, not times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from headway.model.served import Entry
from headway.worker.queue_order import QueueOrder


@dataclass
class Line:
    """A queue with this much work."""

    name: str
    jobs: int = 10**6
    full: bool = True
    woken: bool = False


def order_of(order: str, *entries: tuple[Entry, list[Line]]) -> QueueOrder:
    return QueueOrder(order, list(entries))  # type: ignore[arg-type]


def claims(queues: QueueOrder, lines: list[Line], count: int, free: int = 1) -> Counter[str]:
    """Claim as a worker does in which so many slots become free at a time."""
    got: Counter[str] = Counter()
    for _ in range(count):
        left = free
        while left:
            queue = queues.next(lambda each: each.full, lambda _: 1)
            if queue is None:
                break
            line = next(each for each in lines if each.name == queue.name)
            asked = queues.most(line.name, left)
            assert 1 <= asked <= left
            taken = min(asked, line.jobs)
            line.jobs -= taken
            line.full = taken == asked
            left -= taken
            got[line.name] += taken
            queues.claimed(line.name, taken)
    return +got


def test_in_turn_every_queue_gets_the_same_however_many_an_entry_has() -> None:
    lines = [Line(name) for name in "abc"]
    queues = order_of("turns", (Entry("a"), lines[:1]), (Entry("*"), lines[1:]))
    assert claims(queues, lines, 300) == {"a": 100, "b": 100, "c": 100}


def test_by_strict_order_a_later_queue_gets_what_the_earlier_ones_leave() -> None:
    lines = [Line("a", jobs=70), Line("b", jobs=20), Line("c")]
    queues = order_of("strict", *((Entry(line.name), [line]) for line in lines))
    assert claims(queues, lines, 100) == {"a": 70, "b": 20, "c": 10}
    # an earlier one that has work again is asked before the next claim of a later one, though nobody said so
    lines[0].jobs = 3
    assert claims(queues, lines, 10) == {"a": 3, "c": 7}


def test_by_weights_each_gets_its_share_of_jobs_and_none_starves() -> None:
    for free in (1, 7, 50):
        lines = [Line("mail"), Line("report-eu"), Line("report-us")]
        queues = order_of("weights", (Entry("mail", None, 3), lines[:1]), (Entry("report-*"), lines[1:]))
        got = claims(queues, lines, 4_000 // free, free)
        total = sum(got.values())
        assert abs(got["mail"] - total * 3 / 4) <= free
        # the queues of one entry take turns by claims, which may bring more or fewer jobs
        assert min(got["report-eu"], got["report-us"]) >= (total / 8 - 1 if free == 1 else total / 20)


def test_who_had_nothing_for_a_while_gets_no_more_than_its_share_afterwards() -> None:
    lines = [Line("a"), Line("b", jobs=0, full=False)]
    queues = order_of("weights", (Entry("a"), lines[:1]), (Entry("b"), lines[1:]))
    assert claims(queues, lines, 500) == {"a": 500}
    lines[1].jobs, lines[1].full = 10**6, True
    got = claims(queues, lines, 100)
    assert abs(got["a"] - got["b"]) <= 2
    got = claims(queues, lines, 100, free=10)
    assert abs(got["a"] - got["b"]) <= 10
