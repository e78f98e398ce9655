"""Pages of lists: how many, from where."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headway.api.wire.cursors import make_cursor, read_cursor
from headway.api.wire.problems import Fault, Refused
from headway.api.wire.views import Listed

T = TypeVar("T")

_MOST = 200
_FARTHEST = 10_000


class PageQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which part of a list."""

    limit: int = 50
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
) -> Listed:
    """A page of what `fetch(how many, after)` gives in order; `key` is what the next page begins after.

    What the key may not see (`visible`) is left out, so a page may be short, and there may be more nevertheless.
    """
    for name, value, least, most in (("limit", query.limit, 1, _MOST), ("offset", query.offset, 0, _FARTHEST)):
        if not least <= value <= most:
            said = f"{name}={value} must be from {least} to {most:,}"
            raise Refused(422, said, faults=[Fault("out of range", name)])
    found = await fetch(query.offset + query.limit + 1, read_cursor(of, query.cursor))
    part = found[query.offset : query.offset + query.limit]
    more = len(found) > query.offset + query.limit
    return Listed(
        [show(item) for item in part if visible(item)], make_cursor(of, key(part[-1])) if more and part else None
    )


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


def revision_tag(found: Any) -> dict[str, str]:
    """The header that names the version of a row that counts its changes."""
    return {"ETag": f'"{found.revision}"'}
