"""Who did it, as the audit keeps it: one short line of text, the same on both stores."""

from __future__ import annotations

import re

from headway.errors import InvalidJob
from headway.model.codec import check_text

LIMIT = 255

_CALLERS = ("key:", "oidc:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Caller(str):
    """An actor who asked over HTTP: the audit keeps the request's id and address, and what the key is called."""

    __slots__ = ("address", "called", "request_id")

    request_id: str
    address: str
    called: str | None

    @classmethod
    def of(cls, name: str, *, request_id: str, address: str, called: str | None = None) -> Caller:
        caller = cls(name)
        caller.request_id, caller.address, caller.called = request_id, address, called
        return caller


def is_caller(name: str | None) -> bool:
    """Whether something was made over HTTP, by its `created_by`."""
    return name is not None and name.startswith(_CALLERS)


def origin(actor: str | None) -> tuple[str | None, str | None, str | None]:
    """The id and the address of the actor's HTTP request, and the name of its key, if there was one."""
    return (actor.request_id, actor.address, actor.called) if isinstance(actor, Caller) else (None, None, None)


def check_actor(actor: object, name: str = "actor") -> str | None:
    """The actor, or None for nobody; raises `InvalidJob` where it is not one line of up to 255 characters."""
    if actor is None:
        return None
    text = check_text(actor, name, limit=LIMIT)
    if _CONTROL.search(text):
        raise InvalidJob(f"{name}={text!r} holds a control character: give one line, such as a name or an address")
    return actor if isinstance(actor, Caller) else text


def as_actor(text: str) -> str:
    """Something that can be an actor, of any text that is not empty."""
    return _CONTROL.sub("?", text.encode("utf-8", "replace").decode())[:LIMIT]
