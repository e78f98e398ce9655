"""Pages of lists: how many, from where."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headway.api.wire.cursors import make_cursor, not_a_cursor, read_cursor
from headway.api.wire.problems import Fault, Refused
from headway.api.wire.views import LargeList, Listed

T = TypeVar("T")

_MOST = 200
_FARTHEST = 10_000
_AT_ONCE = 10_000  # what the library reads in one list
_LARGE_AT_ONCE = 3  # of what may be a megabyte each; more where the first are small
_LARGE_MOST = 100
_LARGEST = 4 * 2**20  # bytes of a page of these


class PageQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which part of a list."""

    limit: int = 50
    cursor: str | None = None
    offset: int = 0


class PartQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which part of a list that is short; without a limit all of it."""

    limit: int | None = None
    cursor: str | None = None
    offset: int = 0


async def page(
    of: str,
    query: PageQuery,
    fetch: Callable[[int, str | None], Awaitable[Sequence[T]]],
    *,
    key: Callable[[T], str],
    show: Callable[[T], Any] = lambda item: item,
    visible: Callable[[T], bool] = lambda _: True,
    size: Callable[[T], int] | None = None,
) -> Listed:
    """A page of what `fetch(how many, after)` gives in order; `key` is what the next page begins after.

    What the key may not see (`visible`) is left out, so a page may be short, and there may be more nevertheless. Where
    an item may be large, `size` says how large, and a page ends after some megabytes.
    """
    _check(query)
    if size is not None:
        return await _page_of_large(of, query, fetch, key, show, visible, size)
    wanted = query.offset + query.limit + 1
    found = list(await fetch(min(wanted, _AT_ONCE), read_cursor(of, query.cursor)))
    if len(found) == _AT_ONCE < wanted:
        found += await fetch(wanted - _AT_ONCE, key(found[-1]))
    part = found[query.offset : query.offset + query.limit]
    more = len(found) > query.offset + query.limit
    return Listed(
        [show(item) for item in part if visible(item)], make_cursor(of, key(part[-1])) if more and part else None
    )


async def _page_of_large(
    of: str,
    query: PageQuery,
    fetch: Callable[[int, str | None], Awaitable[Sequence[T]]],
    key: Callable[[T], str],
    show: Callable[[T], Any],
    visible: Callable[[T], bool],
    size: Callable[[T], int],
) -> Listed:
    after, passed, bytes_left = read_cursor(of, query.cursor), 0, _LARGEST
    items: list[Any] = []
    taken, seen, bytes_seen, at_once = 0, 0, 0, _LARGE_AT_ONCE
    while True:
        found = list(await fetch(at_once, after))
        sizes = await asyncio.to_thread(lambda found: list(map(size, found)), found)
        for each, bytes_of in zip(found, sizes, strict=True):
            if passed < query.offset:
                passed += 1
            elif taken == query.limit or (taken and bytes_left <= 0):
                return LargeList(items, make_cursor(of, str(after)))
            else:
                taken += 1
                bytes_left -= bytes_of
                if visible(each):
                    items.append(show(each))
            after = key(each)
        if len(found) < at_once:
            return LargeList(items, None)
        seen, bytes_seen = seen + len(found), bytes_seen + sum(sizes)
        # one more than fit, to know that there are more; all that is read is decoded, also what then has no room
        wanted = query.offset - passed + query.limit - taken
        room = max(0, bytes_left) * seen // max(1, bytes_seen)
        at_once = min(wanted, room, 2 * seen, _LARGE_MOST) + 1


def part(of: str, query: PartQuery | PageQuery, found: Sequence[T], *, key: Callable[[T], str]) -> Listed:
    """A part of a list that was read as a whole. The next one begins after the last item of this one or, where that is
    gone, at its place."""
    _check(query)
    begin = query.offset
    after = read_cursor(of, query.cursor)
    if after is not None:
        place, _, last = after.partition(" ")
        if not (place.isascii() and place.isdigit() and len(place) < 10):
            raise not_a_cursor()
        begin += next((n + 1 for n, each in enumerate(found) if key(each) == last), int(place))
    end = len(found) if query.limit is None else begin + query.limit
    items = list(found[begin:end])
    return Listed(items, make_cursor(of, f"{end} {key(items[-1])}") if items and end < len(found) else None)


def size_of_payload(item: Any) -> int:
    """About how much of an answer it takes."""
    return len(msgspec.json.encode((item.payload, item.options)))


def _check(query: PartQuery | PageQuery) -> None:
    for name, value, least, most in (("limit", query.limit, 1, _MOST), ("offset", query.offset, 0, _FARTHEST)):
        if value is not None and not least <= value <= most:
            said = f"{name}={value} must be from {least} to {most:,}"
            raise Refused(422, said, faults=[Fault("out of range", name)])


def given(body: msgspec.Struct, aliases: dict[str, str]) -> dict[str, Any]:
    """The fields that a body has, by our names; raises `Refused` where one has two values."""
    found: dict[str, Any] = {}
    for field in body.__struct_fields__:
        value = getattr(body, field)
        if value is msgspec.UNSET:
            continue
        name = aliases.get(field, field)
        if name in found and found[name] != value:
            other = next(each for each, meant in aliases.items() if meant == name)
            raise Refused(422, f"{other} and {name} mean the same, and differ", faults=[Fault("differs", f"/{other}")])
        found[name] = value
    return found


def changes_of(body: msgspec.Struct, aliases: dict[str, str]) -> dict[str, Any]:
    """The changes that the body of a PATCH has, as the library takes them: `name` says which row, so a new one is
    `new_name`. Raises `Refused` where there are none."""
    changes = given(body, aliases)
    if not changes:
        names = [name for name in body.__struct_fields__ if name not in aliases]
        raise Refused(422, f"what to change? Give some of {', '.join(names)}")
    if "name" in changes:
        changes["new_name"] = changes.pop("name")
    return changes


def etag(found: Any) -> dict[str, str]:
    """The header that names the version of what has an `etag`."""
    return {"ETag": f'"{found.etag}"'}


def revision_tag(found: Any) -> dict[str, str]:
    """The header that names the version of a row that counts its changes."""
    return {"ETag": f'"{found.revision}"'}
