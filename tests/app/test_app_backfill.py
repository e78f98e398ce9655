"""Backfill: a schedule fires for times of its past, each once, with a preview of what that makes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob, InvalidPayload, NotFound
from headway.testing import drain
from tests.app.conftest import NOON

Call = Callable[..., Any]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def report(app: Headway, clock: Any, ran: list[Any]) -> Any:
    @app.job(queue="reports")
    def report(at: str = "", since: str | None = None, by: str = "clock") -> None:
        ran.append((at, since, by))

    return report


def hourly(app: Headway, **options: Any) -> Any:
    payload = {"at": "{{schedule.nominal_at}}", "since": "{{schedule.last_fired_at}}"}
    return app.create_schedule("s", "@hourly", kind="report", payload=payload, **options)


def hours(first: int, last: int) -> list[datetime]:
    return [NOON + HOUR * number for number in range(first, last + 1)]


def test_each_time_of_the_past_is_fired_with_the_span_since_the_one_before(
    app: Headway, call: Call, ran: list[Any]
) -> None:
    before = hourly(app)
    made = call(app, "backfill_schedule", "s", NOON - 3 * HOUR, NOON - HOUR, actor="ada")
    assert [each.nominal_at for each in made] == hours(-3, -1)
    assert {(each.status, each.queue) for each in made} == {("enqueued", "reports")}
    jobs = {job.id: job for job in app.jobs()}
    assert [jobs[each.job_id].payload for each in made] == [each.payload for each in made]
    first = jobs[made[0].job_id]
    assert (first.source, first.source_ref, first.created_by) == ("schedule", "2026-05-17T09:00:00Z", "ada")
    assert app.get_schedule("s") == before  # its own times go on as they were
    drain(app, concurrency=1)
    assert ran == [
        ("2026-05-17T09:00:00Z", "2026-05-17T08:00:00Z", "clock"),
        ("2026-05-17T10:00:00Z", "2026-05-17T09:00:00Z", "clock"),
        ("2026-05-17T11:00:00Z", "2026-05-17T10:00:00Z", "clock"),
    ]
    (entry,) = app.audit_log(action="trigger.backfilled")
    assert (entry.actor, entry.detail) == ("ada", "s: 3 from 2026-05-17T09:00:00Z to 2026-05-17T11:00:00Z")


def test_a_dry_run_makes_nothing_and_says_what_would_be_made(app: Headway, call: Call) -> None:
    hourly(app)
    call(app, "backfill_schedule", "s", NOON - 2 * HOUR, NOON - 2 * HOUR)
    planned = call(app, "backfill_schedule", "s", NOON - 3 * HOUR, NOON - HOUR, {"by": "ada"}, dry_run=True)
    assert [(each.nominal_at, each.status, each.job_id) for each in planned] == [
        (NOON - 3 * HOUR, "planned", None),
        (NOON - 2 * HOUR, "fired", None),
        (NOON - HOUR, "planned", None),
    ]
    assert planned[0].payload == {"at": "2026-05-17T09:00:00Z", "since": "2026-05-17T08:00:00Z", "by": "ada"}
    assert len(app.jobs()) == 1
    made = call(app, "backfill_schedule", "s", NOON - 3 * HOUR, NOON - HOUR, {"by": "ada"})
    assert [each.status for each in made] == ["enqueued", "fired", "enqueued"]
    assert [each.payload for each in made] == [each.payload for each in planned]


def test_a_secret_of_the_payload_is_not_shown(app: Headway) -> None:
    @app.job
    def sign(password: str) -> None: ...

    app.create_schedule("s", "@hourly", kind="sign", payload={"password": "hunter2"})
    for dry_run in (True, False):
        assert "hunter2" not in str(app.backfill_schedule("s", NOON - HOUR, NOON, dry_run=dry_run))


def test_no_time_fires_twice_whoever_fires_it(app: Headway, clock: Any, ran: list[Any]) -> None:
    hourly(app, catch_up="all")
    clock.advance(3 * HOUR)  # nobody was here: three times are due
    made = app.backfill_schedule("s", NOON - HOUR, NOON + 2 * HOUR)
    assert [each.status for each in made] == ["enqueued"] * 4
    drain(app)
    assert sorted(at for at, *_ in ran) == [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in hours(-1, 3)]
    assert [each.status for each in app.backfill_schedule("s", NOON - HOUR, NOON + 3 * HOUR)] == ["fired"] * 5
    assert app.get_schedule("s").next_fire_at == NOON + 4 * HOUR


def test_a_paused_one_that_must_not_overlap_is_backfilled_all_the_same(app: Headway) -> None:
    hourly(app, enabled=False, overlap="skip", jitter="10m")
    made = app.backfill_schedule("s", NOON - 3 * HOUR, NOON)
    assert [each.status for each in made] == ["enqueued"] * 4
    assert {job.status for job in app.jobs()} == {"queued"}
    assert app.get_schedule("s").next_fire_at is None


def test_a_long_range_comes_in_pieces(app: Headway) -> None:
    hourly(app)
    made = app.backfill_schedule("s", NOON - 500 * HOUR, NOON - HOUR)
    assert [each.nominal_at for each in made] == hours(-500, -1)
    assert len({each.job_id for each in made}) == 500
    assert [entry.detail.split()[1] for entry in app.audit_log(action="trigger.backfilled")] == ["100", "200", "200"]  # type: ignore[union-attr]


def test_what_one_piece_is_refused_for_leaves_those_before(app: Headway) -> None:
    app.create_schedule("s", "@hourly", kind="report", options={"unique_key": "u", "on_conflict": "raise"})
    with pytest.raises(Exception, match="u"):
        app.backfill_schedule("s", NOON - 2 * HOUR, NOON)
    assert app.jobs() == []
    assert app.fires(schedule="s") == []


def test_a_job_that_is_there_already_is_told(app: Headway) -> None:
    app.create_schedule("s", "@hourly", kind="report", options={"unique_key": "u"})
    made = app.backfill_schedule("s", NOON - 2 * HOUR, NOON - HOUR)
    assert [each.status for each in made] == ["enqueued", "deduped"]
    assert made[0].job_id == made[1].job_id


def test_what_cannot_be_backfilled_is_refused(app: Headway, call: Call, clock: Any) -> None:
    hourly(app)
    with pytest.raises(NotFound, match='no schedule "x"'):
        call(app, "backfill_schedule", "x", NOON - HOUR, NOON)
    with pytest.raises(InvalidJob, match=r"end=.* is before start="):
        call(app, "backfill_schedule", "s", NOON, NOON - HOUR)
    with pytest.raises(InvalidJob, match="has not come yet: a backfill is of the past"):
        call(app, "backfill_schedule", "s", NOON, NOON + HOUR)
    with pytest.raises(InvalidJob, match="carries no zone"):
        call(app, "backfill_schedule", "s", NOON.replace(tzinfo=None), NOON)
    with pytest.raises(InvalidJob, match="more than 10,000 times"):
        call(app, "backfill_schedule", "s", NOON - 10_001 * HOUR, NOON)
    with pytest.raises(InvalidPayload, match="by"):
        call(app, "backfill_schedule", "s", NOON - HOUR, NOON, {"by": 7}, dry_run=True)
    with pytest.raises(InvalidJob, match="the payload is a mapping"):
        call(app, "backfill_schedule", "s", NOON - HOUR, NOON, [7])
    app.create_trigger("e", "paid", kind="report")
    with pytest.raises(NotFound, match='no schedule "e"'):
        call(app, "backfill_schedule", "e", NOON - HOUR, NOON)
    assert call(app, "backfill_schedule", "s", NOON - HOUR / 2, NOON - HOUR / 4) == []
    assert app.jobs() == []


def test_times_whose_fires_may_be_pruned_are_refused(app: Headway, clock: Any) -> None:
    hourly(app)
    clock.advance(timedelta(days=40))
    with pytest.raises(InvalidJob, match="s may have fired for 2026-05-17T13:00:00"):
        app.backfill_schedule("s", NOON, NOON + 2 * HOUR)
    assert len(app.backfill_schedule("s", NOON - 2 * HOUR, NOON - HOUR)) == 2  # it was not there yet
    since = NOON + timedelta(days=20)
    assert len(app.backfill_schedule("s", since, since + HOUR)) == 2


def test_many_who_backfill_at_once_fire_each_time_once(app: Headway, url: str) -> None:
    hourly(app)
    found: list[Any] = []
    begin = threading.Barrier(4)

    def backfill() -> None:
        other = Headway(url, clock=app.clock)
        begin.wait()
        found.append(other.backfill_schedule("s", NOON - 300 * HOUR, NOON - HOUR))
        other.close()

    @app.job
    def unused() -> None: ...

    threads = [threading.Thread(target=backfill) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    made = [each for one in found for each in one if each.status == "enqueued"]
    assert sorted(each.nominal_at for each in made) == hours(-300, -1)
    assert len(app.jobs(limit=1_000)) == 300
