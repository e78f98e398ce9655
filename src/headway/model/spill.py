"""Payloads and results that are too large for their row: an artifact has them, and the row refers to it."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.errors import InvalidPayload
from headway.model import codec

RESULT_NAME = ".result.json"
"""No handler can store an artifact of this name: it begins with a dot."""
PAYLOAD_NAME = ".payload.json"
PAYLOAD_FENCE = 0
"""No attempt has this fence: a payload is there before the first of them."""
CONTENT_TYPE = "application/json"
_BEGINS = '{"$artifact":"'


class Spilled(msgspec.Struct, frozen=True):
    """Stands where a result would: the artifact of this id has it, as JSON."""

    id: str = msgspec.field(name="$artifact")


def reference(artifact_id: str) -> str:
    """What a row has instead of the value. Both stores look for this very text, with such an artifact of the attempt
    that ended the job, or of the job itself: what a handler returned or a caller gave is never taken for one."""
    return f'{{"$artifact":"{artifact_id}"}}'


def is_reference(raw: object) -> bool:
    """Whether a result that was read raw may be a reference; only the store knows whether it is one."""
    return isinstance(raw, msgspec.Raw) and bytes(raw).startswith(_BEGINS.encode())


def may_refer(payload: str) -> bool:
    """The same of a payload as its row has it."""
    return payload.startswith(_BEGINS)


def name_again(artifact_id: str) -> str:
    """The name for an attempt's second result: a worker over HTTP that lost the answer reports its end again."""
    return f".result-{artifact_id}.json"


def is_result_name(name: str) -> bool:
    """Whether an artifact of this name is an attempt's result."""
    return name.startswith(".result")


def is_over(text: str, limit: int) -> bool:
    """Whether the JSON text has more bytes than that."""
    # a character has at most four bytes
    return len(text) > limit or (len(text) > limit >> 2 and not text.isascii() and len(text.encode()) > limit)


def refuse_large(payload: str, limit: int, whose: str) -> None:
    """For children and the jobs of triggers, which others enqueue; raises `InvalidPayload`."""
    if is_over(payload, limit):
        raise InvalidPayload(
            f"the payload of {whose} is over the limit of {limit:,} bytes, and spills only where the job is enqueued "
            "by itself: store the data as an artifact, or elsewhere, and pass a reference to it"
        )


def stored_result(text: str | None, spilled: object, *, raw: bool = False) -> Any:
    """The result as a row has it: its value, with `raw` its text; `Spilled` where it is a reference."""
    if spilled and text is not None:
        return msgspec.json.decode(text, type=Spilled)
    return codec.as_stored(text, what="result") if raw else codec.shown(text, what="result")
