"""Which jobs may be moved, and beside which others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway.errors import InvalidJob, NotAllowed
from headway.model.move import check_movable, check_neighbour, check_ways


class Standing(msgspec.Struct, frozen=True):
    id: str = "a"
    queue: str = "default"
    train: str | None = None
    status: Any = "queued"


@pytest.mark.parametrize("ways", [(None, None, False, False), ("b", None, True, False), (None, None, True, True)])
def test_exactly_one_place_is_given(ways):
    with pytest.raises(InvalidJob):
        check_ways(*ways)


def test_what_stands_in_a_line_moves():
    check_ways("b", None, False, False)
    check_movable(Standing())
    check_movable(Standing(train="t", status="held"))
    check_neighbour(Standing(), Standing("b"))
    check_neighbour(Standing(train="t", status="held"), Standing("b", train="t", status="held"))


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Standing(status="running"), "it is running"),
        (Standing(status="dead"), "it is dead"),
        (Standing(status="held"), "it waits for other jobs, not in a line"),
        (Standing(status="waiting"), "it waits for its signals or children, not in a line"),
        (Standing(status="scheduled"), "gets its place when it is due"),
        (Standing(train="t"), "it is the locomotive of train t, which goes first"),
    ],
)
def test_what_stands_in_no_line_stays(job, why):
    with pytest.raises(NotAllowed, match=why):
        check_movable(job)


@pytest.mark.parametrize(
    ("job", "near", "why"),
    [
        (Standing(), Standing(), "to itself"),
        (Standing(), Standing("b", queue="other"), "not in the same queue"),
        (Standing(train="t", status="held"), Standing("b"), "not in the same train"),
        (Standing(train="t", status="held"), Standing("b", train="t"), r"is the locomotive \(queued\)"),
        (Standing(train="t", status="held"), Standing("b", train="t", status="dead"), "job b is dead and has no place"),
        (Standing(), Standing("b", train="t", status="scheduled"), "job b is scheduled and has no place"),
    ],
)
def test_a_neighbour_stands_in_the_same_line(job, near, why):
    with pytest.raises(NotAllowed, match=why):
        check_neighbour(job, near)
