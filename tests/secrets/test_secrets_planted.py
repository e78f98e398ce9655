"""Planted values: whatever is around one, it does not survive."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headway import secrets
from headway.secrets.values import add_resolved

# brackets are what is put in its place
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="[]\x00"), min_size=4, max_size=60).filter(
    lambda value: len(value.strip()) >= 4 and value.strip() not in "redacted"
)
AROUND = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)


@given(VALUES, st.lists(AROUND, min_size=1, max_size=5))
def test_in_any_text(value: str, around: list[str]) -> None:
    secrets.forget()
    add_resolved(value)
    value = value.strip()
    assert value not in secrets.redact(value.join(around))


@given(VALUES, AROUND, AROUND)
def test_in_any_spelling(value: str, before: str, after: str) -> None:
    secrets.forget()
    add_resolved(value)
    value = value.strip()
    for write in (json.dumps, repr, quote, lambda text: msgspec.json.encode(text).decode()):
        clean = secrets.redact(f"{before} {write(value)} {after}")
        assert value not in clean
        assert write(value).strip("'\"") not in clean


def _planted(value: str) -> st.SearchStrategy[Any]:
    """JSON values with the value somewhere in them, as a part of strings and of keys."""
    texts = st.tuples(AROUND, AROUND).map(lambda around: around[0] + value + around[1])
    leaves = st.one_of(texts, texts, AROUND, st.integers(-(2**53), 2**53), st.booleans(), st.none())
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | AROUND, inner, max_size=3),
        max_leaves=8,
    )


@given(st.data(), VALUES)
def test_in_any_json_it_is_found(data: st.DataObject, value: str) -> None:
    value = value.strip()
    document = data.draw(_planted(value))
    inside = [text for text in _strings(document) if value in text]
    expected = any(len(value) >= 8 or text.strip() == value for text in inside)
    for text in (msgspec.json.encode(document).decode(), json.dumps(document)):
        found = secrets.exposed(text, {"OTHER": "\x00 no text has this", "PLANTED": f" {value}\n"})
        assert (found is not None) == expected
        assert found is None or found[0] == "PLANTED"


def _strings(document: Any) -> list[str]:
    match document:
        case str():
            return [document]
        case dict():
            return [text for pair in document.items() for each in pair for text in _strings(each)]
        case list():
            return [text for each in document for text in _strings(each)]
    return []
