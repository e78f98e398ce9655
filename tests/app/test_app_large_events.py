"""Large events and many triggers: fired in rounds that are bounded by bytes, beside the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

from headway import Headway
from headway.api.workers.caretaker import Caretaker
from headway.testing import drain
from headway.worker import trigger_runner
from headway.worker.trigger_plans import size_of

TEXT = "x" * 400_000


def test_what_few_events_become_is_written_in_rounds(app: Headway, monkeypatch: Any) -> None:
    rounds: list[tuple[int, bool]] = []
    plan = trigger_runner.TriggerRunner._plan
    here = threading.get_ident()

    def noted(self: Any, due: Any) -> Any:
        firings, handlings, _ = planned = plan(self, due)
        fires = [fire for each in (*firings, *handlings) for fire in each.fires]
        rounds.append((sum(map(size_of, fires)), threading.get_ident() == here))
        return planned

    monkeypatch.setattr(trigger_runner.TriggerRunner, "_plan", noted)
    app.job(name="keep", schema={"type": "object"})(lambda **_: None)
    app.job(name="note")(lambda text: None)
    for n in range(8):
        app.create_trigger(
            f"all-{n}", "large", kind="keep", payload={"n": n, "of": "{{meta.event_id}}", "text": "{{event.text}}"}
        )
    app.create_trigger("odd", "large", kind="keep", payload={"n": "{{event.gone}}"})
    app.create_trigger("other", "large", kind="keep", payload={}, when={"event.text": "no"})
    events = [app.emit("large", {"text": TEXT}) for _ in range(3)]
    small = app.emit("small")
    drain(app)
    assert len(app.jobs(kind="keep", status="succeeded", limit=100)) == 3 * 8
    for event_id in events:
        event = app.get_event(event_id)
        assert (event.status, "leads nowhere" in (event.error or "")) == ("failed", True)
        fires = app.fires(event_id=event_id)
        assert sorted(each.status for each in fires if each.status != "skipped") == ["enqueued"] * 8 + ["failed"]
    assert app.get_event(small).status == "handled"
    sizes = [size for size, _ in rounds]
    assert max(sizes) < trigger_runner.FIRED_BYTES + len(TEXT) + 100
    assert len([size for size in sizes if size]) >= 3 * 8 // 3
    assert not any(on_loop for _, on_loop in rounds)


def test_a_server_rests_between_slow_rounds(app: Headway, monkeypatch: Any) -> None:
    paused: list[float] = []
    monkeypatch.setattr(trigger_runner, "QUICK_S", 0.0)
    monkeypatch.setattr(trigger_runner, "FIRED_BYTES", 1_000)
    app.job(name="keep", schema={"type": "object"})(lambda **_: None)
    app.create_trigger("all", "large", kind="keep", payload={"text": "{{event.text}}"})
    for _ in range(3):
        app.emit("large", {"text": "x" * 2_000})

    async def noted(seconds: float) -> None:
        paused.append(seconds)

    async def main() -> None:
        caretaker = Caretaker(app, "1", lambda: None)
        await caretaker._lease.begin()
        began = time.monotonic()
        with monkeypatch.context() as patched:
            patched.setattr(trigger_runner.asyncio, "sleep", noted)
            await caretaker._triggers.fire()
        assert len(paused) >= 2
        assert 0 < sum(paused) <= 4 * (time.monotonic() - began)
        assert {each.status for each in app.events()} == {"handled"}
        await caretaker.stop()

    asyncio.run(main())


def test_a_schedule_that_catches_up_does_so_in_rounds(app: Headway, clock: Any, monkeypatch: Any) -> None:
    rounds: list[int] = []
    plan = trigger_runner.TriggerRunner._plan

    def noted(self: Any, due: Any) -> Any:
        planned = plan(self, due)
        rounds.append(sum(len(firing.fires) for firing in planned[0]))
        return planned

    monkeypatch.setattr(trigger_runner, "FIRED_BYTES", 1_000)
    monkeypatch.setattr(trigger_runner.TriggerRunner, "_plan", noted)
    app.job(name="keep", schema={"type": "object"})(lambda **_: None)
    for name in ("one", "two"):
        payload = {"text": "x" * 300, "at": "{{schedule.nominal_at}}"}
        app.create_schedule(name, every="10m", kind="keep", payload=payload, catch_up="all")
    clock.advance(timedelta(hours=1))
    drain(app)
    assert len(app.jobs(kind="keep", status="succeeded", limit=100)) == 2 * 6
    assert max(rounds) <= 3
