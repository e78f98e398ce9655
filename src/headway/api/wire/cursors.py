"""Cursors: where the next page of a list begins. They hold nothing secret, and are checked, not trusted."""

from __future__ import annotations

import base64
import binascii

import msgspec

from headway.api.wire.problems import Fault, Refused


class _Cursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    of: str  # the list that it belongs to
    after: str


def make_cursor(of: str, after: str) -> str:
    text = msgspec.json.encode(_Cursor(of, after))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def read_cursor(of: str, cursor: str | None) -> str | None:
    """Where the page begins; raises `Refused` for what this list never gave."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found = msgspec.json.decode(text, type=_Cursor)
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise not_a_cursor() from None
    if "\0" in found.after:
        raise not_a_cursor()
    if found.of != of:
        raise not_a_cursor(f"it belongs to the list of {found.of[:40]!r}")
    return found.after


def is_cursor_of(of: str, cursor: str) -> bool:
    try:
        return read_cursor(of, cursor) is not None
    except Refused:
        return False


def not_a_cursor(why: str = "it was not made here") -> Refused:
    """Also for one that has the right form, and names what the list does not have."""
    return Refused(
        422, f"the cursor is not valid: {why}", faults=[Fault("not valid", "cursor")], fix="begin without a cursor"
    )
