"""Ids: time-ordered UUIDv7 for rows, and how callers name a tenant."""

from __future__ import annotations

import os
import re
import struct
import threading
import time
import uuid
from collections.abc import Iterable

from headway.errors import InvalidJob, NotFound

_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z")
_HEX = re.compile(r"[0-9a-fA-F]{32}\Z")
_SLUG = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}\Z")


_DRAWN = 256  # ids whose random bits are drawn at once: asking the system takes longer than the rest of an id


class _Sequence:
    """Makes ids of one process strictly increase, also within one millisecond and when the clock steps back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._drawn: list[int] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._drawn = []  # the parent uses those

    def next(self) -> tuple[int, int]:
        """A stamp, and 64 random bits."""
        # 48 bits of milliseconds and 12 of their fraction, as RFC 9562 (method 3) allows
        now = time.time_ns() * 4096 // 1_000_000
        with self._lock:
            self._last = now if now > self._last else self._last + 1
            if not self._drawn:
                self._drawn = list(struct.unpack(f"={_DRAWN}Q", os.urandom(8 * _DRAWN)))
            return self._last, self._drawn.pop()


_sequence = _Sequence()


def new_id() -> str:
    """A new UUIDv7, later ones sorting after earlier ones of this process."""
    stamp, random = _sequence.next()
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | random & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def as_id(value: str | uuid.UUID, what: str = "job") -> str:
    """The canonical text of an id; raises `NotFound` for what is not a UUID: nothing has such an id."""
    if isinstance(value, uuid.UUID):
        return str(value)
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise NotFound(_no_id(value, what)) from None


def _no_id(value: object, what: str) -> str:
    article = "an" if what[0] in "aeiou" else "a"
    return f"{value!r} is not {article} {what} id: ids are UUIDs, as {what}.id gives them"


def given_id(value: str | uuid.UUID, name: str) -> str:
    """The same for an id that only says where to look; raises `InvalidJob` naming the argument."""
    try:
        return as_id(value)
    except NotFound:
        raise InvalidJob(f"{name}={value!r} is not an id: ids are UUIDs, as job.id gives them") from None


def ids_with_prefix(prefix: str) -> tuple[str, str]:
    """The first and the last id that begins so; raises `InvalidJob`."""
    digits = prefix.replace("-", "").lower()
    if not 1 <= len(digits) <= 32 or not set(digits) <= set("0123456789abcdef"):
        raise InvalidJob(f"{prefix!r} is not the beginning of an id")
    first, last = (str(uuid.UUID(digits.ljust(32, end))) for end in "0f")
    return first, last


def tenant_ref(tenant: str | uuid.UUID) -> str:
    """A tenant as callers name it: by its name, or, where a `UUID` is given, by its id; raises `InvalidJob`."""
    if isinstance(tenant, uuid.UUID):
        return str(tenant)
    if not isinstance(tenant, str):
        raise InvalidJob(f"a tenant is a name or a UUID, not {type(tenant).__name__}")
    if not _SLUG.match(tenant):
        raise InvalidJob(
            f"tenant {tenant!r} is not a valid name: use up to 63 lower-case letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    if is_id(tenant):
        raise InvalidJob(
            f"tenant {tenant!r} is not a valid name: it is written like an id. Give uuid.UUID({tenant!r}) to mean the "
            "tenant of that id"
        )
    return tenant


def is_id(text: str) -> bool:
    """Whether a text reads as a UUID, with hyphens or without: no name may."""
    return _HEX.match(text.replace("-", "")) is not None


def check_new_tenants(names: Iterable[str]) -> None:
    """Raises `InvalidJob` for what is neither a tenant's name nor an id in its canonical form."""
    for name in names:
        if not _ID.match(name):
            tenant_ref(name)


def known_id(ref: str) -> str:
    """The id of a tenant where it needs no look at the database: the default one's; else "", until it is looked up."""
    return DEFAULT_TENANT_ID if ref == "default" else ""


DEFAULT_TENANT_ID = "cbc7797a-7d82-5166-9044-8e0ae3cba0bc"
NOBODY = "00000000-0000-0000-0000-000000000000"  # the tenant that nothing belongs to
