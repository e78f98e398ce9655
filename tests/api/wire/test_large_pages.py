"""Pages of what may be large: little is read that has no room on the page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headway.api.wire import pages
from headway.api.wire.cursors import read_cursor
from headway.api.wire.pages import PageQuery, page


@pytest.mark.parametrize("size", [1, 50_000, 700_000, 9_000_000])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 30, 250])
@pytest.mark.parametrize(("limit", "offset"), [(200, 0), (7, 0), (50, 20)])
def test_all_pages_have_all_once_and_read_little_else(size: int, count: int, limit: int, offset: int) -> None:
    read: list[int] = []

    async def fetch(most: int, after: str | None) -> Sequence[int]:
        begin = 0 if after is None else int(after) + 1
        found = range(count)[begin : begin + most]
        read.extend(found)
        return found

    async def all_pages() -> list[int]:
        query, found = PageQuery(limit=limit, offset=offset), []
        while True:
            read.clear()
            listed = await page("numbers", query, fetch, key=str, size=lambda _: size)
            found += listed.items
            assert len(listed.items) <= limit
            assert sum(size for _ in listed.items[:-1]) < pages._LARGEST
            assert len(read) <= query.offset + len(listed.items) + 3 + pages._LARGEST // size
            assert sorted(set(read)) == sorted(read)
            if size * limit > pages._LARGEST:
                assert len(read) <= query.offset + len(listed.items) + 3
            if listed.next_cursor is None:
                return found
            assert read_cursor("numbers", listed.next_cursor) == str(found[-1])
            query = PageQuery(limit=limit, cursor=listed.next_cursor)

    assert asyncio.run(all_pages()) == list(range(offset, count))
