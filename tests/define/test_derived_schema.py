"""What is said of a typed handler's payload to callers without its code: no more than the code itself holds to."""

from __future__ import annotations

import dataclasses
import doctest
import enum
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from headway import Context, Done, Headway, Machine, step
from headway.define import derived_schema
from headway.define.arguments import Arguments
from headway.define.definitions import definition_of
from headway.define.schema import Schema
from headway.errors import InvalidPayload


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1


def everything(
    to: str,
    count: int,
    /,
    ctx: Context,
    share: float,
    sure: bool = True,
    *,
    color: Color = Color.RED,
    size: Literal["s", "m"] | None = None,
    names: list[str] = [],  # noqa: B006 - only read
    more: dict[str, int] | None = None,
    note: str | None = None,
    at: datetime | None = None,
    day: date = date(2026, 1, 2),
    price: Decimal = Decimal("1.5"),
    wait: timedelta | None = None,
    key: UUID | None = None,
    address: Address | None = None,
    either: int | str = 0,
    anything: Any = None,
    tags: set[str] = frozenset(),  # type: ignore[assignment]
) -> None:
    """Of every type."""


GIVEN: dict[str, Any] = {"to": "a", "count": 1, "share": 2}
VALUES: dict[str, list[Any]] = {
    "to": ["", "x", 1, None],
    "count": [2, 2.5, "2", None, True],
    "share": [1, 1.5, "1", None],
    "sure": [True, False, 1, "true", None],
    "color": ["red", "green", None],
    "size": ["s", "x", None],
    "names": [[], ["a"], [1], "a", None],
    "more": [{}, {"a": 1}, None, []],
    "note": ["x", None, 1],
    "at": ["2026-01-02T03:04:05Z", None, "2026-01-02"],
    "day": ["2026-01-02", "x"],
    "price": ["1.50", 1.5, 2],
    "wait": ["PT1H", 60, None],
    "key": ["0199aaaa-0000-7000-8000-000000000000", None],
    "address": [{"street": "a"}, None, {}],
    "either": [1, "a", None],
    "anything": [1, "a", None, [], {}],
    "tags": [["a", "b"], ["a", "a"], "a"],
}


def test_what_the_code_reads_is_never_refused() -> None:
    arguments = Arguments(everything, "everything")
    found = arguments.schema()
    assert found is not None
    schema = Schema(found)
    assert found["required"] == ["to", "count", "share"]
    assert found["properties"].keys() == VALUES.keys()
    refused = {}
    for name, values in VALUES.items():
        for value in values:
            text = json.dumps(GIVEN | {name: value})
            try:
                arguments.unpack(text)
            except InvalidPayload:
                reads = False
            else:
                reads = True
            try:
                schema.check(text, "everything")
                refused.setdefault(name, 0)
            except InvalidPayload:
                assert not reads, (name, value)
                refused[name] = refused.get(name, 0) + 1
    # and of what a form has fields for, everything that the code cannot read is
    assert {name: refused[name] for name in ("to", "count", "share", "sure", "color", "size", "names", "note")} == {
        "to": 2,
        "count": 4,
        "share": 2,
        "sure": 3,
        "color": 2,
        "size": 1,
        "names": 3,
        "note": 1,
    }
    assert found["properties"]["color"] == {"enum": ["red", "blue"], "default": "red"}
    assert found["properties"]["note"] == {"type": ["string", "null"]}
    assert found["properties"]["day"] == {"default": "2026-01-02"}
    assert doctest.testmod(derived_schema).failed == 0


def test_a_definition_says_what_the_annotations_say() -> None:
    app = Headway("sqlite://")

    @app.job
    def plain(number: int, secret: str = "x") -> None: ...

    @app.job(schema={"type": "object"})
    def given(number: int) -> None: ...

    @app.job
    def open_ended(**more: Any) -> None: ...

    @app.machine
    class Order(Machine):
        class State(msgspec.Struct, rename="camel"):
            order_id: int
            paid: bool = False

        @step
        def start(self, ctx: Context) -> Done:
            return Done()

    said = {kind.name: definition_of(kind).schema for kind in app.kinds}
    assert said["given"] == '{"type":"object"}'
    assert said["open_ended"] is None
    assert json.loads(said["plain"] or "")["properties"]["number"] == {"type": "integer"}
    assert json.loads(said["order"] or "") == {
        "type": "object",
        "properties": {"orderId": {"type": "integer"}, "paid": {"type": "boolean", "default": False}},
        "required": ["orderId"],
    }
    assert plain.schema is None  # here the decoder checks, and nothing is checked twice


@pytest.mark.parametrize("value", ["seven", None])
def test_a_caller_without_the_code_is_told_at_the_enqueue(sqlite_migrated_path: str, value: Any) -> None:
    code = Headway(f"sqlite:///{sqlite_migrated_path}")

    @code.job
    def typed(number: int) -> None: ...

    code.run(until_idle=True)
    other = Headway(f"sqlite:///{sqlite_migrated_path}")
    with pytest.raises(InvalidPayload, match=r"does not fit the schema at \$\.number"):
        other.enqueue("typed", {"number": value})
    assert other.enqueue("typed", {"number": 7}).created
    other.close()
    code.close()
