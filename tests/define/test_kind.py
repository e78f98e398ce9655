"""Kinds: what a decorated function stores, what it gets back, and what is refused where."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import msgspec
import pydantic
import pytest

from headway.define import Context, Kind
from headway.define.enqueuer import Binding
from headway.errors import InvalidJob, InvalidPayload
from headway.model.job import NewJob


class Size(enum.Enum):
    SMALL = "s"


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1


class Item(msgspec.Struct):
    name: str


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    number: int = pydantic.Field(alias="orderNumber")
    placed_at: datetime

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.number * 2


def welcome(user_id: int, note: str = "hi", *, loud: bool = False) -> str:
    """Greets."""
    return f"{user_id} {note} {loud}"


def refusal(fn: Callable[..., Any], **options: Any) -> str:
    with pytest.raises(InvalidJob) as caught:
        Kind(fn, options)  # type: ignore[arg-type]
    return str(caught.value)


def roundtrip(kind: Kind[..., Any], *args: Any, **kwargs: Any) -> Any:
    got_args, got_kwargs = kind.decode(kind.build(*args, **kwargs).payload)
    return kind.fn(*got_args, **got_kwargs)


def test_a_kind_is_still_its_function() -> None:
    kind = Kind(welcome)
    assert kind(7, loud=True) == "7 hi True"
    assert (kind.__name__, kind.__doc__, kind.name, kind.fn) == ("welcome", "Greets.", "welcome", welcome)
    assert not kind.is_async
    assert kind.context_param is None
    assert "welcome" in repr(kind)


def test_attributes_of_a_function_do_not_hide_the_kinds_own() -> None:
    def tagged() -> None: ...

    vars(tagged).update(name="wrong", enqueue="wrong")
    kind = Kind(tagged)
    assert kind.name == "tagged"
    assert callable(kind.enqueue)


def test_only_what_was_given_is_stored() -> None:
    kind = Kind(welcome)
    assert kind.build(7).payload == '{"user_id":7}'
    assert kind.build(user_id=7, loud=True).payload == '{"user_id":7,"loud":true}'
    assert kind.build(7, "ho").payload == '{"user_id":7,"note":"ho"}'
    assert kind.decode('{"user_id":7}') == ((), {"user_id": 7})
    assert roundtrip(kind, 7, loud=True) == "7 hi True"


def test_each_job_has_its_own_id_and_the_kinds_policy() -> None:
    kind = Kind(welcome, {"name": "mail.welcome", "queue": "mail", "max_attempts": 3, "timeout": "30s"})
    first, second = kind.build(1), kind.build(1)
    assert first.id != second.id
    assert first == NewJob(
        id=first.id,
        kind="mail.welcome",
        queue="mail",
        payload='{"user_id":1}',
        max_attempts=3,
        max_losses=3,
        timeout_ms=30_000,
    )


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (("7",), {}, InvalidPayload, "welcome(user_id=…): expected `int`, got `str`"),
        ((), {"user_id": True}, InvalidPayload, "welcome(user_id=…): expected `int`, got `bool`"),
        ((), {"user_id": 1.5}, InvalidPayload, "welcome(user_id=…): expected `int`"),
        ((), {}, InvalidJob, "welcome(): the argument user_id is missing"),
        (
            (1,),
            {"nte": 2},
            InvalidJob,
            "welcome(nte=…): there is no such parameter; it takes user_id, note, loud",
        ),
        ((1, "a", True), {}, InvalidJob, "welcome: 3 arguments were given by position, and it takes 2"),
        ((1,), {"user_id": 2}, InvalidJob, "welcome(user_id=…): given twice, by position and by name"),
        ((1, object()), {}, InvalidPayload, "welcome: the payload cannot be stored: $.note is a object"),
        ((1, "\0"), {}, InvalidPayload, "$.note holds a NUL character"),
    ],
)
def test_a_wrong_call_is_refused_at_enqueue(
    args: tuple[Any, ...], kwargs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        Kind(welcome).build(*args, **kwargs)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ('{"user_id":"7"}', "welcome(user_id=…): expected `int`, got `str`"),
        ("{}", "welcome(): the argument user_id is missing"),
        ('{"user_id":1,"more":2}', "welcome(more=…): there is no such parameter"),
        ("[1]", "welcome: the payload cannot be read at $: expected `object`, got `array`"),
        ("{", "welcome: the payload cannot be read at $: input data was truncated"),
    ],
)
def test_a_payload_that_the_function_does_not_take_is_refused_by_the_worker(payload: str, message: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        Kind(welcome).decode(payload)
    assert message in str(caught.value)


def test_arguments_come_back_as_their_annotations_say() -> None:
    def ship(
        at: datetime,
        key: UUID,
        size: Size,
        to: Address,
        items: list[Item],
        order: Order,
        orders: dict[str, Order],
        gap: timedelta,
        maybe: int | None,
        both: int | list[str],
        pick: Literal["a", "b"],
        few: Annotated[int, msgspec.Meta(le=3)],
        names: Sequence[str],
        old: Optional[Order] = None,  # noqa: UP045
    ) -> Any:
        return locals()

    at = datetime(2031, 1, 2, tzinfo=UTC)
    order = Order(orderNumber=3, placed_at=at)
    given = {
        "at": at,
        "key": UUID(int=7),
        "size": Size.SMALL,
        "to": Address("High St", 9),
        "items": [Item("nail")],
        "order": order,
        "orders": {"x": order},
        "gap": timedelta(minutes=3),
        "maybe": None,
        "both": ["x"],
        "pick": "b",
        "few": 3,
        "names": ["n"],
        "old": order,
    }
    kind = Kind(ship)
    assert roundtrip(kind, **given) == given
    with pytest.raises(InvalidPayload, match=r"ship\(to.number=…\): expected `int`, got `str`"):
        kind.build(**{**given, "to": {"street": "x", "number": "y"}})
    with pytest.raises(InvalidPayload, match=r"ship\(few=…\): expected `int` <= 3"):
        kind.build(**{**given, "few": 4})
    with pytest.raises(InvalidPayload, match=r"(?s)ship\(order=…\): 1 validation error for Order.*placed_at"):
        kind.build(**{**given, "order": {"orderNumber": 3}})


def test_a_datetime_must_carry_a_zone_as_object_and_as_text() -> None:
    def at(when: datetime, others: list[datetime] | None = None) -> None: ...

    kind = Kind(at)
    naive = datetime(2031, 1, 2)  # noqa: DTZ001
    with pytest.raises(InvalidPayload, match=r"\$.when is the naive datetime .*: add a zone"):
        kind.build(naive)
    with pytest.raises(InvalidPayload, match=r"at\(when=…\): expected `datetime` with a timezone"):
        kind.build(naive.isoformat())
    with pytest.raises(InvalidPayload, match=r"at\(others\[0\]=…\): expected `datetime` with a timezone"):
        kind.build("2031-01-02T00:00:00Z", [naive.isoformat()])


def test_classes_of_the_defining_function_are_found() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    def use(local: Local) -> int:
        return local.x

    assert roundtrip(Kind(use), Local(3)) == 3


def test_parameters_without_annotation_take_anything() -> None:
    def loose(a, b: object, c: Any = None):  # type: ignore[no-untyped-def]
        return a, b, c

    assert roundtrip(Kind(loose), {"x": [1]}, 2.5) == ({"x": [1]}, 2.5, None)


def test_arguments_by_place_only_stay_by_place() -> None:
    def place(a: int, b: int = 2, c: int = 3, /, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    kind = Kind(place)
    assert kind.build(1, 20).payload == '{"a":1,"b":20}'
    assert roundtrip(kind, 1, 20, d=40) == (1, 20, 3, 40)
    args, kwargs = kind.decode(kind.build_from({"a": 1, "c": 30}).payload)
    assert kind(*args, **kwargs) == (1, 2, 30, 4)
    with pytest.raises(InvalidJob, match=r"place\(a=…\): can only be given by position"):
        kind.build(a=1)


def test_extra_keywords_are_kept_and_typed() -> None:
    def extra(a: int, ctx: Context | None = None, **more: UUID) -> Any:
        return a, more

    kind = Kind(extra)
    assert roundtrip(kind, 1, x=UUID(int=1)) == (1, {"x": UUID(int=1)})
    with pytest.raises(InvalidPayload, match=r"extra\(x=…\): invalid UUID"):
        kind.build(1, x="nope")  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match=r"extra\(ctx=…\): is the context"):
        kind.build(1, ctx=3)  # type: ignore[arg-type]


def test_the_context_is_found_under_every_spelling_and_is_no_payload() -> None:
    def plain(ctx: Context, a: int) -> None: ...
    def text(a: int, context: "Context") -> None: ...  # noqa: UP037
    def optional(a: int, it: Context | None = None) -> None: ...
    def of_a_state(a: int, ctx: Context[int] | None = None) -> None: ...
    def typed_state(a: int, ctx: "Context[NotHere]") -> None: ...  # type: ignore[name-defined] # noqa: F821, UP037
    def typed_only(a: int, *, ctx: "headway.Context") -> None: ...  # type: ignore[name-defined] # noqa: F821, UP037

    for fn, name in [
        (plain, "ctx"),
        (text, "context"),
        (optional, "it"),
        (of_a_state, "ctx"),
        (typed_state, "ctx"),
        (typed_only, "ctx"),
    ]:
        kind: Kind[..., Any] = Kind(fn)
        assert kind.context_param == name
        assert kind.build(7).payload == '{"a":7}'
        with pytest.raises(InvalidJob, match=rf"{fn.__name__}\({name}=…\): is the context, which the worker passes"):
            kind.build(a=7, **{name: 1})


def test_async_functions_and_objects_are_told_from_plain_ones() -> None:
    async def one(a: int) -> None: ...

    class Caller:
        async def __call__(self, a: int) -> None: ...

        def method(self, a: int) -> int:
            return a

    assert Kind(one).is_async
    assert Kind(Caller(), {"name": "caller"}).is_async
    assert Kind(functools.partial(one), {"name": "part"}).is_async
    assert not Kind(welcome).is_async
    assert Kind(Caller().method).name == "method"
    assert roundtrip(Kind(Caller().method), 3) == 3


def test_a_partial_and_a_lambda_need_a_name() -> None:
    half = functools.partial(welcome, note="half")
    assert "has no name to store its jobs under: give one, @app.job(name='…')" in refusal(half)
    assert "has no name" in refusal(lambda: 1)
    kind = Kind(half, {"name": "half"})
    assert roundtrip(kind, 7) == "7 half False"
    assert "half" in repr(kind)
    assert Kind(lambda a: a, {"name": "inline"}).build(1).payload == '{"a":1}'


def test_what_can_never_be_a_job_is_refused_at_definition() -> None:
    def spread(*names: str) -> None: ...
    def generator() -> Any:
        yield 1

    async def stream() -> Any:
        yield 1

    def connection(conn: threading.Lock) -> None: ...  # type: ignore[name-defined] # noqa: F821
    def strange(it: Iterable[int]) -> None: ...
    def mixed(it: Order | int) -> None: ...
    def two(a: Context, b: Context) -> None: ...
    def mangled(__x: int) -> None: ...

    class Thing:
        def method(self, a: int) -> None: ...

    assert "spread: *names cannot be stored by name: take a list, names: list[…]" in refusal(spread)
    assert "generator: a generator cannot be a job: return the value" in refusal(generator)
    assert "stream: a generator cannot be a job" in refusal(stream)
    assert (
        "connection: the annotation 'threading.Lock' of parameter conn cannot be resolved "
        "(NameError: name 'threading' is not defined): import its names at module level"
    ) in refusal(connection)
    assert "strange: parameter it is annotated Iterable, which cannot be made from JSON" in refusal(strange)
    assert "mixed: parameter it cannot be decoded from JSON: Type unions containing a custom" in refusal(mixed)
    assert "two: both a and b are annotated Context: keep one" in refusal(two)
    assert "mangled: its parameters (__x) cannot be decoded" in refusal(mangled)
    assert "Thing.method is a method without its object" in refusal(Thing.method)
    assert "is not a function" in refusal(Thing)
    assert "is not a function" in refusal(3)  # type: ignore[arg-type]
    assert "name='no spaces' is not a valid name" in refusal(welcome, name="no spaces")
    assert 'this is already the kind "welcome"' in refusal(Kind(welcome))
    assert Kind(staticmethod(welcome)).name == "welcome"


def test_a_class_that_json_cannot_become_is_found_inside_others() -> None:
    class Secret:
        pass

    @dataclasses.dataclass
    class Holder:
        inner: list[Secret]
        again: Holder | None = None

    def use(holder: dict[str, Holder]) -> None: ...

    assert "use: parameter holder" in refusal(use)


def test_a_payload_can_be_given_whole() -> None:
    kind = Kind(welcome)
    assert kind.build_from({"user_id": 7}).payload == '{"user_id":7}'
    with pytest.raises(InvalidJob, match="the argument user_id is missing"):
        kind.build_from({})
    with pytest.raises(InvalidPayload, match="the payload is list, not a dict of arguments by name"):
        kind.build_from([1])  # type: ignore[arg-type]


def test_a_schema_is_asked_at_enqueue_and_before_running() -> None:
    schema = {
        "properties": {
            "user_id": {"minimum": 5},
            "note": {"format": "email"},
            "loud": {"$ref": "#/$defs/no"},
        },
        "$defs": {"no": {"const": False}},
    }
    kind = Kind(welcome, {"schema": schema})
    assert kind.build(7, "a@example.org", loud=False)
    with pytest.raises(InvalidPayload, match=r"welcome: the payload does not fit the schema at \$.user_id: 3 is"):
        kind.build(3)
    with pytest.raises(InvalidPayload, match=r"at \$.note: .*email"):
        kind.build(7, "nobody")
    with pytest.raises(InvalidPayload, match=r"at \$.loud"):
        kind.decode('{"user_id":7,"loud":true}')
    assert "http://example.org/x.json is remote" in refusal(welcome, schema={"$ref": "http://example.org/x.json"})
    assert "the schema cannot be used" in refusal(welcome, schema={"type": "nope"})
    assert "is not a JSON Schema: give a dict" in refusal(welcome, schema="{}")


def test_the_payload_limit_is_the_apps() -> None:
    class App:
        payload_limit = 30

        def enqueue_new(self, job: NewJob, conn: Any) -> Any: ...
        async def aenqueue_new(self, job: NewJob, conn: Any) -> Any: ...

    binding = Binding()
    kind = Kind(welcome, binding=binding)
    assert kind.build(1, "x" * 1_000_000)
    with pytest.raises(InvalidPayload, match="over the limit of 1,048,576"):
        kind.build(1, "x" * 1_048_576)
    binding.add(App())
    with pytest.raises(InvalidPayload, match="over the limit of 30"):
        kind.build(1, "x" * 30)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("delay", ": a job is enqueued with .enqueue(…)"),
        ("kiq", ": a job is enqueued with await ….aenqueue(…)"),
        ("apply_async", ": a job is enqueued with .using(…).enqueue(…)"),
        ("frobnicate", ""),
    ],
)
def test_what_other_queues_call_an_enqueue_is_told(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as told:
        getattr(Kind(welcome), name)
    assert str(told.value) == f"'Kind' object has no attribute {name!r}{hint}"
