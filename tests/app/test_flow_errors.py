"""Errors of flows: grouped by the step that failed, and told by where it raised."""

from __future__ import annotations

from typing import Any

from headway import Flow, Headway
from headway.errors import StepFailed
from headway.testing import drain


def charge(order: int) -> None:
    raise ValueError(f"card {order}")


def ship(order: int) -> None:
    raise ValueError(f"parcel {order}")


def test_errors_are_grouped_by_the_step_that_failed(app: Headway) -> None:
    @app.flow
    async def checkout(flow: Flow, order: int) -> None:
        once = flow.using(max_attempts=1)
        await (once.step(charge, order) if order % 2 else once.step(ship, order))

    jobs = [checkout.enqueue(order) for order in range(5)]
    drain(app)
    found = app.errors(order="count")
    assert [(group.count, (group.place or "").rpartition(" ")[2], group.message) for group in found] == [
        (3, "ship", "StepFailed: step ship failed: ValueError: parcel 4"),
        (2, "charge", "StepFailed: step charge failed: ValueError: card 3"),
    ]
    error = app.get(jobs[1].id).error or ""
    assert 'raise ValueError(f"card {order}")' in error
    assert "headway/define" not in error


def test_a_replay_knows_where_a_step_raised(app: Headway) -> None:
    traces: list[str] = []

    @app.flow
    async def checkout(flow: Flow, order: int) -> Any:
        try:
            await flow.using(max_attempts=1).step(charge, order)
        except StepFailed as error:
            traces.append(error.trace)
        return await flow.receive("go")

    job = checkout.enqueue(1)
    drain(app)
    app.signal(job.id, "go", 1)
    drain(app)
    assert app.get(job.id).result == 1
    first, again = traces
    assert first == again
    assert first.endswith("ValueError: card 1")
