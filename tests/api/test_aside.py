"""Work beside the event loop: it leaves the interpreter to requests of others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from headway.api import aside
from headway.api.access.places import Places
from headway.api.aside import Aside, pause


def _work() -> None:
    for _ in range(5):
        until = time.thread_time() + 1.5 * aside._AT_ONCE_S
        while time.thread_time() < until:
            pass
        pause()


def test_work_pauses_while_others_have_requests_under_way(monkeypatch: Any) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(aside.time, "sleep", pauses.append)

    async def main() -> None:
        places = Places(3)
        threads = Aside(places.has_others)
        async with places.taken("a"):
            await threads.run("a", _work)
            assert pauses == []  # alone it takes no longer than it takes
            async with places.taken("b"):
                await threads.run("a", _work)
        assert pauses == [aside._LEFT_S] * 5
        pause()  # on the event loop it does nothing
        assert len(pauses) == 5

    asyncio.run(main())
