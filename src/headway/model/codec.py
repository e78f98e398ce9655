"""JSON in and out: what both stores can keep, and nothing else; a refusal has the path of the fault."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from headway.errors import InvalidJob, InvalidPayload

DEEPEST = 64
UNREADABLE = "unreadable: "
FAULTS = (msgspec.MsgspecError, RecursionError, UnicodeError)
"""What decoding raises."""
KEY_LIMIT = 512
BATCH_LIMIT = 256 * 2**20
"""PostgreSQL takes no parameter of 1 GiB, and within an array every quote is escaped."""

_SMALLEST_INT = -(2**63)
_LARGEST_INT = 2**64 - 1
_LONG_NUMBER = re.compile(rb"[-\d]\d{19}")
_TIME_WITHOUT_ZONE = re.compile(rb'T\d\d:\d\d:\d\d(?:\.\d+)?"')
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SCALARS = frozenset({type(None), bool, int, float, str})
_SCALAR_BASES = (int, float, str, datetime, Enum)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def encode(value: object, *, limit: int, what: str = "payload", advice: str = "") -> str:
    """The value as JSON text of at most `limit` bytes; raises `InvalidPayload` for what a store cannot keep. `advice`:
    what else can be done about a text that is too long.

    >>> encode({"user_id": 7}, limit=100)
    '{"user_id":7}'

    A `msgspec.Raw` is JSON text already, and stays as it is: with its spaces, and with numbers of any length.
    """
    if type(value) is msgspec.Raw:
        return _as_it_is(bytes(value), limit, what, advice)
    try:
        text = _encoder.encode(value)
    except Exception as error:
        raise InvalidPayload(_explain(value, what, error)) from error
    if len(text) > limit:
        raise _too_long(text, limit, what, advice)
    # msgspec writes these without complaint; only a text that may hold one pays for looking at every value
    if (
        b"\\u0000" in text
        or (b"null" in text and not _reads_back(text, value))
        or _TIME_WITHOUT_ZONE.search(text)
        or _LONG_NUMBER.search(text)
        or too_deep(text, DEEPEST)
    ):
        fault = _find(value, 1)
        if fault is not None:
            raise InvalidPayload(_show(fault, what))
    return text.decode()


def _as_it_is(text: bytes, limit: int, what: str, advice: str) -> str:
    if len(text) > limit:
        raise _too_long(text, limit, what, advice)
    value = read(text, what=what)
    if b"\\u0000" in text:
        fault = _find(value, 1)
        if fault is not None and "NUL" in fault.reason:
            raise InvalidPayload(_show(fault, what))
    return text.decode()


def _too_long(text: bytes, limit: int, what: str, advice: str) -> InvalidPayload:
    return InvalidPayload(
        f"the {what} is {len(text):,} bytes of JSON, over the limit of {limit:,}: "
        f"store the blob elsewhere (a file, an object store, a table) and pass a reference to it{advice}"
    )


def check_batch(texts: Iterable[str], what: str) -> None:
    """Raises `InvalidPayload` for more JSON than one statement should carry; all of a batch goes in, or nothing."""
    size = sum(map(len, texts))
    if size > BATCH_LIMIT:
        raise InvalidPayload(
            f"the {what} of this call have {size:,} characters of JSON together, over the limit of {BATCH_LIMIT:,}: "
            "nothing was stored; make several calls of them"
        )


def decode(text: str | bytes, type: Any = Any, *, what: str = "payload") -> Any:  # noqa: A002 - as msgspec names it
    """The value that JSON text stands for, as `type`; raises `InvalidPayload` with the path of the fault."""
    try:
        if type is Any:
            return _decoder.decode(text)
        return msgspec.json.decode(text, type=type, dec_hook=revive)
    except FAULTS as error:
        raise unread(what, error) from error


def read(text: str | bytes, *, what: str = "payload") -> Any:
    """The same for text that others may have stored: what is deeper than `encode` allows is refused too: how deep
    JSON may be depends on who reads it."""
    refuse_deep(text, what)
    return decode(text, what=what)


def refuse_deep(text: str | bytes, what: str, *, around: int = 0) -> None:
    """Raises `InvalidPayload` for text that is deeper than `encode` allows plus this many levels around it."""
    if too_deep(text.encode() if isinstance(text, str) else text, DEEPEST + around):
        raise InvalidPayload(f"the {what} cannot be read at $: it is nested deeper than {DEEPEST} levels")


def outside_strings(text: bytes) -> bytes:
    """JSON without its strings: every bracket, comma and colon in it belongs to the structure.

    >>> outside_strings(b'{"a]": [1, "\\\\"}"]}')
    b'{: [1, ]}'
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.split(b'"')[::2])  # a regular expression takes ten times as long


def unread(what: str, error: Exception) -> InvalidPayload:
    """What a reader says of one of the `FAULTS`."""
    path, reason = fault_of(error)
    return InvalidPayload(f"the {what} cannot be read at {path}: {reason}")


def shown(text: str | bytes | None, *, what: str = "value") -> Any:
    """What stored text stands for, for people who look: where it cannot be read, why, in words that say so."""
    try:
        return None if text is None else decode(text, what=what)
    except InvalidPayload as error:
        return f"{UNREADABLE}{error}"


def as_stored(text: str | bytes | None, *, what: str = "value") -> Any:
    """Stored text for those who pass it on: `msgspec.Raw`; where it is not JSON, why, in words that say so."""
    try:
        return None if text is None else msgspec.json.decode(text, type=msgspec.Raw)
    except FAULTS:
        return shown(text, what=what)


def fault_of(error: Exception) -> tuple[str, str]:
    """The path and the reason of a decoding error, lower case to stand inside a sentence."""
    if isinstance(error, RecursionError):
        return "$", "it is nested too deeply"
    reason, _, path = str(error).partition(" - at `")
    if not reason.startswith("JSON"):
        reason = reason[:1].lower() + reason[1:]
    return path.rstrip("`") or "$", reason


def is_mismatch(error: Exception) -> bool:
    """Whether a decoding error is only about unknown or missing fields, as between two releases of one type."""
    faults_of_model = getattr(error.__cause__, "errors", None)  # pydantic's
    if callable(faults_of_model):
        return all(fault["type"] in ("extra_forbidden", "missing") for fault in faults_of_model())
    return str(error).startswith(("Object contains unknown field", "Object missing required field"))


def revive(type: Any, value: Any) -> Any:  # noqa: A002 - msgspec's dec_hook
    """Makes pydantic models, which msgspec does not know, from JSON: strict models read what they wrote."""
    if not is_model(type):
        raise TypeError(f"cannot make {type!r} from JSON")
    return type.model_validate_json(_encoder.encode(value))


def is_model(type: Any) -> bool:  # noqa: A002
    """Whether this is a pydantic model's class; pydantic itself is never imported."""
    return hasattr(type, "model_validate_json") and hasattr(type, "model_dump")


def check_text(value: object, name: str, *, limit: int = KEY_LIMIT) -> str:
    """A key or other short string that both stores can keep; raises `InvalidJob` naming it."""
    if not isinstance(value, str):
        raise InvalidJob(f"{name}={value!r} is {_type_name(value)}, not a string: give str(…) of it")
    if not value:
        raise InvalidJob(f"{name} is empty: give a text, or None for no {name}")
    if len(value) > limit:
        raise InvalidJob(
            f"{name}={value[:20] + '…'!r} has {len(value)} characters, over the limit of {limit}: "
            "shorten it, or give a hash of it"
        )
    reason = _text_fault(value)
    if reason is not None:
        raise InvalidJob(f"{name}={value!r} {reason}")
    return str(value)


def _lower(value: Any) -> Any:
    """Turns what msgspec does not know into what it does (its enc_hook)."""
    if is_model(value):
        # aliases and round_trip: what is written must be what the model reads
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    match value:
        case str():
            return str.__str__(value)
        case int() if value is not True and value is not False:  # as keys, which the hook is asked for too
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case Mapping():
            return dict(value)
    raise NotImplementedError


_encoder = msgspec.json.Encoder(enc_hook=_lower)
_decoder = msgspec.json.Decoder()


def _reads_back(text: bytes, value: object) -> bool:
    """Whether the text gives an equal value, as for plain values whose nulls are all None, not NaN."""
    try:
        return bool(_decoder.decode(text) == value)
    except Exception:
        return False


def too_deep(text: bytes, most: int) -> bool:
    """Whether JSON is nested deeper than this many levels."""
    if text.count(b"[") + text.count(b"{") <= most:
        return False
    # all of one shape: each round of replacing peels exactly one level
    brackets = outside_strings(text).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(most):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True


class _Fault(msgspec.Struct):
    """What is wrong and where; the path grows from the fault outwards, so that looking costs no strings."""

    reason: str
    path: list[str]


def _show(fault: _Fault, what: str) -> str:
    steps = fault.path[::-1]
    path = "$" + "".join(steps if len(steps) <= 12 else [*steps[:6], "…", *steps[-3:]])
    return f"the {what} cannot be stored: {path} {fault.reason}"


def _explain(value: object, what: str, error: Exception) -> str:
    fault = _find(value, 1)
    if fault is None:
        fault = _Fault(f"cannot be written as JSON: {type(error).__name__}: {error}", [])
    return _show(fault, what)


def _find(value: Any, depth: int) -> _Fault | None:
    """The first fault in the value; `depth` is the level that a container here would have."""
    kind = type(value)
    if kind in _SCALARS or isinstance(value, _SCALAR_BASES):
        reason = _scalar_fault(value)
        return None if reason is None else _Fault(reason, [])
    if kind is not dict and kind is not list:
        if kind is msgspec.Raw:
            return _find(msgspec.json.decode(value), depth)
        if is_model(value):
            return _find_in_model(value, depth)
    members = _members(value)
    if members is None:
        return _unknown_fault(value)
    if depth > DEEPEST:
        return _Fault(f"is nested deeper than {DEEPEST} levels, or contains itself: flatten it", [])
    for step, member in members:
        if type(step) is _Fault:
            return step
        if member is None:
            continue
        fault = _find(member, depth + 1)
        if fault is not None:
            fault.path.append(f"[{step}]" if type(step) is int else _name_step(str(step)))
            return fault
    return None


def _find_in_model(value: Any, depth: int) -> _Fault | None:
    try:
        return _find(_lower(value), depth)
    except Exception as error:
        return _Fault(f"is a {_type_name(value)} that cannot be dumped: {error}", [])


def _members(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """The parts of a container, each with its index or name; None for what is not a container."""
    match value:
        case dict() | Mapping():
            return _items(value)
        case list() | tuple() | set() | frozenset():
            return enumerate(value)
        case msgspec.Struct():
            return _fields(value, zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value, ((field.name, field.name) for field in dataclasses.fields(value)))
    if hasattr(value, "__attrs_attrs__") and not isinstance(value, type):
        return _fields(value, ((field.name, field.name) for field in value.__attrs_attrs__))
    return None


def _items(value: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for key, member in value.items():
        reason = _text_fault(key) if type(key) is str else _key_fault(key)
        if reason is not None:
            yield _Fault(f"has a key that {reason}", []), None
        yield str(key.value) if isinstance(key, Enum) else str(key), member


def _fields(value: Any, names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    for written, name in names:
        member = getattr(value, name, msgspec.UNSET)
        if member is not msgspec.UNSET:
            yield written, member


def _name_step(name: str) -> str:
    return f".{name}" if _PLAIN_NAME.match(name) else f"[{json.dumps(name)}]"


def _scalar_fault(value: Any) -> str | None:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, int):
        if not _SMALLEST_INT <= value <= _LARGEST_INT:
            return "is an integer beyond 64 bits: pass it as a string"
    elif isinstance(value, float):
        if not math.isfinite(value):
            return f"is {value}, which JSON has no number for: pass None or a string"
    elif isinstance(value, datetime) and value.utcoffset() is None:
        return f"is the naive datetime {value.isoformat()}: add a zone, e.g. datetime.now(UTC)"
    return None


def _text_fault(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character, which PostgreSQL cannot keep: remove it, or pass bytes"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            surrogate = text[error.start]
            return f"holds the lone surrogate {surrogate!r}, which is not text: decode its source as UTF-8"
    return None


def _key_fault(key: Any) -> str | None:
    """Of a mapping's key; msgspec is asked, since it knows more types of keys than are listed anywhere."""
    if isinstance(key, str | int | float | datetime | Enum) and not isinstance(key, bool):
        reason = _scalar_fault(key)
        if reason is not None:
            return reason
    try:
        _encoder.encode({key: 0})
    except Exception:
        return f"is {key!r} of type {_type_name(key)}: keys are strings, numbers, enums, UUIDs or dates"
    return None


def _unknown_fault(value: Any) -> _Fault | None:
    try:
        _encoder.encode(value)
    except Exception:
        return _Fault(
            f"is a {_type_name(value)}, which cannot be stored as JSON: pass plain values, a dataclass, "
            "a msgspec Struct or a pydantic model",
            [],
        )
    return None


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
