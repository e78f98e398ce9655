"""Masking: what is shown of a payload."""

from __future__ import annotations

from typing import Any

import pytest

from headway.secrets import mask

R = "[redacted]"


def test_fields_with_secret_names_are_masked_at_any_depth() -> None:
    payload = {
        "user": "ann",
        "password": "x",
        "nested": [{"api_key": 7, "n": 1}, {"Authorization": ["a", "b"]}],
        "tokens_used": 5,
        "key": "k",
    }
    assert mask(payload) == {
        "user": "ann",
        "password": R,
        "nested": [{"api_key": R, "n": 1}, {"Authorization": R}],
        "tokens_used": 5,
        "key": "k",
    }
    assert payload["password"] == "x"


@pytest.mark.parametrize("value", [None, "", True, False, {"$secret": "NAME"}])
def test_what_tells_nothing_stays(value: Any) -> None:
    assert mask({"password": value}) == {"password": value}


def test_references_inside_of_secrets_stay_readable() -> None:
    payload = {"credentials": {"user": "ann", "pin": 7, "deep": [{"$secret": "NAME"}, "x"]}}
    assert mask(payload) == {"credentials": {"user": R, "pin": R, "deep": [{"$secret": "NAME"}, R]}}
    assert mask({"secret": {"$secret": "NAME", "x": 1}}) == {"secret": {"$secret": R, "x": R}}


@pytest.mark.parametrize("payload", [None, 7, "password", [], {}, {"a": [1, {"b": "c"}]}])
def test_what_holds_none_is_the_same_object(payload: Any) -> None:
    assert mask(payload) is payload
    assert mask(payload, {"type": "object"}) is payload


@pytest.mark.parametrize("mark", [{"writeOnly": True}, {"format": "password"}, {"x-secret": True}])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda marked: {"properties": {"pin": marked}},
        lambda marked: {"properties": {"pin": {"$ref": "#/$defs/Pin"}}, "$defs": {"Pin": marked}},
        lambda marked: {
            "properties": {"pin": {"$ref": "#/definitions/a~1b%20c"}},
            "definitions": {"a/b c": {"allOf": [marked]}},
        },
        lambda marked: {"allOf": [{"properties": {"pin": marked}}]},
        lambda marked: {"anyOf": [{"type": "null"}, {"oneOf": [{"properties": {"pin": marked}}]}]},
        lambda marked: {"if": {}, "then": {"properties": {"pin": {"anyOf": [{"type": "null"}, marked]}}}},
        lambda marked: {"patternProperties": {"^p": marked}},
        lambda marked: {"additionalProperties": marked, "properties": {"user": {}}},
        lambda marked: {
            "$ref": "#/$defs/Me",
            "$defs": {"Me": {"$anchor": "x", "properties": {"pin": {"$ref": "#me"}}}, "M": {"$anchor": "me", **marked}},
        },
    ],
)
def test_a_schema_marks_fields(mark: dict[str, Any], wrap: Any) -> None:
    assert mask({"pin": 7, "user": "ann"}, wrap(mark)) == {"pin": R, "user": "ann"}
    assert mask({"pin": {"$secret": "PIN"}}, wrap(mark)) == {"pin": {"$secret": "PIN"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"list": {"items": {"properties": {"pin": {"writeOnly": True}}}}}},
        {"properties": {"list": {"prefixItems": [{}, {"properties": {"pin": {"writeOnly": True}}}]}}},
        {"properties": {"list": {"items": [{}, {"properties": {"pin": {"writeOnly": True}}}]}}},
    ],
)
def test_a_schema_marks_fields_of_items(schema: dict[str, Any]) -> None:
    assert mask({"list": ["x", {"pin": 7}]}, schema) == {"list": ["x", {"pin": R}]}


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "allOf": [{"$ref": "#/$defs/Node"}, {"$ref": "#"}],
                "properties": {"next": {"$ref": "#/$defs/Node"}, "pin": {"x-secret": True}},
            }
        },
    }
    deep: Any = {"pin": 1}
    for _ in range(50):
        deep = {"next": deep}
    shown = mask(deep, tree)
    for _ in range(50):
        shown = shown["next"]
    assert shown == {"pin": R}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 7, "items": 7, "allOf": 7, "$ref": "#/nowhere/0", "patternProperties": {"(": {}}},
        {"$ref": "https://example.com/x", "anyOf": [True, False, None]},
        {"properties": {"a": True}, "$ref": "#nothing", "$defs": {"a": 7}},
    ],
)
def test_a_strange_schema_marks_nothing(schema: dict[str, Any]) -> None:
    assert mask({"a": [1, {"b": 2}]}, schema) == {"a": [1, {"b": 2}]}
