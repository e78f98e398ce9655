"""Who did it, as the audit keeps it: one short line of text, the same on both stores."""

from __future__ import annotations

import re

from headway.errors import InvalidJob
from headway.model.codec import check_text

LIMIT = 255

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_actor(actor: object, name: str = "actor") -> str | None:
    """The actor, or None for nobody; raises `InvalidJob` where it is not one line of up to 255 characters."""
    if actor is None:
        return None
    text = check_text(actor, name, limit=LIMIT)
    if _CONTROL.search(text):
        raise InvalidJob(f"{name}={text!r} holds a control character: give one line, such as a name or an address")
    return text


def as_actor(text: str) -> str:
    """Something that can be an actor, of any text that is not empty."""
    return _CONTROL.sub("?", text.encode("utf-8", "replace").decode())[:LIMIT]
