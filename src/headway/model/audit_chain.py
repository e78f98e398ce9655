"""The audit's chain: what is hashed of an entry, and of a batch of entries that one seal covers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

FIRST = bytes(32)
"""What the first seal has in place of a hash before it."""
ERASED = "audit.erased"
"""The action of an entry whose detail has the numbers of those whose words were taken out."""
MOST = 500
"""Entries of a seal, at most."""
MOST_BYTES = 1_000_000
"""Characters of their details and changes; an entry that has more is alone."""


class AuditSeal(msgspec.Struct, frozen=True):
    """A link of the chain, over `entries` of the audit; their numbers are between `first_id` and `last_id`."""

    n: int
    first_id: int
    last_id: int
    entries: int
    newest_at: datetime
    sealed_at: datetime
    hash: bytes


class SealedEntry(msgspec.Struct, frozen=True):
    """An entry as its seal covers it. The words of an erased one are gone: only its hash is left."""

    id: int
    parts: tuple[str | None, ...]
    hash: bytes
    erased: bool

    @property
    def is_whole(self) -> bool:
        if not self.erased:
            return entry_hash(self.parts) == self.hash
        actor, name, action, detail, *more = self.parts[4:]
        # what was erased stands in the detail of the entry that says so, and stays there
        return (actor, name, *more) == (None,) * 5 and (detail is None or action == ERASED)


class AuditState(msgspec.Struct, frozen=True):
    """What the chain does not cover."""

    stray: int  # entries that name a seal that does not cover them
    unnamed: int  # entries that are erased, and no entry says so
    unsealed: int
    oldest_unsealed_at: datetime | None


def entry_hash(parts: Sequence[str | None]) -> bytes:
    """The hash of an entry: of its number, time (microseconds since 1970), tenant, job, actor, the actor's name,
    action, detail, changes, request and address, each with its length.

    >>> entry_hash(["1", "0", None]).hex()[:12]
    'f5e98a3632bb'
    """
    found = hashlib.sha256()
    for part in parts:
        text = None if part is None else part.encode()
        found.update(b"~" if text is None else b"%d:%s" % (len(text), text))
    return found.digest()


def seal_hash(before: bytes, n: int, hashes: Iterable[bytes]) -> bytes:
    """The hash of a seal: of the seal before it, its number and count, and of its entries in order of their numbers."""
    each = list(hashes)
    return hashlib.sha256(b"%s%d %d %s" % (before, n, len(each), b"".join(each))).digest()
