"""Requests that want to know the same at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from headway.api.access.lookups import Lookups


def test_a_look_up_ends_with_the_last_request_that_waits_for_it() -> None:
    begun: list[asyncio.Future[int]] = []

    async def look_up(_: str) -> int:
        begun.append(asyncio.get_running_loop().create_future())
        return await begun[-1]

    async def run() -> None:
        lookups: Lookups[str, int] = Lookups(look_up)
        first, second = (asyncio.create_task(lookups.get("a")) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        assert (len(begun), begun[0].cancelled(), "a" in lookups) == (1, False, True)
        second.cancel()
        await asyncio.sleep(0.01)
        assert (begun[0].cancelled(), "a" in lookups) == (True, False), "it may wait for a database that is silent"
        third = asyncio.create_task(lookups.get("a"))
        await asyncio.sleep(0.01)
        begun[1].set_result(7)
        assert await third == 7
        failing = [asyncio.create_task(lookups.get("a")) for _ in range(3)]
        await asyncio.sleep(0.01)
        begun[2].set_exception(OSError("away"))
        for each in failing:
            with pytest.raises(OSError, match="away"):
                await each
        assert (len(begun), "a" in lookups) == (3, False)

    asyncio.run(run())
