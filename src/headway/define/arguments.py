"""A handler's arguments: from a call to the JSON object of the payload, and back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from headway import secrets
from headway.define.annotations import decodable, resolve, signature_of
from headway.define.context import Context
from headway.define.derived_schema import derived_schema
from headway.errors import InvalidJob, InvalidPayload, PayloadMismatch
from headway.model.codec import encode, fault_of, is_mismatch, revive

ArgumentsOfCall = tuple[tuple[Any, ...], dict[str, Any]]

_P = inspect.Parameter
_UNSET = msgspec.UNSET
_NO_ARGS: tuple[Any, ...] = ()
_MAX_LOOSE = 64


class Arguments:
    """Writes and reads the arguments of one function; made once, at definition."""

    __slots__ = (
        "_decoder",
        "_defaults",
        "_extra",
        "_fields",
        "_kind",
        "_loose",
        "_optional",
        "_positional",
        "_positional_only",
        "advice",
        "context",
    )

    given: ClassVar[type] = Context  # what a parameter is annotated with that the worker passes

    def __init__(self, fn: Callable[..., Any], kind: str) -> None:
        self._kind = kind
        self.advice = ""  # what else to do about a payload that is too long
        self.context: str | None = None  # the parameter that gets the context
        self._positional: tuple[str, ...] = ()  # what may be given by position, in order
        self._positional_only: tuple[str, ...] = ()
        self._defaults: dict[str, Any] = {}  # of every parameter; `_P.empty`: it has no default
        self._optional: tuple[str, ...] = ()
        self._extra: msgspec.json.Decoder[Any] | None = None  # decodes the values of **kwargs
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for parameter in _parameters(fn, kind):
            annotation = resolve(fn, parameter, kind, self.given)
            if annotation is self.given:
                self._take_context(parameter)
            elif parameter.kind is _P.VAR_KEYWORD:
                extra = decodable(annotation, parameter.name, kind)
                self._extra = msgspec.json.Decoder(extra, dec_hook=revive)
            else:
                fields.append(self._field(parameter, decodable(annotation, parameter.name, kind)))
        self._fields = fields
        self._decoder = self._make_decoder(fields)
        self._loose: dict[frozenset[str], msgspec.json.Decoder[Any]] = {}  # see `_decoder_without`

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> str:
        """The payload of a call, without defaults; raises `InvalidJob` or `InvalidPayload`."""
        given = self._bind(args, kwargs) if args or self._positional_only else kwargs
        return self.pack_named(given, limit)

    def pack_named(self, given: Mapping[str, Any], limit: int) -> str:
        """The payload of arguments that are all given by name."""
        try:
            text = encode(given, limit=limit, advice=self.advice)
        except InvalidPayload as error:
            raise InvalidPayload(f"{self._kind}: {error}") from error
        unknown = self._unknown(text)
        try:
            decoded = self._decoder_without(unknown).decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            message, wrong_call = self._fault(error)
            raise (InvalidJob if wrong_call else InvalidPayload)(message) from error
        if self._extra is not None:
            self._extras(text, decoded, unknown)
        return text

    def unpack(self, text: str) -> ArgumentsOfCall:
        """The call that a payload describes, without the context; raises `InvalidPayload`, `PayloadMismatch`."""
        try:
            decoded = self._decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise (PayloadMismatch if is_mismatch(error) else InvalidPayload)(self._fault(error)[0]) from error
        kwargs = msgspec.structs.asdict(decoded)
        for name in self._optional:
            if kwargs[name] is _UNSET:
                del kwargs[name]
        if self._extra is not None:
            kwargs |= self._extras(text, decoded)
        if not self._positional_only:
            return _NO_ARGS, kwargs
        return self._take_positional(kwargs), kwargs

    def schema(self) -> dict[str, Any] | None:
        """What the annotations say of the payload, as JSON Schema."""
        given = [(name, type_, self._defaults[name]) for name, type_, *_ in self._fields]
        return derived_schema([(name, type_, _UNSET if at is _P.empty else at) for name, type_, at in given])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, without the context."""
        return tuple(self._defaults)

    @property
    def open_ended(self) -> bool:
        """Whether it takes other names, too (**kwargs)."""
        return self._extra is not None

    def values(self, text: str) -> dict[str, Any]:
        """All arguments of a payload by name, as the function sees them: with its defaults. Secrets are still
        references."""
        unknown = self._unknown(text)
        decoded = self._decoder_without(unknown).decode(text)
        values = msgspec.structs.asdict(decoded)
        for name in self._optional:
            if values[name] is _UNSET:
                values[name] = self._defaults[name]
        return values if self._extra is None else values | self._extras(text, decoded, unknown)

    def _unknown(self, text: str) -> frozenset[str]:
        """The arguments that are, or contain, references to secrets: their values are known when the job runs."""
        try:
            return frozenset(str(path[0]) for path in secrets.paths(text) if path)
        except InvalidPayload as error:
            raise InvalidPayload(f"{self._kind}: {error}") from error

    def _decoder_without(self, unknown: frozenset[str]) -> msgspec.json.Decoder[Any]:
        """The decoder that accepts any value for these arguments."""
        if not unknown:
            return self._decoder
        # only known names: the number of decoders stays bounded, whatever payloads contain
        unknown = frozenset(unknown & self._defaults.keys())
        loose = self._loose.get(unknown)
        if loose is None:
            fields = [(name, Any if name in unknown else type_, *rest) for name, type_, *rest in self._fields]
            loose = self._make_decoder(fields)
            if len(self._loose) < _MAX_LOOSE:
                self._loose[unknown] = loose
        return loose

    def _take_context(self, parameter: inspect.Parameter) -> None:
        if self.context is not None:
            both = f"both {self.context} and {parameter.name}"
            raise InvalidJob(f"{self._kind}: {both} are annotated {self.given.__name__}: keep one")
        if parameter.kind is _P.POSITIONAL_ONLY:
            raise InvalidJob(f"{self._kind}: the context is given by name, so {parameter.name} may not stand before /")
        self.context = parameter.name

    def _field(self, parameter: inspect.Parameter, annotation: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
        name = parameter.name
        if parameter.kind is not _P.KEYWORD_ONLY:
            self._positional += (name,)
        if parameter.kind is _P.POSITIONAL_ONLY:
            self._positional_only += (name,)
        self._defaults[name] = parameter.default
        if parameter.default is _P.empty:
            return name, annotation
        # UNSET, not the default itself: the function fills in what was not given
        self._optional += (name,)
        return name, annotation, _UNSET

    def _make_decoder(self, fields: list[tuple[str, Any] | tuple[str, Any, Any]]) -> msgspec.json.Decoder[Any]:
        try:
            shape = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=self._extra is None)
            return msgspec.json.Decoder(shape, dec_hook=revive)
        except (TypeError, RuntimeError, ValueError) as error:
            names = ", ".join(field[0] for field in fields)
            raise InvalidJob(f"{self._kind}: its parameters ({names}) cannot be decoded: {error}") from error

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._positional):
            raise InvalidJob(
                f"{self._kind}: {len(args)} arguments were given by position, and it takes {len(self._positional)}"
                + ("" if self.context is None else f" ({self.context} is passed by the worker)")
            )
        given = dict(zip(self._positional, args, strict=False))
        for name in kwargs:
            if name in given:
                raise InvalidJob(f"{self._kind}({name}=…): given twice, by position and by name")
            if name in self._positional_only:
                raise InvalidJob(f"{self._kind}({name}=…): can only be given by position, as the function says")
        return {**given, **kwargs}

    def _extras(self, text: str, decoded: Any, unknown: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The payload's fields that are not parameters."""
        assert self._extra is not None
        extras: dict[str, Any] = {}
        for name, raw in _raw_fields.decode(text).items():
            if name == self.context:
                raise InvalidPayload(f"{self._kind}({name}=…): is the context, which the worker passes: leave it out")
            if name not in decoded.__struct_fields__:
                try:
                    extras[name] = msgspec.json.decode(raw) if name in unknown else self._extra.decode(raw)
                except msgspec.MsgspecError as error:
                    raise InvalidPayload(f"{self._kind}({name}=…): {fault_of(error)[1]}") from error
        return extras

    def _take_positional(self, kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Removes the positional-only arguments and gives them in order; defaults fill gaps between them."""
        last = max((i for i, name in enumerate(self._positional_only) if name in kwargs), default=-1)
        return tuple(kwargs.pop(name, self._defaults[name]) for name in self._positional_only[: last + 1])

    def _fault(self, error: Exception) -> tuple[str, bool]:
        """The message for a decoding error, and whether the call itself is wrong, rather than a value."""
        path, reason = fault_of(error)
        kind = self._kind
        if path == "$" and reason.startswith("object missing required field `"):
            return f"{kind}(): the argument {reason.split('`')[1]} is missing", True
        if path == "$" and reason.startswith("object contains unknown field `"):
            name = reason.split("`")[1]
            if name == self.context:
                return f"{kind}({name}=…): is the context, which the worker passes: leave it out", True
            known = ", ".join(self._decoder.type.__struct_fields__) or "no arguments"
            return f"{kind}({name}=…): there is no such parameter; it takes {known}", True
        if not path.startswith("$."):
            return f"{kind}: the payload cannot be read at {path}: {reason}", False
        return f"{kind}({path[2:]}=…): {reason}", False


_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _parameters(fn: Callable[..., Any], kind: str) -> list[inspect.Parameter]:
    try:
        parameters = list(signature_of(fn).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidJob(f"{kind}: {fn!r} has no signature to read ({error}): wrap it in a function") from error
    for parameter in parameters:
        if parameter.kind is _P.VAR_POSITIONAL:
            raise InvalidJob(
                f"{kind}: *{parameter.name} cannot be stored by name: take a list, {parameter.name}: list[…]"
            )
    if parameters and parameters[0].name in ("self", "cls") and "." in getattr(fn, "__qualname__", ""):
        raise InvalidJob(
            f"{kind}: {fn.__qualname__} is a method without its object: define a function, or register the "
            "bound method of an object, app.job(name=…)(thing.method)"
        )
    return parameters
