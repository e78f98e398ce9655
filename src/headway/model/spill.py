"""Results that are too large for their row: an artifact of the attempt has them, and the row refers to it."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.model import codec

RESULT_NAME = ".result.json"
"""No handler can store an artifact of this name: it begins with a dot."""
CONTENT_TYPE = "application/json"


class Spilled(msgspec.Struct, frozen=True):
    """Stands where a result would: the artifact of this id has it, as JSON."""

    id: str = msgspec.field(name="$artifact")


def reference(artifact_id: str) -> str:
    """What a row has instead of the result. Both stores look for this very text, with such an artifact of the attempt
    that ended the job: what a handler returned is never taken for one."""
    return f'{{"$artifact":"{artifact_id}"}}'


def is_reference(raw: object) -> bool:
    """Whether a result that was read raw may be a reference; only the store knows whether it is one."""
    return isinstance(raw, msgspec.Raw) and bytes(raw).startswith(b'{"$artifact":"')


def name_again(artifact_id: str) -> str:
    """The name where the attempt has a result already: a worker over HTTP that lost the answer says its end again."""
    return f".result-{artifact_id}.json"


def is_result_name(name: str) -> bool:
    """Whether an artifact of this name is an attempt's result."""
    return name.startswith(".result")


def is_over(result: str, limit: int) -> bool:
    """Whether the JSON text has more bytes than that."""
    return len(result) > limit or (not result.isascii() and len(result.encode()) > limit)


def stored_result(text: str | None, spilled: object, *, raw: bool = False) -> Any:
    """The result as a row has it: its value, with `raw` its text; `Spilled` where it is a reference."""
    if spilled and text is not None:
        return msgspec.json.decode(text, type=Spilled)
    return codec.as_stored(text, what="result") if raw else codec.shown(text, what="result")
