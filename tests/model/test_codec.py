"""What the codec writes, and each thing that it refuses, with its path."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import time
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import InvalidJob, InvalidPayload
from headway.model.codec import check_text, decode, encode

LIMIT = 1_048_576


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    when: datetime | None = None


class Item(msgspec.Struct, rename="camel"):
    item_name: Any
    price: Any = msgspec.UNSET


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(alias="orderNumber")
    weight: float = 1.0


def refusal(value: Any) -> str:
    with pytest.raises(InvalidPayload) as caught:
        encode(value, limit=LIMIT)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"user_id": 7, "none": None, "yes": True}, '{"user_id":7,"none":null,"yes":true}'),
        (None, "null"),
        ((1, "two", 3.5), '[1,"two",3.5]'),
        (Color.RED, '"red"'),
        ({Color.RED: 1, 2: 3, UUID(int=5): 4}, '{"red":1,"2":3,"00000000-0000-0000-0000-000000000005":4}'),
        (datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC), '"2031-01-02T03:04:05Z"'),
        (date(2031, 1, 2), '"2031-01-02"'),
        (timedelta(seconds=90), '"PT90S"'),
        (Decimal("1.50"), '"1.50"'),
        (b"\x00\x01", '"AAE="'),
        (Point(1.5), '{"x":1.5,"when":null}'),
        (Item("nail"), '{"itemName":"nail"}'),
        (Order(orderNumber=3), '{"orderNumber":3,"weight":1.0}'),
        (MappingProxyType({"a": OrderedDict(b=1)}), '{"a":{"b":1}}'),
        (2**64 - 1, "18446744073709551615"),
        (-(2**63), "-9223372036854775808"),
        ("a\\u0000b null 2031-01-02T03:04:05", '"a\\\\u0000b null 2031-01-02T03:04:05"'),
        ("[" * 500, '"' + "[" * 500 + '"'),
        ("12345678901234567890123", '"12345678901234567890123"'),
    ],
)
def test_what_json_can_keep_is_written(value: Any, text: str) -> None:
    assert encode(value, limit=LIMIT) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"items": [0, 1, 2, {"name": math.nan}]}, "$.items[3].name is nan, which JSON has no number for"),
        ([math.inf], "$[0] is inf"),
        ({"a": None, "b": -math.inf}, "$.b is -inf"),
        (Point(math.nan), "$.x is nan"),
        ({"a": ["x", "y\0z"]}, "$.a[1] holds a NUL character, which PostgreSQL cannot keep: remove it"),
        ({"a": {"k\0": 1}}, "$.a has a key that holds a NUL character"),
        ({"a b": "\ud800"}, "$[\"a b\"] holds the lone surrogate '\\ud800'"),
        ({"\udfff": 1}, "$ has a key that holds the lone surrogate"),
        ({"n": 2**64}, "$.n is an integer beyond 64 bits: pass it as a string"),
        ({"n": [-(2**63) - 1]}, "$.n[0] is an integer beyond 64 bits"),
        ({2**70: 1}, "$ has a key that is an integer beyond 64 bits"),
        (
            {"at": datetime(2031, 1, 2, 3, 4)},  # noqa: DTZ001
            "$.at is the naive datetime 2031-01-02T03:04:00: add a zone, e.g. datetime.now(UTC)",
        ),
        (Point(1.0, datetime(2031, 1, 2, 3, 4, 5, 6)), "$.when is the naive datetime"),  # noqa: DTZ001
        ({datetime(2031, 1, 2): 1}, "$ has a key that is the naive datetime"),  # noqa: DTZ001
        ({"a": [object()]}, "$.a[0] is a object, which cannot be stored as JSON: pass plain values"),
        (Item(Item(object())), "$.itemName.itemName is a object"),
        ({"file": sys.stdout}, "which cannot be stored as JSON"),
        ({"a": {None: 1}}, "$.a has a key that is None of type NoneType: keys are strings"),
        ({(1, 2): 1}, "$ has a key that is (1, 2) of type tuple"),
        ({"a": {True: 1}}, "$.a has a key that is True of type bool"),
        ({"o": Order(orderNumber=1, weight=math.nan)}, "$.o.weight is nan"),
    ],
)
def test_what_a_store_cannot_keep_is_refused_with_its_path(value: Any, message: str) -> None:
    assert message in refusal(value)


def test_a_refusal_says_what_was_refused() -> None:
    with pytest.raises(InvalidPayload, match=r"the result cannot be stored: \$ is nan"):
        encode(math.nan, limit=LIMIT, what="result")


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_nesting_is_allowed_down_to_64_levels() -> None:
    assert decode(encode(nested(64), limit=LIMIT)) == nested(64)
    assert "nested deeper than 64 levels" in refusal(nested(65))
    assert "nested deeper than 64 levels" in refusal(nested(100_000))


def test_many_containers_are_not_deep_ones() -> None:
    rows = [{"brackets": '[[{{"]}', "list": [[], {}]} for _ in range(1_000)]
    assert decode(encode(rows, limit=LIMIT)) == rows
    assert "nested deeper" in refusal([*rows, nested(64)])


def test_a_structure_that_contains_itself_is_too_deep() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = [loop]
    message = refusal(loop)
    assert "contains itself" in message
    assert len(message) < 300


def test_the_limit_counts_bytes_and_says_what_to_do() -> None:
    assert encode("é" * 10, limit=22) == '"éééééééééé"'
    with pytest.raises(InvalidPayload) as caught:
        encode("é" * 1_000, limit=1_500)
    assert str(caught.value) == (
        "the payload is 2,002 bytes of JSON, over the limit of 1,500: "
        "store the blob elsewhere (a file, an object store, a table) and pass a reference to it"
    )


def test_a_model_that_cannot_be_dumped_is_refused_and_named() -> None:
    class Broken(pydantic.BaseModel):
        @pydantic.model_serializer
        def dump(self) -> Any:
            raise ValueError("no luck")

    message = refusal({"b": Broken()})
    assert "$.b is a" in message
    assert "no luck" in message


def test_subclasses_of_plain_types_are_written_as_those() -> None:
    class Text(str):
        __slots__ = ()

    class Number(float):
        __slots__ = ()

    assert encode([Text("a"), Number(1.5)], limit=LIMIT) == '["a",1.5]'
    assert "$[0] is nan" in refusal([Number("nan")])


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ('{"itemName":1}', dict[str, str], "at $[...]: expected `str`, got `int`"),
        ('[{"x":"far"}]', list[Point], "at $[0].x: expected `float`, got `str`"),
        ("[1,", Any, "at $: input data was truncated"),
        ("[" * 100_000, Any, "at $: it is nested too deeply"),
        ('"\\ud800"', Any, "at $"),
        ('{"orderNumber":"x"}', Order, "validation error for Order"),
        ("1", complex, "at $"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_its_path(text: str, shape: Any, message: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode(text, shape)
    assert message in str(caught.value)


def test_types_come_back_as_they_were() -> None:
    order = Order(orderNumber=3)
    assert decode(encode(order, limit=LIMIT), Order) == order
    point = Point(1.5, datetime(2031, 1, 2, tzinfo=UTC))
    assert decode(encode(point, limit=LIMIT), Point) == point


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_plain_values_come_back_equal_or_are_refused(value: Any) -> None:
    try:
        text = encode(value, limit=LIMIT)
    except InvalidPayload:
        assert "nan" in repr(value) or "inf" in repr(value) or "\\x00" in repr(value) or "\\ud" in repr(value)
    else:
        assert decode(text) == value


def test_keys_are_checked_and_named() -> None:
    assert check_text("order:42", "unique_key") == "order:42"
    for value, message in [
        ("", "unique_key is empty: give a text, or None for no unique_key"),
        (7, "unique_key=7 is int, not a string: give str(…) of it"),
        ("x" * 513, "has 513 characters, over the limit of 512: shorten it"),
        ("a\0", "holds a NUL character"),
        ("a\ud800", "holds the lone surrogate"),
    ]:
        with pytest.raises(InvalidJob) as caught:
            check_text(value, "unique_key")
        assert message in str(caught.value)


def test_a_small_payload_is_quick() -> None:
    started = time.process_time()
    for _ in range(1_000):
        encode({"user_id": 7, "tags": ["a", None]}, limit=LIMIT)
    assert time.process_time() - started < 0.2  # about 0.003 on a quiet machine: only a blunder fails this
