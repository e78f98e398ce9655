"""References: what they are, what they give, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import headway
from headway import secrets
from headway.errors import InvalidPayload, SecretMissing
from headway.secrets import Keyring, Owner, Vault

DEFAULT = Owner("00000000-0000-7000-8000-000000000000", "default")


def keyring() -> Keyring:
    return Vault().keyring("send", DEFAULT, by_code=True)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMTP_PASSPHRASE", "kx7Qz9mw2")
    monkeypatch.setenv("PLACE", "over-there")
    monkeypatch.delenv("MISSING", raising=False)


def test_references_are_resolved_at_any_depth() -> None:
    value = {"a": {"$secret": "PLACE"}, "b": [1, {"c": {"$secret": "SMTP_PASSPHRASE"}}], "d": "$secret"}
    assert keyring().resolve(value) == {"a": "over-there", "b": [1, {"c": "kx7Qz9mw2"}], "d": "$secret"}
    assert value["a"] == {"$secret": "PLACE"}
    assert secrets.resolve_text('{"a":{"$secret":"PLACE"},"n":1.5}', keyring().get) == '{"a":"over-there","n":1.5}'
    assert keyring().resolve({"$secret": "PLACE"}) == "over-there"


def test_what_was_resolved_is_redacted_from_then_on() -> None:
    keys = keyring()
    assert secrets.redact("over-there", keys.known) == "over-there"
    assert keys.get("PLACE") == "over-there"
    assert keys.given == {"PLACE": "over-there"}
    assert secrets.redact("over-there", keys.known) == "[redacted]"
    assert secrets.redact("over-there") == "[redacted]"
    assert keys.known.longest >= len("over-there")


def test_what_holds_none_is_the_same_object() -> None:
    value = {"a": [1, {"b": "$secret"}]}
    assert keyring().resolve(value) is value
    text = '{"a":"$secret","b":["\\"$secret\\""]}'
    assert secrets.resolve_text(text, keyring().get) is text
    assert secrets.paths(text) == ()


def test_a_value_that_looks_like_a_reference_is_not_resolved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKY", '{"$secret": "PLACE"}')
    assert keyring().resolve({"a": {"$secret": "TRICKY"}}) == {"a": '{"$secret": "PLACE"}'}


def test_paths_of_references() -> None:
    text = '{"a":{"$secret":"PLACE"},"b":[0,{"c":{"$secret":"MISSING"}}]}'
    assert secrets.paths(text) == (("a",), ("b", 1, "c"))


def test_a_missing_one_is_named_and_where_to_set_it() -> None:
    with pytest.raises(SecretMissing, match="secret MISSING is not set here: set the environment variable MISSING"):
        keyring().resolve([{"$secret": "MISSING"}])


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ({"$secret": "PLACE", "x": 1}, r'\$\.a\[0\] has x beside "\$secret"'),
        ({"$secret": 7}, r"\$\.a\[0\] is named by a int"),
        ({"$secret": None}, r"\$\.a\[0\] is named by a NoneType"),
        ({"$secret": ""}, r"\$\.a\[0\] '' is not the name"),
        ({"$secret": "A-B"}, r"\$\.a\[0\] 'A-B' is not the name"),
        ({"$secret": "PLACE\n"}, r"is not the name"),
        ({"$secret": "1A"}, r"is not the name"),
        ({"$secret": "A" * 300}, r"is not the name"),
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
        keyring().resolve(value)


@pytest.mark.parametrize("name", ["HEADWAY_URL", "", "A B", "A=B"])
def test_get_refuses_the_same_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_URL", "sqlite:///x")
    with pytest.raises(InvalidPayload):
        keyring().get(name)


@pytest.mark.parametrize(
    "text",
    [
        '{"body":{"$secret":"PLACE"}}',
        '[1,{"a":[{"$secret":7,"x":1}]}]',
        '{"$secret":null}',
        '{"body":{"\\u0024secret":"PLACE"}}',
        '{"body":{"$s\\u0065cret":"PLACE"}}',
    ],
)
def test_data_from_outside_holds_no_reference(text: str) -> None:
    assert secrets.refers(text)
    with pytest.raises(InvalidPayload, match=r'event: \$.* is a reference to a secret \("\$secret"\)'):
        secrets.check_none(text, "event")


@pytest.mark.parametrize(
    "text", ['"$secret"', '{"a":"{\\"$secret\\":1}"}', '["\\u0024secret"]', '{"$secrets":1}', "null"]
)
def test_a_text_is_no_reference(text: str) -> None:
    assert not secrets.refers(text)
    secrets.check_none(text, "event")


def test_a_reference_is_written_as_the_text_that_it_becomes() -> None:
    registry = headway.Registry()

    @registry.job
    def send(token: str) -> None: ...

    assert send.build(headway.secret("MAIL_TOKEN")).payload == '{"token":{"$secret":"MAIL_TOKEN"}}'
    for wrong in ("", "two words", "HEADWAY_URL", 7):
        with pytest.raises(InvalidPayload, match=r'a secret is {"\$secret": "NAME"}'):
            headway.secret(wrong)  # type: ignore[arg-type]
