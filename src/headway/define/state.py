"""A machine's state: from the fields of an enqueue to JSON, and from JSON to the object that a step sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, is_typeddict

import msgspec

from headway import logs, secrets
from headway.define.annotations import decodable, show
from headway.define.derived_schema import schema_of_fields
from headway.define.unknown_fields import part_of
from headway.errors import InvalidJob, InvalidOutcome, InvalidPayload, PayloadMismatch
from headway.model.codec import decode, encode, fault_of, is_mismatch, is_model, revive


class Shape:
    """Writes and reads the states of one machine; without a `State` class a state is a dict."""

    __slots__ = ("_decoder", "_fields", "_kind", "_part", "context", "names", "open_ended", "type")

    def __init__(self, type_: Any, kind: str) -> None:
        self._kind = kind
        self.type: Any = dict if type_ is None else type_
        self.context = None  # the steps get it, not the state
        try:
            self._fields = _fields(self.type, kind)
            decoded = dict[str, Any] if self.type is dict else decodable(self.type, "State", kind)
            self._decoder = msgspec.json.Decoder(decoded, dec_hook=revive)
            self._part = part_of(decoded)
        except (NameError, TypeError) as error:
            raise InvalidJob(
                f"{kind}: the annotations of its State cannot be resolved ({error}): import their names, and define "
                "their classes, at module level"
            ) from error
        self.names = tuple(self._fields)
        self.open_ended = self.type is dict

    def schema(self) -> dict[str, Any] | None:
        """What the State's annotations say of the payload, as JSON Schema."""
        return None if self.type is dict else schema_of_fields(self._decoder.type)

    # for an enqueue

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> str:
        """The payload of an enqueue: the fields by name, or one whole state."""
        if not args:
            return self.pack_named(kwargs, limit)
        if len(args) == 1 and not kwargs and isinstance(args[0], dict if is_typeddict(self.type) else self.type):
            return self.write(args[0], limit)
        raise InvalidJob(f"{self._kind}: give the fields of its state by name, or one {show(self.type)}")

    def pack_named(self, given: Mapping[str, Any], limit: int) -> str:
        for name in given:
            if not self.open_ended and name not in self._fields:
                known = ", ".join(self.names) or "no fields"
                raise InvalidJob(f"{self._kind}({name}=…): its state has no such field; it has {known}")
        for name, field in self._fields.items():
            if field.required and name not in given:
                raise InvalidJob(f"{self._kind}(): the field {name} of its state is missing")
        try:
            text = encode(dict(given), limit=limit, what="state")
        except InvalidPayload as error:
            raise InvalidPayload(f"{self._kind}: {error}") from error
        self.read(text)
        return text

    def values(self, text: str) -> dict[str, Any]:
        """The state's fields by name, to make keys from."""
        state = self.read(text)
        if isinstance(state, dict):
            return dict(state)
        return {name: getattr(state, field.attribute) for name, field in self._fields.items()}

    # for a step

    def read(self, text: str | bytes | msgspec.Raw) -> Any:
        """The state in this JSON; raises `InvalidPayload`, `PayloadMismatch`."""
        try:
            return self._decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            path, reason = fault_of(error)
            where = f"({path[2:]}=…)" if path.startswith("$.") else ""
            raise (PayloadMismatch if is_mismatch(error) else InvalidPayload)(
                f"{self._kind}{where}: the state does not fit {show(self.type)}: {reason}"
            ) from error

    def write(self, state: Any, limit: int) -> str:
        """The state as JSON; raises `InvalidPayload` for what cannot be stored."""
        return encode(state, limit=limit, what="state")

    def conform(self, state: Any, limit: int, *, before: str | None = None) -> str:
        """The state that a step returned, as JSON that reads back as a state; raises `InvalidOutcome`.

        `before` is the state that the step started with: fields that this code does not know are kept from it.
        """
        try:
            text = self.write(state, limit)
            self.read(text)  # commit nothing that the next step could not read
            if before is not None and self._part is not None:
                stored = plain(before)
                if self._part.finds(stored):
                    text = self.write(self._part.keep(stored, plain(text)), limit)
        except InvalidPayload as error:
            raise InvalidOutcome(f"{self._kind}: the state {brief(state)} cannot be kept: {error}") from error
        return text


def plain(text: str | bytes | msgspec.Raw) -> Any:
    """A state of another version, as plain JSON values."""
    return decode(bytes(text) if isinstance(text, msgspec.Raw) else text, what="state")


class _Field(msgspec.Struct, frozen=True):
    attribute: str
    required: bool


def _fields(type_: Any, kind: str) -> dict[str, _Field]:
    """The fields by the names under which they are stored."""
    if type_ is dict:
        return {}
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return {field.encode_name: _Field(field.name, field.required) for field in msgspec.structs.fields(type_)}
    if dataclasses.is_dataclass(type_):
        none = dataclasses.MISSING
        return {
            field.name: _Field(field.name, field.default is none and field.default_factory is none)
            for field in dataclasses.fields(type_)
            if field.init
        }
    if is_model(type_):
        return {name: _Field(name, field.is_required()) for name, field in type_.model_fields.items()}
    if is_typeddict(type_):
        return {name: _Field(name, name in type_.__required_keys__) for name in type_.__annotations__}
    raise InvalidJob(
        f"{kind}: State = {show(type_)} is not a state: make it a msgspec Struct, a dataclass or a pydantic model, "
        "or leave it out for a dict"
    )


def brief(value: Any) -> str:
    """A value for a message."""
    try:
        text = secrets.redact_head(
            repr(value), 201, logs.known()
        )  # before the cut: half of a secret would not be recognised
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 200 else text[:200] + "…"
