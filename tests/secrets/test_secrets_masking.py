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


def test_a_schema_marks_what_comes_after_the_listed_items() -> None:
    schema = {"prefixItems": [{}, {"writeOnly": True}], "items": {"properties": {"pin": {"writeOnly": True}}}}
    assert mask(["a", "b", {"pin": 1}, {"pin": 2}], schema) == ["a", R, {"pin": R}, {"pin": R}]


def test_a_pattern_that_only_backtracking_could_decide_hides_all_it_may_mean() -> None:
    schema = {
        "properties": {"user": {}},
        "patternProperties": {"^(?!user)p": {"writeOnly": True}, "(": {"x-secret": True}},
    }
    assert mask({"pin": 1, "user": "ann"}, schema) == {"pin": R, "user": R}


# cost: each would take minutes if it were not linear


def test_a_hostile_pattern_costs_no_more_than_another() -> None:
    schema = {"patternProperties": {"^(a+)+$": {"writeOnly": True}, "^(p|p)*n$": {"writeOnly": True}}}
    payload = {"a" * 50_000 + "b": 1, "p" * 50_000: 2, "aaa": 3}
    assert mask(payload, schema) == {**payload, "aaa": R}


def test_a_hostile_schema_costs_no_more_than_its_size() -> None:
    many = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 2}"}]} for n in range(400)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**many, "d400": {"properties": {"pin": {"writeOnly": True}}}, "d401": {}}}
    assert mask([{"pin": 1}] * 3 + [{"pin": 1, "n": list(range(1_000))}], {"items": schema["$defs"]["d400"]}) == [
        *[{"pin": R}] * 3,
        {"pin": R, "n": list(range(1_000))},
    ]
    assert mask({"pin": 1}, schema) == {"pin": R}


def test_a_large_payload_is_walked_once() -> None:
    schema = {"items": {"$ref": "#/$defs/Row"}, "$defs": {"Row": {"properties": {"pin": {"writeOnly": True}}}}}
    rows = [{"id": n, "name": "x", "list": [1, 2, 3]} for n in range(20_000)]
    assert mask(rows, schema) is rows
    rows[-1] = {"pin": 7}
    assert mask(rows, schema) == [*rows[:-1], {"pin": R}]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 7, "items": 7, "allOf": 7, "$ref": "#/nowhere/0", "patternProperties": {"(": {}, "a": 7}},
        {"$ref": "https://example.com/x", "anyOf": [True, False, None]},
        {"properties": {"a": True}, "$ref": "#nothing", "$defs": {"a": 7}},
    ],
)
def test_a_strange_schema_marks_nothing(schema: dict[str, Any]) -> None:
    assert mask({"a": [1, {"b": 2}]}, schema) == {"a": [1, {"b": 2}]}
