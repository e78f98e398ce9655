"""A machine's walk through every outcome, with its worker killed at each point of its talk with the store in turn."""

from __future__ import annotations

import pytest
from faulty import HEARD, TRAIL, Walk
from fleet import until
from ground import Ground

from headway.model.status import FINISHED


def test_a_machine_ends_right_wherever_its_worker_is_killed(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASH_FOLDER", str(ground.ledger.path.parent))  # steps are executed here, too
    points = _all_points(ground)
    assert len(points) > 20
    for point in points:
        _check(ground, _walk(ground, point), point)
    ground.rows.check()


def _all_points(ground: Ground) -> list[str]:
    """Those of a walk that nobody is killed on."""
    job_id = _walk(ground, "none:0:never")
    _check(ground, job_id, "undisturbed")
    return list(dict.fromkeys(ground.ledger.subjects("point")))


def _walk(ground: Ground, point: str) -> str:
    """Start a machine, kill its worker there, and let another one finish it."""
    app = ground.app
    job = app.enqueue(Walk.build())
    app.signal(job.id, "second", 8)  # before it is awaited, as the other is
    app.signal(job.id, "other", 9)
    app.signal(job.id, "first", 7)
    process = ground.fleet.script(point, job.id, program="faulty.py")
    code = process.ended()
    assert code in (0, -9), process.tail()
    if app.get(job.id).status not in FINISHED:
        until(lambda: _over(ground, job.id), f"the machine of {point} is over")
    return job.id


def _over(ground: Ground, job_id: str) -> bool:
    """Lost executions and sleeps are due a moment later."""
    if ground.app.get(job_id).status in FINISHED:
        return True
    ground.app.run(queues="main", concurrency=4, until_idle=True)
    return False


def _check(ground: Ground, job_id: str, point: str) -> None:
    app = ground.app
    job = app.get(job_id)
    assert (job.status, job.error) == ("succeeded", None), point
    # the order in which the signals came is theirs
    assert job.result == {"trail": TRAIL, "heard": [8, 7, *HEARD[2:]]}, point
    history = app.history(job_id)
    ended = [chapter for chapter in history if chapter.outcome is not None]
    assert [chapter.step for chapter in ended] == TRAIL, point
    assert [chapter.outcome for chapter in ended] == ["next", "await", "spawn", "sleep", "replay", "next", "done"], (
        point
    )
    assert {chapter.status for chapter in history if chapter.outcome is None} <= {"lost", "released"}, point
    assert len({chapter.fence for chapter in history}) == len(history), point
    signals = {signal.name: signal for signal in app.signals(job_id)}
    hear = next(chapter for chapter in ended if chapter.step == "hear")
    assert {name: signal.status for name, signal in signals.items()} == {
        "first": "consumed",
        "second": "consumed",
        "other": "undelivered",
    }, point
    assert {signals["first"].fence, signals["second"].fence} == {hear.fence}, point
    children = app.children(job_id, fence=hear.fence)
    assert [(child.kind, child.status, child.result) for child in children] == [
        ("leaf", "succeeded", 10),
        ("leaf", "succeeded", 20),
        ("branch", "succeeded", 300),
    ], point
    assert len(app.jobs(parent_id=job_id)) == 3, point
