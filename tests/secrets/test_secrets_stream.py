"""Streams: text in pieces is redacted as if it had come at once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headway import secrets
from headway.secrets.values import add_resolved

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="[]\x00"), min_size=4, max_size=24)


def _chunks(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@given(st.data())
def test_no_chunking_lets_a_known_value_through(data: st.DataObject) -> None:
    secrets.forget()
    values = [value for value in data.draw(st.lists(TEXTS, min_size=1, max_size=3)) if len(value.strip()) >= 4]
    for value in values:
        add_resolved(value)
    filler = st.one_of(st.sampled_from(["\n", " ", "x\n", "line\n"]), *map(st.just, values))
    text = "".join(data.draw(st.lists(filler, max_size=12)))
    stream = secrets.Stream()
    shown = ""
    for chunk in _chunks(text, data.draw(st.lists(st.integers(0, 500), max_size=12))):
        shown += stream.feed(chunk)
        if data.draw(st.booleans()):
            shown += stream.flush()
        for value in values:
            assert value.strip() not in shown
    shown += stream.close()
    for value in values:
        assert value.strip() not in shown
    assert text.count("line") == shown.count("line") or any(_touches(value, "line\n") for value in values)


def _touches(value: str, line: str) -> bool:
    """Whether the value may cover a part of the line that is counted."""
    return any(char in value for char in line)


@given(st.lists(st.integers(0, 500), max_size=12))
def test_patterns_are_found_across_chunks(cuts: list[int]) -> None:
    text = "one\nurl postgres://app:p4ssw0rd@db/x two\ntoken=abcdef0123 three\n"
    stream = secrets.Stream()
    shown = "".join(map(stream.feed, _chunks(text, cuts))) + stream.close()
    assert shown == "one\nurl postgres://app:[redacted]@db/x two\ntoken=[redacted] three\n"


def test_lines_come_when_they_are_whole_and_a_prompt_when_it_is_asked_for() -> None:
    add_resolved("kx7Qz9mw2")
    stream = secrets.Stream()
    assert stream.feed("one\ntwo\nthree: ") == "one\ntwo\n"
    assert stream.flush() == "three: "
    assert stream.feed("name: kx7") == ""
    assert stream.flush() == "name: "
    assert stream.feed("Qz9mw2\n") == "[redacted]\n"
    assert stream.feed("kx7") == ""
    assert stream.close() == "kx7"
    assert stream.close() == ""


def test_a_value_of_several_lines_is_waited_for() -> None:
    add_resolved("first\nsecond\nthird")
    stream = secrets.Stream()
    assert [stream.feed(text) for text in ("a\nfirst\n", "second\n", "third\nb\n")] == ["a\n", "", "[redacted]\nb\n"]
    assert stream.feed("first\nsecond\nother\n") == "first\nsecond\nother\n"


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    stream = secrets.Stream()
    given_back = sum(len(stream.feed("x" * 10_000)) for _ in range(100))
    assert given_back >= 900_000


def test_a_key_without_end_is_not_kept_for_ever() -> None:
    stream = secrets.Stream()
    shown = stream.feed("-----BEGIN PRIVATE KEY-----\n") + "".join(stream.feed("a1b2c3\n") for _ in range(50_000))
    shown += stream.close()
    assert shown.startswith("-----BEGIN PRIVATE KEY-----[redacted]")
