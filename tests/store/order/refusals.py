"""What both stores refuse about trains, and the words that they write where one job's end is another's."""

from __future__ import annotations

from typing import Any

from tests.store.refusal_cases import A


def a_skip_of_a_job_that_is_no_car(db: Any) -> None:
    db.enqueue(id=A)
    db.skip(A)


def a_skip_of_a_running_car(db: Any) -> None:
    db.start(id=A, train="t")
    db.skip(A)


def a_skip_of_a_car_that_is_over(db: Any) -> None:
    db.finish(db.start(id=A, train="t"))
    db.skip(A)


def a_skip_of_a_car_that_is_dead_and_holds_nothing(db: Any) -> None:
    db.settle(db.start(id=A, train="t"), "dead")
    db.skip(A)
