"""A flow through every operation, with its worker killed at each point of its talk with the store in turn."""

from __future__ import annotations

from tests import sizes_and_seeds
from tests.crash.crash_site import CrashSite
from tests.crash.test_fault_points import _some

LOG = [10, 20, 30, ["second", 8], ["first", 7], 10, 200, "held ship", 2, "in time or late", None]


def test_a_flow_ends_right_wherever_its_worker_is_killed(site: CrashSite) -> None:
    _sail(site, "none:0:never")
    points = list(dict.fromkeys(site.ledger.subjects("point")))
    assert len(points) > 20
    _sail(site, *(points if sizes_and_seeds.full else _some(points)))
    site.rows.check()


def _sail(site: CrashSite, *points: str) -> None:
    before = len(site.ledger.of("walked"))
    process = site.fleet.script(*points, program="flow_points")
    assert process.ended(within=60 + 5 * len(points)) == 0, process.tail()
    walked = [subject.split(",") for subject in site.ledger.subjects("walked")[before:]]
    assert [point for point, *_ in walked] == list(points)
    for point, job_id, killed, finished in walked:
        assert (killed, finished) in (("0", "0"), ("-9", "0")), process.tail()
        _check(site, job_id, point)


def _check(site: CrashSite, job_id: str, point: str) -> None:
    app = site.app
    job = app.get(job_id)
    assert (job.status, job.error, job.state) == ("succeeded", None, {"stage": "home"}), point
    assert job.result["log"] == LOG, point
    signals = {signal.name: signal.status for signal in app.signals(job_id) if not signal.name.startswith("$")}
    assert signals == {"first": "consumed", "second": "consumed", "other": "undelivered"}, point
    children = [(child.kind, child.status) for child in app.jobs(parent_id=job_id)]
    assert sorted(children)[-1] == ("twig", "succeeded"), point
    assert len(children) == 4, point
    rows = app.store.run(app.store.ops.journal([job_id])).rows
    recorded = {row.place: row.fence for row in rows if row.kind == "done"}
    ran: dict[str, list[int]] = {}
    for subject, fence in ((entry.subject, entry.fence) for entry in site.ledger.of("ran")):
        of, _, place = subject.partition("/")
        if of == job_id:
            ran.setdefault(place, []).append(fence)
    for place, fences in ran.items():
        assert len(fences) == len(set(fences)) or place == "fail", (point, place)
        if place in recorded:
            assert max(fences) == recorded[place], (point, place)  # never again once it was recorded
