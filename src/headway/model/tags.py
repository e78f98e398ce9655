"""Tags: short words on a job, by which people find it again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from headway.errors import InvalidJob

MOST_TAGS = 20
"""How many tags a job may have: each is a row of the index."""
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/@=+-]{0,63}\Z")


def tag(value: object, what: str = "tags") -> str:
    """One checked tag; raises `InvalidJob`."""
    if not isinstance(value, str) or not _TAG.match(value):
        raise InvalidJob(
            f"{what} has {value!r}, which is not a tag: use 1 to 64 letters, digits, '.', '_', '-', ':', '/', '@', "
            "'=' and '+', starting with a letter, a digit or '_'"
        )
    return value


def tags(value: object, what: str = "tags") -> tuple[str, ...]:
    """Checked tags, each once, in order of the alphabet; a single text is one tag. Raises `InvalidJob`.

    >>> tags(["vip", "eu", "vip"])
    ('eu', 'vip')
    """
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Collection) or isinstance(value, bytes | bytearray | dict):
        raise InvalidJob(f"{what}={value!r} is not a collection of tags: give one like ('vip', 'eu')")
    return at_most(sorted({tag(each, what) for each in value}), what)


def merged(known: Collection[str], new: Collection[str], what: str = "tags") -> tuple[str, ...]:
    """Both together, as a kind's tags and a call's are; raises `InvalidJob` if these are too many."""
    return at_most(sorted({*known, *new}), what)


def at_most(found: Iterable[str], what: str) -> tuple[str, ...]:
    found = tuple(found)
    if len(found) > MOST_TAGS:
        raise InvalidJob(f"{what} are {len(found)}, with those of the kind: a job may have {MOST_TAGS}")
    return found
