"""Enqueues: references stand for arguments of any type, and are checked when the job runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from headway.define import Registry
from headway.errors import InvalidJob, InvalidPayload, SecretMissing

REFERENCE = {"$secret": "PLANTED"}


@dataclass
class Login:
    user: str
    password: str


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("PLANTED", "kx7Qz9mw2")
    return Registry()


def test_a_reference_goes_for_any_annotation(registry: Registry) -> None:
    @registry.job
    def send(to: int, password: str, login: Login, names: list[str], options: dict[str, int], n: int = 1) -> None: ...

    given: dict[str, Any] = {
        "to": 7,
        "password": REFERENCE,
        "login": {"user": "ann", "password": REFERENCE},
        "names": ["a", REFERENCE],
        "options": REFERENCE,
    }
    payload = send.build(**given).payload
    assert json.loads(payload) == given
    assert send.build_from(given).payload == payload


def test_other_arguments_are_checked_as_ever(registry: Registry) -> None:
    @registry.job
    def send(to: int, password: str) -> None: ...

    with pytest.raises(InvalidPayload, match="to="):
        send.build_from({"to": "x", "password": REFERENCE})
    with pytest.raises(InvalidJob, match="to is missing"):
        send.build_from({"password": REFERENCE})
    with pytest.raises(InvalidJob, match="no such parameter"):
        send.build_from({"to": 7, "password": REFERENCE, "more": 1})
    with pytest.raises(InvalidJob, match="no such parameter"):
        send.build_from({"to": 7, "password": "x", "more": REFERENCE})


def test_what_is_no_reference_is_refused_with_its_path(registry: Registry) -> None:
    @registry.job
    def send(login: dict[str, Any], **more: int) -> None: ...

    with pytest.raises(InvalidPayload, match=r'send: \$\.login\.password has x beside "\$secret"'):
        send.build_from({"login": {"password": {"$secret": "PLANTED", "x": 1}}})
    with pytest.raises(InvalidPayload, match=r"send: \$\.n is named by a int"):
        send.build_from({"login": {}, "n": {"$secret": 7}})
    with pytest.raises(InvalidPayload, match="setting of Headway"):
        send.build_from({"login": {"$secret": "HEADWAY_URL"}})


def test_it_is_resolved_and_checked_when_it_runs(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    @registry.job
    def send(login: Login, *, pin: int = 0, **more: str) -> None: ...

    payload = send.build_from({"login": {"user": "ann", "password": REFERENCE}, "other": REFERENCE}).payload
    assert send.decode(payload) == ((), {"login": Login("ann", "kx7Qz9mw2"), "other": "kx7Qz9mw2"})
    with pytest.raises(InvalidPayload, match="pin"):
        send.decode(send.build_from({"login": {"user": "a", "password": "b"}, "pin": REFERENCE}).payload)
    monkeypatch.delenv("PLANTED")
    with pytest.raises(SecretMissing, match="PLANTED"):
        send.decode(payload)


def test_keys_are_made_of_the_reference_and_not_of_the_secret(registry: Registry) -> None:
    @registry.job(partition=lambda password, to: f"{to}-{password}")
    def send(to: int, password: str) -> None: ...

    key = send.build_from({"to": 7, "password": REFERENCE}).partition
    assert key is not None
    assert "PLANTED" in key
    assert "kx7" not in key


SCHEMA = {
    "type": "object",
    "properties": {
        "password": {"type": "string", "minLength": 8},
        "mail": {"type": "string", "format": "email"},
        "list": {"type": "array", "items": {"anyOf": [{"type": "object", "required": ["id"]}, {"type": "integer"}]}},
        "choice": {"enum": [{"a": "b"}]},
    },
    "required": ["mail"],
    "additionalProperties": False,
}


def test_a_schema_ignores_what_may_come_of_a_reference(registry: Registry) -> None:
    @registry.job(schema=SCHEMA)
    def send(**more: Any) -> None: ...

    send.build_from({"password": REFERENCE, "mail": "a@b.example"})
    send.build_from({"mail": REFERENCE})
    send.build_from({"mail": "a@b.example", "list": [{"inner": REFERENCE}, 1], "choice": {"a": REFERENCE}})
    with pytest.raises(InvalidPayload, match=r"\$\.mail"):
        send.build_from({"password": REFERENCE, "mail": "nobody"})
    with pytest.raises(InvalidPayload, match=r"at \$: .*mail"):
        send.build_from({"password": REFERENCE})
    with pytest.raises(InvalidPayload, match=r"\$\.list\[1\]"):
        send.build_from({"mail": "a@b.example", "list": [{"inner": REFERENCE}, "x"]})
    with pytest.raises(InvalidPayload, match="other"):
        send.build_from({"mail": "a@b.example", "other": REFERENCE})


def test_a_pattern_that_backtracks_is_given_up(registry: Registry) -> None:
    """Else each of these would take a fifth of a second, and the longer ones forever."""

    @registry.job(schema={"properties": {"list": {"items": {"pattern": r"^(a+)+\1c$"}}}})
    def send(**more: Any) -> None: ...

    send.build_from({"list": ["aac"]})
    with pytest.raises(InvalidPayload, match=r"\$\.list\[\d+\]"):
        send.build_from({"list": [*["a" * 40 + "b"] * 5_000, "a" * 50_000]})


def test_a_schema_holds_once_the_secret_is_known(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    @registry.job(schema=SCHEMA)
    def send(**more: Any) -> None: ...

    payload = send.build_from({"password": REFERENCE, "mail": "a@b.example"}).payload
    assert send.decode(payload)[1]["password"] == "kx7Qz9mw2"
    monkeypatch.setenv("PLANTED", "short")
    with pytest.raises(InvalidPayload, match=r"\$\.password"):
        send.decode(payload)
