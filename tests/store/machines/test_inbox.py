"""A large inbox is delivered in pieces: what its machine waits for first, and the rest stays for the next step."""

from __future__ import annotations

import pytest

from headway.model.signal import INBOX_BYTES, INBOX_SIGNALS
from tests.store.machines.machine_calls import ids_of, inbox, received

LARGE = "x" * (INBOX_BYTES // 4 + 1)  # of these, three have room


def test_a_claim_brings_the_oldest_that_have_room_and_the_next_brings_the_rest(db):
    claim = db.begin()
    for n in range(5):
        db.signal(claim.id, f"s{n}", LARGE)
    db.release(claim)
    first = db.take()
    assert inbox(first) == ["s0", "s1", "s2"]
    db.turn(first, "next", "queued", step="again", consumed=ids_of(first, "s0", "s1", "s2"))
    assert inbox(db.take()) == ["s3", "s4"]


def test_one_that_is_larger_than_all_room_comes_alone(db):
    claim = db.begin()
    db.signal(claim.id, "huge", "x" * (INBOX_BYTES + 1))
    db.signal(claim.id, "small")
    db.release(claim)
    assert inbox(db.take()) == ["huge"]


@pytest.mark.parametrize("match", ["any", "all"])
def test_what_a_machine_waits_for_comes_before_what_it_does_not(db, make, match):
    claim = db.begin()
    for _ in range(5):
        db.signal(claim.id, "noise", LARGE)
    db.park(claim, "go", "stop", match=match)
    db.signal_all([make.signal(claim.id, name, LARGE) for name in ("go", "stop", "go")])
    db.process_arrivals()
    assert inbox(db.take()) == ["go", "stop", "go"]


def test_more_signals_than_a_step_gets_stay_in_order(db, make):
    claim = db.begin()
    db.signal_all([make.signal(claim.id, f"s{n}") for n in range(INBOX_SIGNALS + 5)])
    db.release(claim)
    assert inbox(db.take()) == [f"s{n}" for n in range(INBOX_SIGNALS)]


def test_a_step_that_goes_on_at_once_gets_a_piece_too(db):
    claim = db.begin()
    for n in range(5):
        db.signal(claim.id, f"s{n}", LARGE)
    settled = db.turn(claim, "next", "running", step="second")
    assert received(settled.continued[claim.id]) == ["s0", "s1", "s2"]
