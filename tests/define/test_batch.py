"""Kinds that take batches: what their calls store and get, and what is refused at definition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest

from headway.define import BatchKind, Call, Context, Machine, Registry, step
from headway.define.enqueuer import Binding
from headway.errors import InvalidJob, InvalidPayload, PayloadMismatch
from headway.testing import context


class Struct(msgspec.Struct):
    number: int
    at: datetime
    tags: list[str] = msgspec.field(default_factory=list)


@dataclasses.dataclass
class Plain:
    number: int
    at: datetime
    tags: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("no such number")


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(ge=0)
    at: datetime
    tags: list[str] = []


NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)


def by_struct(calls: list[Call[Struct]]) -> None: ...
async def by_dataclass(calls: Sequence[Call[Plain]]) -> None: ...
def by_model(calls: Iterable[Call[Model]]) -> None: ...
def by_dict(calls: list[Call]) -> None: ...
def by_typed_dict(calls: list[Call[dict[str, Any]]]) -> None: ...
def unannotated(calls) -> None: ...  # type: ignore[no-untyped-def]


def made(fn: Any, **options: Any) -> BatchKind:
    return BatchKind(fn, {"batch": 10, **options}, binding=Binding())


def read(kind: BatchKind, payload: str) -> Any:
    ctx = context()
    ctx._claim = msgspec.structs.replace(ctx.claim, payload=payload)
    call = kind.call(ctx)
    assert call.ctx is ctx
    return call.args


@pytest.mark.parametrize(("fn", "type_"), [(by_struct, Struct), (by_dataclass, Plain), (by_model, Model)])
def test_a_call_has_its_arguments_as_an_object(fn: Any, type_: Any) -> None:
    kind = made(fn)
    assert kind.is_async is False
    assert kind.calls_async is (fn is by_dataclass)
    whole = type_(number=7, at=NOON)
    by_name, by_object = kind.build(number=7, at=NOON), kind.build(whole)
    assert by_name.payload == '{"number":7,"at":"2031-05-06T12:00:00Z"}'
    assert read(kind, by_name.payload) == read(kind, by_object.payload) == whole
    assert read(kind, '{"number":7,"at":"2031-05-06T12:00:00Z","tags":["a"]}').tags == ["a"]
    with pytest.raises(InvalidJob, match=r"\(\): the argument at is missing"):
        kind.build(number=7)
    with pytest.raises(InvalidJob, match=r"\(nmber=…\): there is no such parameter; it takes number, at, tags"):
        kind.build(nmber=7, at=NOON)
    with pytest.raises(InvalidPayload, match=r"\(number=…\): [Ee]xpected `int`, got `str`"):
        kind.build(number="seven", at=NOON)
    with pytest.raises(InvalidJob, match=f"give the fields of {type_.__name__} by name, or one"):
        kind.build(7, NOON)
    with pytest.raises(PayloadMismatch):  # of a newer release: given back
        read(kind, '{"number":7,"at":"2031-05-06T12:00:00Z","colour":"red"}')


@pytest.mark.parametrize("fn", [by_dataclass, by_model])
def test_the_classes_own_validation_holds(fn: Any) -> None:
    with pytest.raises(InvalidPayload, match="refuses these arguments"):
        made(fn).build(number=-1, at=NOON)
    # what a secret is is known when it runs
    payload = made(fn).build(number={"$secret": "NUMBER"}, at=NOON).payload
    assert "NUMBER" in payload


@pytest.mark.parametrize("fn", [by_dict, by_typed_dict, unannotated])
def test_without_a_class_the_arguments_are_a_dict(fn: Any) -> None:
    kind = made(fn, rate="10/s", rate_key="{user}")
    new = kind.build(user="ada", anything=[1])
    assert new.rate_key == "ada"
    assert read(kind, new.payload) == {"user": "ada", "anything": [1]}
    with pytest.raises(InvalidJob, match="give its fields by name"):
        kind.build("ada")


def test_the_wait_has_a_default() -> None:
    assert (made(by_dict).size, made(by_dict).wait_ms, made(by_dict, batch_wait=0).wait_ms) == (10, 50, 0)


def test_what_cannot_run_in_a_batch_is_refused_at_definition() -> None:
    for options, words in (
        ({"train": "a"}, "train cannot go with batch: the jobs of a train run one after another"),
        ({"train": "{user}"}, "train cannot go with batch"),
        ({"partition": "a"}, "partition cannot go with batch: the jobs of a partition run one after another"),
        ({"concurrency": 3, "concurrency_key": "a"}, "concurrency_key cannot go with batch: it limits how many"),
        ({"delivery": "at_most_once"}, "delivery='at_most_once' cannot go with batch: a call that waits"),
        ({"batch": 0}, "batch=0 is out of range: give a whole number from 1 to 10000"),
        ({"batch_wait": "2m"}, "batch_wait='2m' is too long: calls that wait keep their slots"),
    ):
        with pytest.raises(InvalidJob, match=words):
            made(by_dict, **options)
    kind = made(by_dict)
    for options in ({"train": "a"}, {"partition": "a"}, {"delivery": "at_most_once"}):
        with pytest.raises(InvalidJob, match="cannot go with batch"):
            kind.using(**options)
    with pytest.raises(InvalidJob, match=r"batch cannot be set by using\(\): it belongs to the kind"):
        kind.using(batch=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidJob, match="batch_wait means nothing without batch"):
        Registry().job(batch_wait="1s")(by_dict)


def test_a_machine_takes_no_batch() -> None:
    class Order(Machine, batch=10):  # type: ignore[call-arg]
        @step
        def start(self, ctx: Context) -> None: ...

    with pytest.raises(InvalidJob, match="order: a machine takes no batch, since its steps run one by one"):
        Registry().machine(Order)


def test_a_function_that_takes_no_calls_is_refused() -> None:
    def with_context(calls: list[Call], ctx: Context) -> None: ...
    def one(call: Call) -> None: ...
    def numbers(calls: list[int]) -> None: ...
    def of_numbers(calls: list[Call[int]]) -> None: ...

    for fn, words in (
        (with_context, "with batch its function takes one list of calls"),
        (one, "call is annotated Call: with batch it is a list of calls"),
        (numbers, "calls is annotated list"),
        (of_numbers, r"Call\[int\] does not name the fields of its arguments: use a dataclass"),
    ):
        with pytest.raises(InvalidJob, match=words):
            made(fn)
