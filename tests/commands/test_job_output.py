"""`ctx.output`: raw output in a job's log tail, in whole lines and without secrets."""

from __future__ import annotations

import random

import pytest

from headway.define import Context
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim

SECRET = "qwertzuiop-asdfghjkl-yxcvbnm"


@pytest.fixture
def ctx() -> Context:
    claim = Claim(
        "j1", DEFAULT_TENANT_ID, "work", "mail", "{}", 4, 0, 0, 5, 5, 1, 2, None, "at_least_once", None, None, None
    )
    return Context(claim)


def tail(ctx: Context) -> tuple[str | None, int]:
    report = ctx.take_report()
    assert report is not None
    return report.tail, report.tail_end


def test_whole_lines_are_shown_and_the_rest_when_the_job_ends(ctx: Context) -> None:
    ctx.output("one\ntw")
    assert tail(ctx) == ("one\n", 4)
    ctx.output("o\nthr")
    assert tail(ctx) == ("one\ntwo\n", 8)
    ctx.output("ee")
    assert ctx.take_report() is None
    ctx.close_outputs()
    assert tail(ctx) == ("one\ntwo\nthree", 13)


def test_streams_keep_their_lines_apart(ctx: Context) -> None:
    ctx.output("out")
    ctx.output("err\n", stream="stderr")
    ctx.output("put\n")
    assert tail(ctx) == ("err\noutput\n", 11)


def test_log_lines_and_output_stand_under_each_other(ctx: Context) -> None:
    ctx.log("first")
    ctx.output("second\n")
    ctx.log("third")
    ctx.log("fourth")
    assert tail(ctx) == ("first\nsecond\nthird\nfourth", 25)


def test_a_long_line_is_shown_in_pieces(ctx: Context) -> None:
    for _ in range(10):
        ctx.output("x" * 1_000)
    text, end = tail(ctx)
    assert text is not None
    assert 8_000 <= len(text) == end <= 10_000


def test_the_end_counts_what_the_tail_has_lost(ctx: Context) -> None:
    seen = ""
    for number in range(20_000):
        ctx.output(f"line {number}\n")
        if number % 1_000 == 0:
            text, end = tail(ctx)
            assert text is not None
            seen += text[len(seen) - end :] if end - len(seen) <= len(text) else ""
    text, end = tail(ctx)
    assert text is not None
    assert len(text) <= 65_536
    assert end == sum(len(f"line {number}\n") for number in range(20_000))
    assert text.endswith("line 19999\n")
    assert text.startswith("line ")
    assert seen == "".join(f"line {number}\n" for number in range(19_001))


def test_what_a_store_cannot_keep_is_replaced_in_output(ctx: Context) -> None:
    ctx.output("a\0b\ud800\n")
    assert tail(ctx)[0] == "a�b?\n"


@pytest.mark.parametrize("seed", range(30))
def test_no_piece_of_a_secret_is_shown_however_it_is_cut(
    ctx: Context, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setenv("OUTPUT_TOKEN", SECRET)
    parts = [chance.choice([SECRET, "x" * chance.randrange(3_000), "\n", "ok"]) for _ in range(100)]
    text = "".join(parts)
    place = 0
    while place < len(text):
        size = chance.choice([1, 7, 20, 500, 4_096])
        ctx.output(text[place : place + size])
        place += size
        if chance.random() < 0.05:
            # some is lost, in the middle of whatever it is
            place += chance.randrange(100)
            ctx.output_gap("[gap]")
    ctx.close_outputs()
    shown, _ = tail(ctx)
    assert shown is not None
    for begin in range(len(SECRET) - 8):
        assert SECRET[begin : begin + 8] not in shown
