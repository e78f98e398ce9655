"""The text of an API key: `hw_live_<id>_<secret><checksum>`. Only the id and a hash of the secret are stored."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from typing import Literal

import msgspec

Mode = Literal["live", "test"]

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID = 12
_SECRET = 43  # 62^43 is a little more than 2^256
_KEY = re.compile(r"(hw_(live|test)_([0-9A-Za-z]{12})_([0-9A-Za-z]{43}))([0-9A-Za-z]{6})\Z")
_KEY_ID = re.compile(r"[0-9A-Za-z]{12}\Z")


class KeyText(msgspec.Struct, frozen=True):
    """A key, taken apart."""

    mode: Mode
    id: str
    secret: str

    @property
    def text(self) -> str:
        body = f"hw_{self.mode}_{self.id}_{self.secret}"
        return body + _checksum(body)

    @property
    def secret_hash(self) -> bytes:
        # as long as the hash itself and random, so no salt and no slow hash: nobody guesses 256 bits
        return hashlib.sha256(self.secret.encode()).digest()


def new_key(mode: Mode = "live") -> KeyText:
    return KeyText(mode, _random(_ID), _random(_SECRET))


def read_key(text: str) -> KeyText | None:
    """The parts of a key; None for anything else, and where a character was lost or mistyped.

    >>> key = new_key("test")
    >>> read_key(key.text) == key
    True
    >>> read_key(key.text[:-1]) is None
    True
    """
    found = _KEY.match(text)
    if found is None or _checksum(found[1]) != found[5]:
        return None
    return KeyText("live" if found[2] == "live" else "test", found[3], found[4])


def is_key_id(text: str) -> bool:
    return _KEY_ID.match(text) is not None


def _random(length: int) -> str:
    return "".join(secrets.choice(_DIGITS) for _ in range(length))


def _checksum(body: str) -> str:
    """CRC32 in six base62 digits: scanners for leaked keys can tell a key from a text that looks like one."""
    value = zlib.crc32(body.encode())
    digits = ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        digits = _DIGITS[digit] + digits
    return digits
