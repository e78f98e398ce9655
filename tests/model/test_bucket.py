"""Rates as plain arithmetic: how many may start, whatever the moments at which somebody asks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.model.bucket import SLOTS, Bucket, Rate, forget_at, next_at, room, start

asked = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 30)), max_size=80)


def started(rate, asks):
    """When each of these starts is, if each ask takes as many as it may; an ask may come a little late."""
    bucket, now, starts = None, 1_000_000, []
    for pause, many in asks:
        now += pause
        began = now - pause // 3  # as a claim does that waited for another
        taken = max(0, min(many, int(room(rate, bucket, began) + 1e-9)))
        if taken:
            bucket = start(rate, bucket, taken, began)
        starts += [began] * taken
        assert bucket is None or len(bucket.starts) <= SLOTS + 2
    return sorted(starts)


def most_in_a_window(starts, length):
    return max((sum(1 for each in starts if first <= each < first + length) for first in starts), default=0)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 12), st.integers(1, 700), asked)
def test_in_any_window_at_most_its_number_start(count, period_us, asks):
    starts = started(Rate(count, period_us), asks)
    assert most_in_a_window(starts, period_us) <= count


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 12), st.integers(1, 700), st.integers(1, 20), asked)
def test_with_a_burst_at_most_that_many_more(count, period_us, burst, asks):
    starts = started(Rate(count, period_us, burst), asks)
    assert most_in_a_window(starts, period_us) <= count + burst


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 1_000), st.integers(SLOTS, 100_000), st.integers(1, 100))
def test_who_keeps_asking_gets_nearly_all_of_it(count, period_us, at_once):
    """Places come back at most a slot late."""
    rate, bucket, now, taken = Rate(count, period_us), None, 0, 0
    while now < 8 * period_us:
        many = min(count if now else at_once, int(room(rate, bucket, now)))
        taken += many
        bucket = start(rate, bucket, many, now) if many else bucket
        now = next_at(rate, bucket, now) if room(rate, bucket, now) < 1 else now + 1 + period_us // 100
    assert taken >= (7 * count * SLOTS) // (SLOTS + 1) - count


@given(st.integers(1, 12), st.integers(1, 700), st.none() | st.integers(1, 20), asked)
def test_a_place_is_there_when_it_was_said_to_come_back_and_a_forgotten_bucket_is_like_none(
    count, period_us, burst, asks
):
    rate, bucket, now = Rate(count, period_us, burst), None, 0
    for pause, many in asks:
        now += pause
        taken = max(0, min(many, int(room(rate, bucket, now) + 1e-9)))
        bucket = start(rate, bucket, taken, now)
        if room(rate, bucket, now) < 1:
            assert room(rate, bucket, next_at(rate, bucket, now)) >= 1 - 1e-6
        full = forget_at(rate, bucket)
        assert abs(room(rate, bucket, full) - room(rate, None, full)) < 1e-6


def test_a_start_that_is_written_late_counts_from_the_latest_of_its_slot():
    rate = Rate(2, 6_400)
    bucket = start(rate, start(rate, None, 1, 250), 1, 210)
    assert bucket == Bucket(at=210, starts=((250, 2),))
    assert (room(rate, bucket, 6_649), room(rate, bucket, 6_650)) == (0, 2)
