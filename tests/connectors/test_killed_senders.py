"""A worker that is killed after it sent a request, and before it wrote the end: what the second request says."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from headway import Headway
from tests.connectors.loopback import Asked, answer, serving

WORKER = """
import sys
from headway import Headway
Headway(sys.argv[1], lease="1s", heartbeat="300ms").run(concurrency=4)
"""


def test_the_second_try_has_the_same_key_and_a_higher_fence(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_WEBHOOK_SECRET", "a master secret of more than 32 characters")
    killed = False

    def script(asked: Asked) -> bytes | None:
        return answer(200) if killed else None

    with serving(script) as server:
        app.add_webhook(f"{server.url}/hook", ["order.*"], name="shop")
        call = app.enqueue("connector.http.request", {"url": f"{server.url}/call", "text": "pay"}).id
        hook = app.test_webhook("shop").id
        worker = subprocess.Popen([sys.executable, "-c", WORKER, app.url], env=os.environ, stderr=subprocess.DEVNULL)
        try:
            for _ in range(2):
                assert server.came.acquire(timeout=60)
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        killed = True
        app.configure(lease="1s", heartbeat="300ms", reap_every="100ms", promote_every="50ms")
        _until_over(app, call, hook)
        first, second = (
            {each.target: each.headers for each in asked} for asked in (server.asked[:2], server.asked[2:])
        )
    assert [app.get(each).status for each in (call, hook)] == ["succeeded", "succeeded"]
    assert [app.get(each).losses for each in (call, hook)] == [1, 1]
    for target, key, job_id in (("/call", "idempotency-key", call), ("/hook", "webhook-id", hook)):
        assert first[target][key] == second[target][key] == job_id
        assert int(first[target]["headway-fence"]) < int(second[target]["headway-fence"])


def _until_over(app: Headway, *ids: str) -> None:
    async def wait() -> Any:
        async with app.working():
            for each in ids:
                await app.await_(each, timeout="60s")
        await app.aclose()

    asyncio.run(wait())
