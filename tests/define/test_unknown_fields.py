"""Fields that a newer release added to a state outlive the steps of an older one."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from pydantic.alias_generators import to_camel

from headway.define.state import Shape
from headway.errors import InvalidOutcome

LIMIT = 1_000


class LineStruct(msgspec.Struct):
    sku: str
    count: int = 1


class AsStruct(msgspec.Struct):
    order: int
    line: LineStruct | None = None


@dataclasses.dataclass
class LineDataclass:
    sku: str
    count: int = 1


@dataclasses.dataclass
class AsDataclass:
    order: int
    line: LineDataclass | None = None


class LineModel(pydantic.BaseModel):
    sku: str
    count: int = 1


class AsModel(pydantic.BaseModel):
    order: int
    line: LineModel | None = None


class LineDict(TypedDict):
    sku: str
    count: int


class AsTypedDict(TypedDict, total=False):
    order: int
    line: LineDict | None


def rewritten(type_: Any, stored: Any, change: Any = None) -> Any:
    """The stored state after a step of this type read it, changed it, and returned it."""
    shape = Shape(type_, "checkout")
    before = msgspec.json.encode(stored).decode()
    state = shape.read(before)
    if change is not None:
        state = change(state) or state
    return msgspec.json.decode(shape.conform(state, LIMIT, before=before))


@pytest.mark.parametrize("type_", [AsStruct, AsDataclass, AsModel, AsTypedDict])
def test_a_field_that_this_code_does_not_know_is_written_back_as_it_was(type_: Any) -> None:
    stored = {"order": 7, "line": {"sku": "a", "count": 2, "gift": {"note": "hi"}}, "coupon": [1, None, "x"]}
    assert rewritten(type_, stored) == stored


@pytest.mark.parametrize("type_", [AsStruct, AsDataclass, AsModel])
def test_what_the_step_changed_is_written_beside_it(type_: Any) -> None:
    def change(state: Any) -> None:
        state.order = 8
        state.line.count = 3

    stored = {"order": 7, "line": {"sku": "a", "count": 2, "gift": True}, "coupon": "x"}
    assert rewritten(type_, stored, change) == {
        "order": 8,
        "line": {"sku": "a", "count": 3, "gift": True},
        "coupon": "x",
    }


def test_a_state_that_is_replaced_as_a_whole_keeps_them_too() -> None:
    assert rewritten(AsStruct, {"order": 7, "coupon": "x"}, lambda _: AsStruct(order=9)) == {
        "order": 9,
        "line": None,
        "coupon": "x",
    }


def test_what_the_step_removed_takes_its_unknown_fields_along() -> None:
    def change(state: AsStruct) -> None:
        state.line = None

    assert rewritten(AsStruct, {"order": 7, "line": {"sku": "a", "gift": True}}, change) == {"order": 7, "line": None}


class Item(msgspec.Struct):
    id: str
    count: int = 1


class Basket(msgspec.Struct):
    items: list[Item] = []
    lines: list[LineStruct] = []
    by_sku: dict[str, LineStruct] = {}
    pair: tuple[int, LineStruct] | None = None


def test_items_of_a_list_that_have_an_id_are_found_by_it() -> None:
    def change(basket: Basket) -> None:
        basket.items = [Item("new"), msgspec.structs.replace(basket.items[1], count=5)]

    stored = {"items": [{"id": "a", "count": 1, "gift": 1}, {"id": "b", "count": 2, "gift": 2}]}
    assert rewritten(Basket, stored, change)["items"] == [
        {"id": "new", "count": 1},
        {"id": "b", "count": 5, "gift": 2},
    ]


def test_other_items_are_found_by_their_value_or_at_their_place() -> None:
    lines = [{"sku": "a", "count": 1, "gift": 1}, {"sku": "b", "count": 1, "gift": 2}, {"sku": "b", "count": 1}]

    def moved(basket: Basket) -> None:
        basket.lines = [LineStruct("c"), basket.lines[1], basket.lines[0]]

    def changed(basket: Basket) -> None:
        basket.lines[0].count = 9

    def shortened(basket: Basket) -> None:
        del basket.lines[0]

    def shortened_and_changed(basket: Basket) -> None:
        del basket.lines[0]
        basket.lines[0].count = 9

    new = {"sku": "c", "count": 1}
    assert rewritten(Basket, {"lines": lines}, moved)["lines"] == [new, lines[1], lines[0]]
    assert rewritten(Basket, {"lines": lines}, changed)["lines"] == [{**lines[0], "count": 9}, *lines[1:]]
    assert rewritten(Basket, {"lines": lines}, shortened)["lines"] == lines[1:]
    # which one the changed one was, nobody can tell: better without than with another's
    assert rewritten(Basket, {"lines": lines}, shortened_and_changed)["lines"][0] == {"sku": "b", "count": 9}


def test_entries_of_a_dict_and_of_a_tuple_are_found_by_their_key_and_place() -> None:
    def change(basket: Basket) -> None:
        basket.by_sku["a"].count = 7
        basket.by_sku["new"] = LineStruct("n")
        del basket.by_sku["b"]

    stored = {
        "by_sku": {"a": {"sku": "a", "gift": 1}, "b": {"sku": "b", "gift": 2}},
        "pair": [1, {"sku": "p", "count": 1, "gift": 3}],
    }
    after = rewritten(Basket, stored, change)
    assert after["by_sku"] == {"a": {"sku": "a", "count": 7, "gift": 1}, "new": {"sku": "n", "count": 1}}
    assert after["pair"] == stored["pair"]


class Card(msgspec.Struct, tag="card"):
    number: str


class Cash(msgspec.Struct, tag="cash"):
    amount: int


class Paid(msgspec.Struct):
    by: Card | Cash | None = None


def test_of_a_tagged_union_only_the_same_type_keeps_them() -> None:
    def pays_cash(state: Paid) -> None:
        state.by = Cash(5)

    stored = {"by": {"type": "card", "number": "1", "brand": "v"}}
    assert rewritten(Paid, stored) == stored
    assert rewritten(Paid, stored, pays_cash) == {"by": {"type": "cash", "amount": 5}}


class Tree(msgspec.Struct, omit_defaults=True):
    name: str = ""
    child: Tree | None = None


class Point(msgspec.Struct, array_like=True):
    x: int
    y: int


class Pixel(NamedTuple):
    at: Point
    color: str


class Drawing(msgspec.Struct):
    pixel: Pixel


class Branch(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=to_camel, populate_by_name=True)
    branch_name: str
    sub_branches: list[Branch] = []


class Open(pydantic.BaseModel, extra="allow"):
    line: LineModel


def test_types_that_contain_themselves_or_have_aliases_keep_them() -> None:
    tree = {"name": "a", "new": 1, "child": {"child": {"new": 2}, "new": 3}}
    assert rewritten(Tree, tree) == tree
    branch = {"branchName": "a", "subBranches": [{"branchName": "b", "subBranches": [], "newField": 1}], "newField": 2}
    assert rewritten(Branch, branch) == branch
    opened = {"line": {"sku": "a", "count": 1, "gift": 2}, "extra": 1}
    assert rewritten(Open, opened) == opened


def test_an_array_like_struct_keeps_what_is_behind_its_last_field() -> None:
    drawing = {"pixel": [[1, 2, 3], "red"]}
    assert rewritten(Drawing, drawing) == drawing


def test_what_a_step_takes_out_of_an_open_ended_model_is_gone() -> None:
    def change(state: Any) -> None:
        del state.extra

    assert rewritten(Open, {"line": {"sku": "a"}, "extra": 1}, change) == {"line": {"sku": "a", "count": 1}}


def test_the_kept_fields_count_for_the_size_of_a_state() -> None:
    shape = Shape(AsStruct, "checkout")
    with pytest.raises(InvalidOutcome, match="over the limit"):
        shape.conform(AsStruct(order=1), 100, before='{"order":1,"coupon":"%s"}' % ("x" * 100))


def test_a_dict_as_the_state_is_the_steps_own() -> None:
    assert rewritten(None, {"a": 1, "b": 2}, lambda _: {"a": 2}) == {"a": 2}
