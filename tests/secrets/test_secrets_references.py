"""References: what they are, what they give, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headway import secrets
from headway.errors import ConfigError, InvalidPayload, SecretMissing


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMTP_PASSPHRASE", "kx7Qz9mw2")
    monkeypatch.setenv("PLACE", "over-there")
    monkeypatch.delenv("MISSING", raising=False)


def test_references_are_resolved_at_any_depth() -> None:
    value = {"a": {"$secret": "PLACE"}, "b": [1, {"c": {"$secret": "SMTP_PASSPHRASE"}}], "d": "$secret"}
    assert secrets.resolve(value) == {"a": "over-there", "b": [1, {"c": "kx7Qz9mw2"}], "d": "$secret"}
    assert value["a"] == {"$secret": "PLACE"}
    assert secrets.resolve_text('{"a":{"$secret":"PLACE"},"n":1.5}') == '{"a":"over-there","n":1.5}'
    assert secrets.resolve({"$secret": "PLACE"}) == "over-there"


def test_what_was_resolved_is_redacted_from_then_on() -> None:
    assert secrets.redact("over-there") == "over-there"
    assert secrets.get("PLACE") == "over-there"
    assert secrets.redact("over-there") == "[redacted]"
    assert secrets.longest() >= len("over-there")


def test_what_holds_none_is_the_same_object() -> None:
    value = {"a": [1, {"b": "$secret"}]}
    assert secrets.resolve(value) is value
    text = '{"a":"$secret","b":["\\"$secret\\""]}'
    assert secrets.resolve_text(text) is text
    assert secrets.paths(text) == ()


def test_a_value_that_looks_like_a_reference_is_not_resolved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKY", '{"$secret": "PLACE"}')
    assert secrets.resolve({"a": {"$secret": "TRICKY"}}) == {"a": '{"$secret": "PLACE"}'}


def test_paths_of_references() -> None:
    text = '{"a":{"$secret":"PLACE"},"b":[0,{"c":{"$secret":"MISSING"}}]}'
    assert secrets.paths(text) == (("a",), ("b", 1, "c"))


def test_a_missing_one_is_named_and_where_to_set_it() -> None:
    with pytest.raises(SecretMissing, match="secret MISSING is not set here: set the environment variable MISSING"):
        secrets.resolve([{"$secret": "MISSING"}])


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ({"$secret": "PLACE", "x": 1}, r'\$\.a\[0\] has x beside "\$secret"'),
        ({"$secret": 7}, r"\$\.a\[0\] is named by a int"),
        ({"$secret": None}, r"\$\.a\[0\] is named by a NoneType"),
        ({"$secret": ""}, r"\$\.a\[0\] '' is no name"),
        ({"$secret": "A-B"}, r"\$\.a\[0\] 'A-B' is no name"),
        ({"$secret": "PLACE\n"}, r"is no name"),
        ({"$secret": "1A"}, r"is no name"),
        ({"$secret": "A" * 300}, r"is no name"),
        ({"$secret": "HEADWAY_URL"}, r"HEADWAY_URL is a setting of Headway"),
        ({"$secret": "headway_url"}, r"is a setting of Headway"),
    ],
)
def test_what_is_no_reference_is_refused_with_its_path(reference: Any, reason: str) -> None:
    value = {"a": [reference]}
    assert not secrets.is_reference(reference)
    with pytest.raises(InvalidPayload, match=reason):
        secrets.check(value)
    with pytest.raises(InvalidPayload, match=reason):
        secrets.resolve(value)


@pytest.mark.parametrize("name", ["HEADWAY_URL", "", "A B", "A=B"])
def test_get_refuses_the_same_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_URL", "sqlite:///x")
    with pytest.raises(InvalidPayload):
        secrets.get(name)


def test_only_allowed_names_are_given() -> None:
    secrets.allow(["SMTP_*", "OTHER"])
    assert secrets.get("SMTP_PASSPHRASE") == "kx7Qz9mw2"
    with pytest.raises(SecretMissing, match=r"PLACE is not given to jobs here: add it to allow under \[secrets\]"):
        secrets.get("PLACE")
    secrets.allow([])
    with pytest.raises(SecretMissing):
        secrets.get("SMTP_PASSPHRASE")
    secrets.allow(["*"])
    with pytest.raises(InvalidPayload, match="setting of Headway"):
        secrets.get("HEADWAY_URL")
    secrets.allow(None)
    assert secrets.get("PLACE") == "over-there"


@pytest.mark.parametrize("patterns", ["SMTP_*", 7, [7], [""], ["A B"], ["[a-z]"]])
def test_a_wrong_allow_list_is_refused(patterns: Any) -> None:
    with pytest.raises(ConfigError, match=r"\[secrets\] allow"):
        secrets.allow(patterns)
