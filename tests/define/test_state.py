"""A machine's state: as a Struct, a dataclass, a pydantic model, a TypedDict, a dict, or none."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from headway.define.state import Shape, plain
from headway.errors import InvalidJob, InvalidOutcome, InvalidPayload

LIMIT = 1_000


class AsStruct(msgspec.Struct):
    order: int
    paid: bool = False
    lines: list[str] = []


@dataclasses.dataclass
class AsDataclass:
    order: int
    paid: bool = False
    lines: list[str] = dataclasses.field(default_factory=list)


class AsModel(pydantic.BaseModel):
    order: int
    paid: bool = False
    lines: list[str] = []


class AsTypedDict(TypedDict, total=False):
    order: int
    paid: bool
    lines: list[str]


class Inner(msgspec.Struct):
    at: datetime


class Rich(msgspec.Struct):
    id: UUID
    inner: Inner


TYPED = [AsStruct, AsDataclass, AsModel]


@pytest.mark.parametrize("type_", TYPED)
def test_fields_of_an_enqueue_become_a_state_of_the_type(type_: Any) -> None:
    shape = Shape(type_, "checkout")
    text = shape.pack((), {"order": 42}, LIMIT)
    assert text == '{"order":42}'
    state = shape.read(text)
    assert isinstance(state, type_)
    assert (state.order, state.paid, state.lines) == (42, False, [])
    assert shape.names == ("order", "paid", "lines")


@pytest.mark.parametrize("type_", TYPED)
def test_a_state_can_be_given_whole(type_: Any) -> None:
    shape = Shape(type_, "checkout")
    text = shape.pack((type_(order=7, paid=True),), {}, LIMIT)
    assert shape.read(text) == type_(order=7, paid=True)


@pytest.mark.parametrize("type_", TYPED)
def test_a_state_is_written_and_reads_back_the_same(type_: Any) -> None:
    shape = Shape(type_, "checkout")
    state = type_(order=7, paid=True, lines=["a", "ü"])
    assert shape.read(shape.conform(state, LIMIT)) == state


@pytest.mark.parametrize("type_", [*TYPED, AsTypedDict])
def test_a_mapping_of_the_fields_is_a_state_too(type_: Any) -> None:
    shape = Shape(type_, "checkout")
    text = shape.conform({"order": 7, "paid": True, "lines": []}, LIMIT)
    assert shape.values(text) == {"order": 7, "paid": True, "lines": []}


def test_a_typed_dict_is_a_state_with_known_fields() -> None:
    shape = Shape(AsTypedDict, "checkout")
    assert shape.read(shape.pack((), {"order": 42}, LIMIT)) == {"order": 42}
    with pytest.raises(InvalidJob, match="no such field"):
        shape.pack((), {"ordr": 42}, LIMIT)


def test_without_a_type_a_state_is_any_dict() -> None:
    for type_ in (None, dict):
        shape = Shape(type_, "checkout")
        text = shape.pack((), {"order": 42, "at": datetime(2031, 5, 6, tzinfo=UTC)}, LIMIT)
        assert shape.read(text) == {"order": 42, "at": "2031-05-06T00:00:00Z"}
        assert shape.read(shape.pack((), {}, LIMIT)) == {}
        assert shape.read(shape.pack(({"a": 1},), {}, LIMIT)) == {"a": 1}
        assert shape.open_ended


@pytest.mark.parametrize("type_", TYPED)
@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"order": 1, "payd": True}, InvalidJob, r"checkout\(payd=…\).*no such field; it has order, paid, lines"),
        ({"paid": True}, InvalidJob, "the field order of its state is missing"),
        ({"order": "seven"}, InvalidPayload, r"checkout.*does not fit"),
        ({"order": object()}, InvalidPayload, "checkout"),
        ({"order": 1, "lines": ["x" * 2_000]}, InvalidPayload, "over the limit of 1,000"),
    ],
)
def test_fields_that_are_no_state_are_refused(type_: Any, fields: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        Shape(type_, "checkout").pack((), fields, LIMIT)


def test_a_state_by_place_must_be_one() -> None:
    shape = Shape(AsStruct, "checkout")
    for args, kwargs in (((42,), {}), ((AsStruct(1), AsStruct(2)), {}), ((AsStruct(1),), {"paid": True})):
        with pytest.raises(InvalidJob, match="by name, or one"):
            shape.pack(args, kwargs, LIMIT)


@pytest.mark.parametrize("type_", TYPED)
@pytest.mark.parametrize("state", [None, 7, [1], {"order": "x"}, {"paid": True}, object()])
def test_what_a_step_returns_as_its_state_must_be_one(type_: Any, state: Any) -> None:
    with pytest.raises(InvalidOutcome, match=r"checkout: the state .* cannot be kept"):
        Shape(type_, "checkout").conform(state, LIMIT)


@pytest.mark.parametrize("state", [None, 7, [1], "text"])
def test_a_dict_state_must_stay_a_dict(state: Any) -> None:
    with pytest.raises(InvalidOutcome, match="cannot be kept"):
        Shape(None, "checkout").conform(state, LIMIT)


@pytest.mark.parametrize("type_", TYPED)
def test_a_field_that_was_set_to_the_wrong_type_is_found_before_it_is_written(type_: Any) -> None:
    state = type_(order=7)
    state.order = "seven"
    with pytest.raises(InvalidOutcome, match="cannot be kept"):
        Shape(type_, "checkout").conform(state, LIMIT)


def test_a_state_over_the_limit_is_an_invalid_outcome() -> None:
    with pytest.raises(InvalidOutcome, match="over the limit"):
        Shape(None, "checkout").conform({"blob": "x" * 2_000}, LIMIT)


def test_a_state_that_cannot_be_shown_is_an_invalid_outcome_all_the_same() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("not me")

    with pytest.raises(InvalidOutcome, match="cannot be kept"):
        Shape(None, "checkout").conform(Shy(), LIMIT)


@pytest.mark.parametrize("type_", [int, str, list, list[int], "State", object(), Any])
def test_what_is_no_state_is_refused_at_once(type_: Any) -> None:
    with pytest.raises(InvalidJob, match=r"checkout: State = .* is not a state"):
        Shape(type_, "checkout")


def test_a_renamed_field_is_given_under_the_name_that_is_stored() -> None:
    class State(msgspec.Struct, rename="camel"):
        order_number: int

    shape = Shape(State, "checkout")
    text = shape.pack((), {"orderNumber": 7}, LIMIT)
    assert shape.read(text) == State(order_number=7)
    assert shape.values(text) == {"orderNumber": 7}


def test_rich_types_come_back_as_they_went() -> None:
    state = Rich(UUID(int=7), Inner(datetime(2031, 5, 6, tzinfo=UTC)))
    shape = Shape(Rich, "checkout")
    assert shape.read(shape.conform(state, LIMIT)) == state


def test_a_state_of_another_version_is_plain_json() -> None:
    assert plain('{"a":[1,null]}') == {"a": [1, None]}
    assert plain(msgspec.Raw(b'{"a":1}')) == {"a": 1}
