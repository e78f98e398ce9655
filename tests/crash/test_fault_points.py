"""A machine's walk through every outcome, with its worker killed at each point of its talk with the store in turn."""

from __future__ import annotations

from tests import sizes_and_seeds
from tests.crash.crash_site import CrashSite
from tests.crash.fault_points import HEARD, TRAIL


def test_a_machine_ends_right_wherever_its_worker_is_killed(site: CrashSite) -> None:
    _walk(site, "none:0:never")
    points = list(dict.fromkeys(site.ledger.subjects("point")))
    assert len(points) > 20
    _walk(site, *(points if sizes_and_seeds.full else _some(points)))
    site.rows.check()


def _some(points: list[str]) -> list[str]:
    """The first and the last time of each verb, before and after it."""
    times: dict[tuple[str, str], list[str]] = {}
    for point in points:
        verb, _, when = point.split(":")
        times.setdefault((verb, when), []).append(point)
    return list(dict.fromkeys(point for each in times.values() for point in (each[0], each[-1])))


def _walk(site: CrashSite, *points: str) -> None:
    """For each point start a machine, kill its worker there, and let another one finish it."""
    before = len(site.ledger.of("walked"))
    process = site.fleet.script(*points, program="fault_points")
    assert process.ended(within=60 + 5 * len(points)) == 0, process.tail()
    walked = [subject.split(",") for subject in site.ledger.subjects("walked")[before:]]
    assert [point for point, *_ in walked] == list(points)
    for point, job_id, killed, finished in walked:
        assert (killed, finished) in (("0", "0"), ("-9", "0")), process.tail()
        _check(site, job_id, point)


def _check(site: CrashSite, job_id: str, point: str) -> None:
    app = site.app
    job = app.get(job_id)
    assert (job.status, job.error) == ("succeeded", None), point
    # the order in which the signals came is theirs
    assert job.result == {"trail": TRAIL, "heard": [8, 7, *HEARD[2:]]}, point
    history = app.history(job_id)
    ended = [execution for execution in history if execution.outcome is not None]
    assert [execution.step for execution in ended] == TRAIL, point
    assert [execution.outcome for execution in ended] == [
        "next",
        "await",
        "spawn",
        "sleep",
        "replay",
        "next",
        "done",
    ], point
    assert {execution.status for execution in history if execution.outcome is None} <= {"lost", "released"}, point
    assert len({execution.fence for execution in history}) == len(history), point
    signals = {signal.name: signal for signal in app.signals(job_id)}
    hear = next(execution for execution in ended if execution.step == "hear")
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
