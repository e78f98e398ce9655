"""The judge of `make chaos` sees what it is there to see; by hand, since the engine gives it no occasion."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.chaos.storm import Verdict, judge
from tests.crash.ledger import Entry


def told(*lines: str) -> list[Entry]:
    """A ledger: "start plain:-/1 1", a second a line, in one process."""
    split = [line.split() for line in lines]
    return [
        Entry(event, label, int(*fence) if fence else 0, 1, float(at))
        for at, (event, label, *fence) in enumerate(split)
    ]


def stored(**attempts: list[str]) -> dict[str, Any]:
    """Jobs whose id and label end with the same number, and how their attempts ended; an underscore is the slash."""
    rows, ended = {}, {}
    for name, statuses in attempts.items():
        job_id, label = name, _label(name)
        ok = statuses[-1] == "succeeded"
        rows[job_id] = {
            "id": job_id,
            "correlation_id": label,
            "fence": len(statuses),
            "status": "succeeded" if ok else "dead",
        }
        for fence, status in enumerate(statuses, 1):
            ended[job_id, fence] = {"status": status, "finished_at": 100.0}
    return {"rows": rows, "attempts": ended}


def _label(name: str) -> str:
    sort, number = name.split("_")
    return f"{sort}:k/{number}"


def verdict(*lines: str, **attempts: list[str]) -> Verdict:
    found = stored(**attempts)
    return judge(told(*lines), found["rows"], found["attempts"], true_clock=True)


def test_what_went_well_has_nothing_against_it() -> None:
    seen = verdict(
        "committed plain:k/1,train:k/2,train:k/3",
        "start plain:k/1 1",
        "start plain:k/1 2",  # its first worker was lost
        "end plain:k/1 2",
        "start train:k/2 1",
        "end train:k/2 1",
        "start train:k/3 1",
        "end train:k/3 1",
        plain_1=["lost", "succeeded"],
        train_2=["succeeded"],
        train_3=["succeeded"],
    )
    assert seen == Verdict(jobs=3, repeated=1, lost=0, doubled=0, out_of_order=0, over_limit=0)
    assert seen.held


@pytest.mark.parametrize(
    "attempts", [{}, {"plain_1": ["failed"]}, {"plain_1": ["succeeded"]}], ids=["no row", "dead", "succeeded unseen"]
)
def test_an_acknowledged_job_without_an_end_is_lost(attempts: dict[str, list[str]]) -> None:
    assert verdict("committed plain:k/1", **attempts).lost == 1


def test_a_job_that_is_delivered_at_most_once_may_die_but_not_vanish() -> None:
    assert verdict("committed once:k/1", "start once:k/1 1", once_1=["lost"]).lost == 0
    assert verdict("committed once:k/1").lost == 1


@pytest.mark.parametrize("again", ["start plain:k/1 1", "start plain:k/1 2"], ids=["same claim", "no reason"])
def test_a_second_run_without_a_reason_is_a_double(again: str) -> None:
    lines = ("committed plain:k/1", "start plain:k/1 1", again, "end plain:k/1 1")
    assert verdict(*lines, plain_1=["succeeded"]).doubled == 1


def test_a_second_run_of_what_is_delivered_at_most_once_is_always_a_double() -> None:
    lines = ("committed once:k/1", "start once:k/1 1", "start once:k/1 2", "end once:k/1 2")
    assert verdict(*lines, once_1=["lost", "succeeded"]).doubled == 1


def test_a_car_that_begins_before_the_one_before_it_is_over_is_out_of_order() -> None:
    lines = (
        "committed train:k/1,train:k/2",
        "start train:k/1 1",
        "start train:k/2 1",
        "end train:k/1 1",
        "end train:k/2 1",
    )
    assert verdict(*lines, train_1=["succeeded"], train_2=["succeeded"]).out_of_order == 1


def test_a_fourth_run_at_once_is_over_the_limit_of_three() -> None:
    labels = [f"limit:k/{n}" for n in range(1, 5)]
    lines = [
        f"committed {','.join(labels)}",
        *(f"start {each} 1" for each in labels),
        *(f"end {each} 1" for each in labels),
    ]
    done = {f"limit_{n}": ["succeeded"] for n in range(1, 5)}
    assert verdict(*lines, **done).over_limit == 1
    assert verdict(*lines[:4], lines[5], lines[4], *lines[6:], **done).over_limit == 0
