"""Errors grouped: executions that ended badly in the same way have one fingerprint.

The fingerprint is made from the kind, the error's type and its place in the application's code; where the text shows no
place, from the message without its numbers, ids and quoted words. A settle, a reap, or SQL's `fail` stores the text
beside the attempt, in the same transaction; `fold_errors` reads it there, in Python on both stores, so that all of them
are fingerprinted by the same rules.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Literal, get_args

import msgspec

from headway.errors import InvalidJob

ErrorStatus = Literal["failed", "timeout", "lost"]
ERROR_STATUSES: tuple[ErrorStatus, ...] = get_args(ErrorStatus)
ErrorOrder = Literal["last_seen", "count"]
ERROR_ORDERS: tuple[ErrorOrder, ...] = get_args(ErrorOrder)

MOST_GROUPS = 1_000
"""How many groups a tenant can have; errors that are new beyond that count together, by kind."""
MOST_READ = 10_000
"""Of how many rows, those seen last, a list is made."""
HEAD_CHARS, TAIL_CHARS = 4_096, 8_192
"""What is kept of a longer text: its beginning has the message, its end the innermost frames."""
MESSAGE_CHARS = 500
_FINGERPRINT = re.compile("[0-9a-f]{16}")
_FRAMES = 3
_UNKNOWN = "it failed without a message"

_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'^[ |+]*File "([^"\n]+)", line \d+, in ([^\n]+)$', re.MULTILINE)
# Node: "at send (/srv/mail.js:10:5)", Java: "at shop.Mail.send(Mail.java:10)"
_AT_FRAME = re.compile(r"^[ \t]+at ([^\s(]+) ?\(([^():\n]+)(?::\d+){0,2}\)$", re.MULTILINE)
_LIBRARY = re.compile(
    r"site-packages/|dist-packages/|/lib/python3|/lib64/python3|<frozen |node_modules/|^node:|^java\."
)
_NOT_INDENTED = re.compile(r"^[^\s|+].*$", re.MULTILINE)
_TYPE = re.compile(r"([^\W\d][\w.<>]{0,199})(?::|$)")
_TYPE_ALONE = re.compile(r"([^\W\d][\w.]{0,199}(?:Error|Exception|Timeout|Failed|Interrupt|Exit))(?::|$)")
_QUOTED = re.compile(r"'[^'\n]{0,400}'|\"[^\"\n]{0,400}\"|`[^`\n]{0,400}`|“[^”\n]{0,400}”")
_NUMBERED = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b0x[0-9a-fA-F]+\b|[\w-]*\d[\w-]*")


class Identity(msgspec.Struct, frozen=True):
    """What kind of error a text tells of."""

    fingerprint: str
    type: str | None  # of the exception
    place: str | None  # "shop/mail.py in send"
    message: str  # the line that tells what it was


class ErrorDelta(msgspec.Struct, frozen=True, array_like=True):
    """An execution that ended badly, not added to its group yet."""

    at: datetime
    tenant_id: str
    queue: str
    kind: str
    job_id: str
    fence: int
    status: ErrorStatus
    dead: bool  # its job is
    error: str | None


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Executions that ended badly in the same way; what is not a count or a time is of the last of them."""

    fingerprint: str
    kind: str
    status: ErrorStatus  # how they ended
    type: str | None  # of the exception
    place: str | None  # where in the application's code
    message: str
    count: int
    dead: int  # of how many the job died
    tenants: int = 1  # in how many it was seen
    first_seen_at: datetime
    last_seen_at: datetime
    tenant_id: str
    queue: str
    job_id: str
    fence: int
    sample: str = ""  # the whole text, up to 12,288 characters; only where one group is asked for

    @property
    def row_key(self) -> tuple[str, str, str]:
        """What a store adds it to: a tenant, a fingerprint and a queue."""
        return (self.tenant_id, self.fingerprint, self.queue)


class ErrorFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups a read means; None means any."""

    tenant_id: str | None = None
    fingerprint: str | None = None
    kind: tuple[str, ...] | None = None
    queue: tuple[str, ...] | None = None
    status: tuple[ErrorStatus, ...] | None = None
    since: datetime | None = None

    def has(self, group: ErrorGroup) -> bool:
        return (
            self.tenant_id in (None, group.tenant_id)
            and self.fingerprint in (None, group.fingerprint)
            and (self.kind is None or group.kind in self.kind)
            and (self.queue is None or group.queue in self.queue)
            and (self.status is None or group.status in self.status)
            and (self.since is None or group.last_seen_at >= self.since)
        )


def given_fingerprint(value: object) -> str:
    """The fingerprint that somebody names; raises `InvalidJob` for what none can be."""
    if not isinstance(value, str) or not _FINGERPRINT.fullmatch(value):
        raise InvalidJob(
            f"{str(value)[:80]!r} is not the fingerprint of an error, which has 16 hexadecimal digits: headway errors "
            "lists them"
        )
    return value


def excerpt(text: str | None) -> str | None:
    """As much of an error's text as is kept beside it; `error_excerpt` of PostgreSQL does the same.

    >>> len(excerpt("x" * 2_000_000))
    12291
    """
    if text is None or len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]}\n…\n{text[-TAIL_CHARS:]}"


@lru_cache(maxsize=256)
def identify(kind: str, status: ErrorStatus, text: str | None) -> Identity:
    """The identity of an error with this text.

    >>> one, other = (identify("mail", "failed", f"no user {n} in 'eu-{n}'") for n in (17, 4711))
    >>> one.fingerprint == other.fingerprint
    True
    """
    text = text or _UNKNOWN
    first_line = _first_line(text) or _UNKNOWN
    message = first_line if len(first_line) <= MESSAGE_CHARS else first_line[: MESSAGE_CHARS - 1] + "…"
    if status != "failed":
        # lost with whichever worker, timed out after however long
        return Identity(_hash(kind, status), None, None, message)
    frames = _frames(text)
    if frames:
        found = _TYPE.match(first_line)
        type_ = found[1] if found else None
        return Identity(_hash(kind, status, type_ or "", *frames), type_, frames[-1], message)
    found = _TYPE_ALONE.match(first_line)
    return Identity(_hash(kind, status, normalised(message)), found[1] if found else None, None, message)


def beyond_limit(kind: str) -> Identity:
    """What errors of a kind count as if their tenant has too many groups already."""
    message = f"other errors, seen when the tenant had {MOST_GROUPS:,} different ones"
    return Identity(_hash(kind, "failed", "(other)"), None, None, message)


def normalised(message: str) -> str:
    """A message without what differs from one time to the next: quoted words, numbers and words with digits in them.

    >>> normalised("no user 17 named 'Ann' at 0x7f3a, host web-3.eu")
    'no user # named … at #, host #.eu'
    """
    return " ".join(_NUMBERED.sub("#", _QUOTED.sub("…", message)).split())


def groups_of(deltas: Iterable[ErrorDelta]) -> list[ErrorGroup]:
    """These, as groups of one each."""
    return [_group(delta, identify(delta.kind, delta.status, delta.error)) for delta in deltas]


def capped(groups: Sequence[ErrorGroup], known: Collection[tuple[str, str, str]]) -> list[ErrorGroup]:
    """The groups, in which those of a tenant that has enough already count as its kind's others. `known` is what the
    store has of these tenants: tenant, fingerprint and queue of each."""
    taken: dict[str, set[tuple[str, str, str]]] = {}
    for key in known:
        taken.setdefault(key[0], set()).add(key)
    found: list[ErrorGroup] = []
    for group in groups:
        row_keys = taken.setdefault(group.tenant_id, set())
        if group.row_key in row_keys or len(row_keys) < MOST_GROUPS:
            row_keys.add(group.row_key)
            found.append(group)
            continue
        other = beyond_limit(group.kind)
        found.append(
            msgspec.structs.replace(
                group, fingerprint=other.fingerprint, status="failed", type=None, place=None, message=other.message
            )
        )
    return found


def by_row_key(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    """Added up by tenant, fingerprint and queue, in that order: the order in which a store locks their rows."""
    found: dict[tuple[str, str, str], ErrorGroup] = {}
    for group in groups:
        key = group.row_key
        found[key] = _added(found[key], group) if key in found else group
    return [found[key] for key in sorted(found)]


def listed(
    groups: Iterable[ErrorGroup], where: ErrorFilter, order: ErrorOrder, *, limit: int, offset: int
) -> list[ErrorGroup]:
    """A page of the groups that match, added up by fingerprint."""
    found: dict[str, ErrorGroup] = {}
    tenants: dict[str, set[str]] = {}
    for group in groups:
        if where.has(group):
            tenants.setdefault(group.fingerprint, set()).add(group.tenant_id)
            known = found.get(group.fingerprint)
            found[group.fingerprint] = group if known is None else _added(known, group)
    whole = [msgspec.structs.replace(each, tenants=len(tenants[name])) for name, each in found.items()]
    whole.sort(key=lambda each: each.fingerprint)
    if order == "count":
        whole.sort(key=lambda each: (each.count, each.last_seen_at), reverse=True)
    else:
        whole.sort(key=lambda each: each.last_seen_at, reverse=True)
    return whole[offset : offset + limit]


def _added(one: ErrorGroup, other: ErrorGroup) -> ErrorGroup:
    last = max(one, other, key=lambda each: (each.last_seen_at, each.job_id, each.fence))
    return msgspec.structs.replace(
        last,
        count=one.count + other.count,
        dead=one.dead + other.dead,
        first_seen_at=min(one.first_seen_at, other.first_seen_at),
        sample=last.sample or one.sample or other.sample,
    )


def _group(delta: ErrorDelta, identity: Identity) -> ErrorGroup:
    return ErrorGroup(
        fingerprint=identity.fingerprint,
        kind=delta.kind,
        status=delta.status,
        type=identity.type,
        place=identity.place,
        message=identity.message,
        count=1,
        dead=int(delta.dead),
        first_seen_at=delta.at,
        last_seen_at=delta.at,
        tenant_id=delta.tenant_id,
        queue=delta.queue,
        job_id=delta.job_id,
        fence=delta.fence,
        sample=delta.error or "",
    )


def _first_line(text: str) -> str:
    """The line that tells what it was: the first, or if that begins a traceback, the one behind its last frame."""
    first = text.lstrip().partition("\n")[0].strip()
    if not first.endswith(_TRACEBACK):
        return first
    behind = max((found.end() for found in _PYTHON_FRAME.finditer(text)), default=0)
    found = _NOT_INDENTED.search(text, behind)
    return found[0].strip() if found else first


def _frames(text: str) -> list[str]:
    """The innermost frames of the application's own code, the innermost last: file and function, without the line,
    which the next release moves. If there is none of its own, those of libraries."""
    python = [(path, name) for path, name in _PYTHON_FRAME.findall(text[max(0, text.rfind(_TRACEBACK)) :])]
    frames = python or [(path, name) for name, path in reversed(_AT_FRAME.findall(text))]
    own = [frame for frame in frames if not _LIBRARY.search(f"{frame[0]} {frame[1]}")] or frames
    shown: list[str] = []
    for path, name in own:
        # where a release is installed may change, too
        place = f"{'/'.join(path.replace(chr(92), '/').split('/')[-2:])} in {name}"
        if not shown or shown[-1] != place:
            shown.append(place[:MESSAGE_CHARS])
    return shown[-_FRAMES:]


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
