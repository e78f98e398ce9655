"""Flows with a held clock: long sleeps and timeouts pass at once, in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway import Flow, Headway
from headway.testing import drain, held


def test_weeks_pass_in_a_moment(tmp_path: Path) -> None:
    app = Headway(f"sqlite:///{tmp_path}/held.db")
    seen: list[Any] = []

    @app.flow
    async def reminders(flow: Flow) -> str:
        began = flow.now()
        for _ in range(3):
            answer = await flow.receive("answer", timeout="7d")
            seen.append((flow.now() - began).days)
            if answer is not None:
                return str(answer)
        await flow.sleep("14d")
        seen.append((flow.now() - began).days)
        return "gave up"

    with held(app) as clock:
        job = reminders.enqueue()
        drain(app)
        assert app.get(job.id).status == "waiting"
        clock.advance("8d")
        drain(app)
        assert app.get(job.id).status == "waiting"
        drain(app, with_scheduled=True)
        assert app.get(job.id).result == "gave up"
    assert seen[-1] >= 35
