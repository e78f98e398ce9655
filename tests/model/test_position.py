"""Positions in a line, and the gaps between them."""

from __future__ import annotations

from headway.model.position import GAP, between, renumbered, spread


def test_new_positions_are_a_gap_apart():
    assert spread(5 * GAP, 3) == [3 * GAP, 4 * GAP, 5 * GAP]
    assert spread(GAP, 0) == []


def test_a_gap_gives_its_middle_until_nothing_fits_in():
    low, high, fitted = 0, GAP, 0
    while (position := between(low, high)) is not None:
        assert low < position < high
        high, fitted = position, fitted + 1
    assert (high, fitted) == (1, 10)
    assert between(-GAP, GAP) == 0


def test_as_few_as_give_room_are_renumbered():
    following = [11, 12, 13, 500, 501]
    places = renumbered(10, following)
    assert places is not None
    assert len(places) == 4  # the new one, and the three before 500
    assert sorted({*places, 10, 500}) == [10, *places, 500]
    assert min(b - a for a, b in zip([10, *places], [*places, 500], strict=True)) >= 2


def test_the_first_that_follows_stays_where_there_is_room_before_it():
    assert renumbered(0, [4]) == [2]


def test_there_is_no_room_before_the_last():
    assert renumbered(0, [1, 2, 3]) is None
    assert renumbered(0, []) is None
