"""Reads what a request says: its body as JSON within limits, and its query; refuses what it does not know."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from headway.api.aside import pause
from headway.api.wire.exchange import Exchange
from headway.api.wire.problems import Fault, Refused, path_parts, pointer
from headway.model.codec import DEEPEST, FAULTS, outside_strings, too_deep

_NUL = "the JSON holds a NUL character, which PostgreSQL cannot keep: remove it"
_FIELD = re.compile(rb'[\s,{]*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*', re.DOTALL)
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_PATH = re.compile(r" - at `(\$[^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`", re.DOTALL)
_MOST_FAULTS = 10
_AROUND = 4  # levels of a body around what is stored of it: of the state in {"jobs": [{"outcome": {"state": …}}]}
_JSON_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_MOST_PARAMETERS = 100
LARGE = 64 * 1024
"""Bytes; smaller bodies are read within a few milliseconds, larger ones beside the event loop and in parts."""
_NAMED = 16 * 1024  # of a larger body only the first unknown field is named: each further one takes another look
BODY_S = 30.0
"""A body that takes longer to arrive is refused."""
ARRIVED = "headway.arrived"
"""In the scope of a request whose body is all here, as it mostly is when the head is: no timer is set for it."""


async def read_body(request: Request, limit: int) -> bytes:
    """The body; raises `Refused` before more than the limit has been read."""
    sent = Exchange.of(request).sent
    if "content-encoding" in sent and sent["content-encoding"].strip().lower() not in ("", "identity"):
        raise Refused(
            415,
            f"the body is compressed ({sent['content-encoding'][:40]}), which is not read here",
            fix="send it as it is, without Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )
    declared = sent.get("content-length")
    if declared is not None and declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    if ARRIVED in request.scope:
        return await _whole(request, limit)
    try:
        async with asyncio.timeout(BODY_S):
            return await _whole(request, limit)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_S:g} s", headers={"Connection": "close"}) from None


async def _whole(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the client went away before its body had arrived")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return b"".join(parts)


async def read_upload(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body, piece by piece, however long it is; raises `Refused` beyond the limit, and when no more of it comes."""
    size = 0
    pieces = request.stream()
    try:
        while True:
            async with asyncio.timeout(BODY_S):
                piece = await anext(pieces, None)
            if piece is None:
                return
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            yield piece
    except TimeoutError:
        raise Refused(408, f"no more of the body came for {BODY_S:g} s", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(400, "the client went away before its body had arrived") from None


def decode_body(body: bytes, content_type: str | None, into: Any, *, quotes: bool = False) -> Any:
    """The body as this type; raises `Refused`. With `quotes` it may hold NUL characters and, unless it has a result,
    which would be stored as it is, lone surrogates."""
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    if media not in ("application/json", "application/merge-patch+json"):
        raise Refused(415, f"the body is {media}: send application/json")
    if not body:  # white space is not JSON, and not nothing either
        body = b"{}"
    try:
        body.decode()  # parts that pass through as text are not decoded
    except UnicodeDecodeError as error:
        raise Refused(400, f"the body is not JSON in UTF-8: {error}") from None
    if quotes and b"\\ud" in body.lower() and b'"result"' not in body and b'"outcome"' not in body:
        body = _JSON_ESCAPE.sub(_escaped, body)
    _check_parts(body, DEEPEST + _AROUND, may_hold_nul=quotes)
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.ValidationError as error:
        raise _unknown_fields(body, into, error) or _invalid(error, "body") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if any(found["half"] for found in _JSON_ESCAPE.finditer(body)):
            raise Refused(400, "the JSON holds half of a surrogate pair, which is not text: remove it") from None
        raise Refused(400, f"the body is not JSON in UTF-8: {error}") from None


def _check_parts(body: bytes | msgspec.Raw, levels: int, *, may_hold_nul: bool) -> None:
    """Raises `Refused` for more levels than these, and for what `_refuse_repeated_names` looks for. A large body is
    looked at part by part: one look at all of it would keep other threads, such as the event loop's, from running."""
    text = bytes(body)
    begin = text[:1] if text[:1] in b"{[" else text.lstrip()[:1]
    if len(text) <= LARGE or begin not in (b"{", b"["):
        if too_deep(text, levels):
            raise Refused(400, f"the JSON is nested more than {DEEPEST} deep")
        _refuse_repeated_names(text, may_hold_nul=may_hold_nul)
        return
    if not levels:
        raise Refused(400, f"the JSON is nested more than {DEEPEST} deep")
    try:
        if begin == b"[":
            parts = _read_list(text)
        else:
            fields = _read_object(text)
            parts = list(fields.values())
    except FAULTS:
        return  # whoever decodes it says what is wrong
    if begin == b"{":
        if not may_hold_nul and any("\0" in name for name in fields):
            raise Refused(422, _NUL)
        _refuse_replaced(text, parts)
    for part in parts:
        pause()
        _check_parts(part, levels - 1, may_hold_nul=may_hold_nul)


def _refuse_replaced(text: bytes, values: Sequence[msgspec.Raw]) -> None:
    """Raises `Refused` where an object has more than these values, which a decoder read, in their order: another one of
    the same name was replaced."""
    at = 0
    for value in values:
        field = _FIELD.match(text, at)
        if field is None or not text.startswith(bytes(value), field.end()):
            raise _named_twice(field)
        at = field.end() + len(value)
    if more := _FIELD.match(text, at):
        raise _named_twice(more)


def _named_twice(field: re.Match[bytes] | None) -> Refused:
    name = "a field" if field is None else repr(msgspec.json.decode(field[1])[:80])
    return Refused(400, f"the JSON names {name} twice in one object")


def _unknown_fields(body: bytes, into: Any, first: msgspec.ValidationError) -> Refused | None:
    """The refusal that names all of them: a decoder stops at the first."""
    faults: list[Fault] = []
    names: list[str] = []
    if len(body) > _NAMED:
        unknown, path = _UNKNOWN.search(str(first)), _PATH.search(str(first))
        if unknown is None:
            return None
        parts = [] if path is None else path_parts(path[1])
        return _said_unknown([unknown[1]], [Fault(f"unknown field `{unknown[1]}`", pointer([*parts, unknown[1]]))])
    try:
        value = msgspec.json.decode(body)
        while len(faults) < _MOST_FAULTS:
            try:
                msgspec.json.decode(msgspec.json.encode(value), type=into)
                break
            except msgspec.ValidationError as error:
                unknown, path = _UNKNOWN.search(str(error)), _PATH.search(str(error))
                if unknown is None:
                    break
                parts = [] if path is None else path_parts(path[1])
                holder = value
                for part in parts:
                    holder = holder[part]
                del holder[unknown[1]]
                names.append(unknown[1])
                faults.append(Fault(f"unknown field `{unknown[1]}`", pointer([*parts, unknown[1]])))
    except (KeyError, IndexError, TypeError, *FAULTS):
        pass  # what the path means cannot be told: those found until then are named
    return _said_unknown(names, faults) if faults else None


def _said_unknown(names: Sequence[str], faults: list[Fault]) -> Refused:
    said = ", ".join(f"`{each[:80]}`" for each in dict.fromkeys(names))
    known = f"unknown field{'s' if len(set(names)) > 1 else ''} {said}"
    return Refused(422, f"the body is not valid: it has the {known}", faults=faults)


def _escaped(found: re.Match[bytes]) -> bytes:
    """Half of a surrogate pair as the text of its escape: as workers in Python have it in an error."""
    return b"\\" + found[0] if found["half"] is not None else found[0]


def decode_query(pairs: Iterable[tuple[str, str]], into: type[msgspec.Struct]) -> Any:
    """The query's parameters as this struct; a parameter of a tuple may repeat, others may not."""
    given: dict[str, list[str]] = {}
    for count, (name, value) in enumerate(pairs):
        if count >= _MOST_PARAMETERS:
            raise Refused(400, f"the query has more than {_MOST_PARAMETERS} parameters")
        if "\0" in name or "\0" in value:
            raise Refused(422, f"{name!r} holds a NUL character", faults=[Fault("holds a NUL character", name)])
        given.setdefault(name, []).append(value)
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    values: dict[str, Any] = {}
    for name, each in given.items():
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise Refused(
                422, f"{name!r} is not a parameter here", faults=[Fault("unknown", name)], fix=f"known: {known}"
            )
        if "tuple" in str(fields[name].type):
            values[name] = each
        elif len(each) > 1:
            raise Refused(422, f"{name} is given {len(each)} times", faults=[Fault("takes one value", name)])
        elif each[0].lower() == "null" and "str" not in str(fields[name].type):  # convert would take it for None
            raise Refused(422, f"{name}={each[0]} is not a value of it: leave it out", faults=[Fault("null", name)])
        else:
            values[name] = each[0]
    try:
        return msgspec.convert(values, into, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error, "query") from None


def _invalid(error: msgspec.ValidationError, where: str) -> Refused:
    said = str(error)
    path = _PATH.search(said)
    detail = _PATH.sub("", said)
    at = "" if path is None else pointer(path_parts(path[1]))
    return Refused(422, f"the {where} is not valid: {detail}", faults=[Fault(detail, at)])


def _holds_nul(value: Any) -> bool:
    return "\0" in value if isinstance(value, str) else isinstance(value, list) and any(map(_holds_nul, value))


def _refuse_repeated_names(body: bytes, *, may_hold_nul: bool) -> None:
    """Raises `Refused` where an object names a field twice: two readers would see two different requests; and where a
    field holds a NUL character, unless it may."""

    has_nul = not may_hold_nul and b"\\u0000" in body
    if not has_nul and _names_are_unique(body):
        return

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if has_nul and any(_holds_nul(part) for pair in pairs for part in pair):
            raise Refused(422, _NUL)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    raise Refused(400, f"the JSON names {name[:80]!r} twice in one object")
                seen.add(name)
        return found

    try:
        # numbers stay text: one that Python refuses as too long would end the search
        read = json.loads(body, object_pairs_hook=unique, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return
    if has_nul and _holds_nul(read):  # a part that is no object
        raise Refused(422, _NUL)


def _names_are_unique(body: bytes) -> bool:
    """Whether as many fields are read as were sent. It takes a third of the time of looking at each object; False
    where it cannot be told."""
    try:
        read = msgspec.json.encode(msgspec.json.decode(body))
    except FAULTS:
        return False
    return outside_strings(read).count(b":") == outside_strings(body).count(b":")


def _too_large(limit: int) -> Refused:
    return Refused(413, f"the body is larger than {limit:,} bytes", fix="store the blob elsewhere and send a reference")
