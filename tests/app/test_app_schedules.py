"""Schedules through the app: in the code, at run time, paused, run by hand, previewed, fired by a worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headway import Headway, Machine, Registry, step
from headway.clock import HeldClock
from headway.errors import Duplicate, InvalidJob, InvalidPayload, NotAllowed, NotFound
from headway.model.outcome import Done
from headway.testing import drain, held

Call = Callable[..., Any]
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)


@pytest.fixture
def sync(app: Headway, ran: list[Any]) -> Any:
    @app.job(queue="nightly", max_attempts=2)
    def sync(at: str = "", folder: str = "/") -> None:
        ran.append((at, folder))

    return sync


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def test_a_schedule_of_the_code_fires_at_its_times(app: Headway, clock: Any, ran: list[Any], sync: Any) -> None:
    app.schedule("*/10 * * * *", payload={"at": "{{schedule.nominal_at}}", "folder": "{{schedule.tz}}"})(sync)
    drain(app)
    assert ran == []
    (declared,) = app.schedules()
    assert (declared.name, declared.origin, declared.kind, declared.next_fire_at) == (
        "sync",
        "code",
        "sync",
        NOON + minutes(10),
    )
    for _ in range(3):
        clock.advance(minutes(10))
        drain(app)
    assert ran == [(f"2026-05-17T12:{minute}:00Z", "UTC") for minute in (10, 20, 30)]
    (job, *_) = app.jobs()
    assert (job.source, job.source_ref, job.trigger_id) == ("schedule", "2026-05-17T12:30:00Z", declared.id)
    schedule = app.get_schedule("sync")
    assert (schedule.last_fired_at, schedule.next_fire_at) == (NOON + minutes(30), NOON + minutes(40))
    assert [fire.nominal_at for fire in app.fires(schedule="sync")] == [NOON + minutes(n) for n in (30, 20, 10)]


def test_a_function_machine_and_registry_can_be_scheduled(app: Headway, clock: Any, ran: list[Any]) -> None:
    shop = Registry()

    @shop.schedule(every="1m", name="often")
    @shop.schedule("@hourly")
    def tidy() -> None:
        ran.append("tidy")

    @shop.schedule("1 * * * *")
    @shop.machine
    class Report(Machine):
        @step
        def start(self, ctx: Any) -> Any:
            ran.append("report")
            return Done()

    app.include(shop)
    drain(app)
    assert sorted(each.name for each in app.schedules()) == ["often", "report", "tidy"]
    clock.advance(minutes(1))
    drain(app)
    assert sorted(ran) == ["report", "tidy"]


def test_what_is_wrong_in_the_code_is_refused_where_it_stands(app: Headway, sync: Any) -> None:
    for mistake, error in [
        ({"cron": "61 * * * *"}, InvalidJob),
        ({}, InvalidJob),
        ({"cron": "@daily", "every": "1m"}, InvalidJob),
        ({"every": "10ms"}, InvalidJob),
        ({"cron": "@daily", "tz": "Mars"}, InvalidJob),
        ({"cron": "@daily", "payload": {"at": 7}}, InvalidPayload),
        ({"cron": "@daily", "payload": {"other": 7}}, InvalidJob),
        ({"cron": "@daily", "payload": {"at": "{{event.x}}"}}, InvalidJob),
        ({"cron": "@daily", "payload": {"at": "{{schedule.x()}}"}}, InvalidJob),
        ({"cron": "@daily", "options": {"tenant": "acme"}}, InvalidJob),
        ({"cron": "@daily", "catch_up": "some"}, InvalidJob),
        ({"cron": "0 0 */31 2 MON#5"}, InvalidJob),
        ({"cron": "@daily", "start": datetime(2026, 1, 1)}, InvalidJob),  # noqa: DTZ001
        ({"cron": "@daily", "start": NOON, "end": NOON - minutes(1)}, InvalidJob),
    ]:
        with pytest.raises(error):
            app.schedule(**mistake)(sync)
    app.schedule("@daily")(sync)
    app.schedule("@daily")(sync)  # the module was loaded again
    with pytest.raises(InvalidJob, match='two schedules "sync"'):
        app.schedule("@hourly")(sync)


def test_a_schedule_is_made_changed_and_deleted_at_run_time(app: Headway, call: Call, sync: Any) -> None:
    made = call(
        app,
        "create_schedule",
        "nightly",
        "0 2 * * *",
        kind="sync",
        payload={"at": "{{schedule.date}}", "folder": "/in"},
        options={"priority": 7, "unique_key": "nightly-{{schedule.date}}"},
        tz="America/New_York",
        catch_up="all",
        catch_up_window="3d",
        overlap="skip",
        jitter="1m",
        start=datetime(2030, 1, 1, tzinfo=UTC),
        end=datetime(2031, 1, 1, tzinfo=UTC),
        description="every night",
        actor="ada",
    )
    assert made == call(app, "get_schedule", "nightly")
    assert (made.origin, made.tz, made.catch_up, made.catch_up_window_ms, made.overlap, made.jitter_ms) == (
        "stored",
        "America/New_York",
        "all",
        3 * 86_400_000,
        "skip",
        60_000,
    )
    assert (made.created_by, made.description, made.options["priority"]) == ("ada", "every night", 7)
    assert made.next_fire_at == datetime(2030, 1, 1, 7, tzinfo=UTC)
    with pytest.raises(Duplicate, match="nightly"):
        call(app, "create_schedule", "nightly", every="1h", kind="sync")
    changed = call(app, "change_schedule", "nightly", every="2h", start=None, end=None, new_name="often")
    assert (changed.name, changed.cron, changed.every_ms, changed.start_at) == ("often", None, 7_200_000, None)
    assert changed.next_fire_at is not None
    assert changed.next_fire_at.minute == 0
    with pytest.raises(InvalidJob, match="nothing"):
        call(app, "change_schedule", "often")
    with pytest.raises(InvalidJob, match="either a cron"):
        call(app, "change_schedule", "often", every=None)
    call(app, "delete_schedule", "often")
    with pytest.raises(NotFound, match='no schedule "often"'):
        call(app, "get_schedule", "often")


def test_a_paused_schedule_does_not_fire_and_catches_up_on_nothing(
    app: Headway, call: Call, clock: Any, ran: list[Any], sync: Any
) -> None:
    call(app, "create_schedule", "often", every="10m", kind="sync", catch_up="all")
    assert call(app, "pause_schedule", "often").next_fire_at is None
    clock.advance(minutes(35))
    drain(app)
    assert ran == []
    assert call(app, "resume_schedule", "often").next_fire_at == NOON + minutes(40)
    clock.advance(minutes(5))
    drain(app)
    assert len(ran) == 1


def test_one_of_the_code_can_be_paused_and_stays_so(app: Headway, clock: Any, ran: list[Any], sync: Any) -> None:
    app.schedule(every="10m")(sync)
    drain(app)
    app.pause_schedule("sync")
    clock.advance(minutes(30))
    drain(app)  # a worker that starts declares it again
    assert ran == []
    assert not app.get_schedule("sync").enabled
    with pytest.raises(NotAllowed, match="declared in the code"):
        app.change_schedule("sync", every="1h")


def test_one_that_left_the_code_does_not_fire(app: Headway, url: str, clock: Any, ran: list[Any], sync: Any) -> None:
    app.schedule(every="10m")(sync)
    drain(app)
    other = Headway(url)
    with held(other, NOON + minutes(30)):
        drain(other, "nightly")
        assert other.counts().get("queued", 0) == 0
    other.close()
    clock.advance(minutes(30))
    drain(app)
    assert len(ran) == 1


def test_a_changed_cron_in_the_code_takes_effect_at_the_next_start(app: Headway, url: str, clock: Any) -> None:
    def report() -> None: ...

    app.schedule("0 3 * * *")(app.job(report))
    drain(app)
    newer = Headway(url)
    newer.schedule("0 4 * * *")(newer.job(report))

    with held(newer, NOON):
        drain(newer)
    assert app.get_schedule("report").next_fire_at == datetime(2026, 5, 18, 4, tzinfo=UTC)
    newer.close()


def test_it_is_run_by_hand_whenever_and_its_times_stay(
    app: Headway, call: Call, clock: Any, ran: list[Any], sync: Any
) -> None:
    call(
        app, "create_schedule", "daily", "@daily", kind="sync", payload={"at": "{{schedule.nominal_at}}"}, enabled=False
    )
    fire = call(app, "run_schedule", "daily", actor="ada")
    assert (fire.status, fire.nominal_at, fire.fired_at) == ("enqueued", None, NOON)
    again = call(app, "run_schedule", "daily", {"folder": "/other"})
    assert again.job_id != fire.job_id
    job = app.get(fire.job_id)
    assert (job.created_by, job.source, job.queue) == ("ada", "schedule", "nightly")
    drain(app)
    assert ran == [("2026-05-17T12:00:00Z", "/"), ("2026-05-17T12:00:00Z", "/other")]


@pytest.mark.parametrize(("catch_up", "count"), [("none", 0), ("latest", 1), ("all", 6)])
def test_after_an_outage_it_catches_up_as_it_was_told(
    app: Headway, clock: Any, ran: list[Any], sync: Any, catch_up: Any, count: int
) -> None:
    app.create_schedule("often", every="10m", kind="sync", payload={"at": "{{schedule.nominal_at}}"}, catch_up=catch_up)
    clock.advance(minutes(65))
    drain(app)
    assert len(ran) == count
    assert ran[-1:] == ([("2026-05-17T13:00:00Z", "/")] if count else [])


def test_a_schedule_that_catches_up_leaves_the_others_their_part(app: Headway, clock: Any, sync: Any) -> None:
    app.create_schedule("old", every="1m", kind="sync", catch_up="all", catch_up_window="30d")
    clock.advance(minutes(1_800))
    app.create_schedule("young", every="1m", kind="sync")
    clock.advance(minutes(1))
    app.pause("nightly")
    drain(app, "default")
    fired = [fire.trigger_id for fire in reversed(app.fires(limit=10_000))]
    young = app.get_schedule("young").id
    assert (len(fired), fired.count(young)) == (1_802, 1)
    assert fired.index(young) <= 1_000  # in the first round


def test_what_is_too_far_behind_is_skipped_and_said(
    app: Headway, clock: Any, sync: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.model.schedule.CATCH_UP", 5)
    app.create_schedule("old", every="1m", kind="sync", catch_up="all")
    clock.advance(minutes(60))
    app.pause("nightly")
    drain(app, "default")
    *fired, gap = app.fires(schedule="old")
    assert [fire.status for fire in fired] == ["enqueued"] * 5
    assert (gap.status, gap.job_id) == ("skipped", None)
    assert gap.error.startswith(
        "skipped: all times from 2026-05-17T12:01:00+00:00 to before 2026-05-17T12:56:00+00:00; a schedule catches up"
    )
    assert app.get_schedule("old").error is None


def test_with_overlap_skip_the_job_before_must_be_over(app: Headway, clock: Any, sync: Any) -> None:
    app.create_schedule("often", every="10m", kind="sync", overlap="skip")
    app.pause("nightly")
    for _ in range(3):
        clock.advance(minutes(10))
        drain(app, "default")
    assert [fire.status for fire in app.fires(schedule="often")] == ["skipped", "skipped", "enqueued"]
    app.resume("nightly")
    drain(app)
    clock.advance(minutes(10))
    drain(app)
    assert app.fires(schedule="often")[0].status == "enqueued"


def test_a_fire_that_makes_no_job_keeps_its_error_and_the_next_one_comes(
    app: Headway, clock: Any, ran: list[Any]
) -> None:
    @app.job
    def strict(n: int) -> None:
        ran.append(n)

    app.create_schedule("broken", every="10m", kind="later", payload={"n": "{{schedule.name}}"})
    app.job(name="later")(strict.fn)  # it was not known before, and so not checked
    app.create_schedule("fine", every="10m", kind="strict", payload={"n": 7})
    clock.advance(minutes(10))
    drain(app)
    assert ran == [7]
    schedule = app.get_schedule("broken")
    assert "n" in (schedule.error or "")
    assert schedule.next_fire_at == NOON + minutes(20)
    assert app.fires(schedule="broken")[0].status == "failed"
    app.change_schedule("broken", payload={"n": 8})
    assert app.get_schedule("broken").error is None
    clock.advance(minutes(10))
    drain(app)
    assert sorted(ran) == [7, 7, 8]


@pytest.mark.parametrize(
    "mistake",
    [
        {"payload": {"att": "x"}},
        {"payload": {"at": "{{schedule.dat}}"}},
        {"payload": {"at": 7}},
        {"payload": {"at": "{{meta.nothing}}"}},
        {"options": {"priority": "{{schedule.name}}"}},
        {"start": datetime(1, 1, 1, tzinfo=UTC)},
        {"end": datetime(9999, 12, 31, tzinfo=UTC)},
        {"every": "200000w"},
    ],
)
def test_what_would_fail_at_night_is_refused_by_day(app: Headway, sync: Any, mistake: dict[str, Any]) -> None:
    with pytest.raises((InvalidJob, InvalidPayload)):
        app.create_schedule("s", **{"every": "1h", "kind": "sync", **mistake})
    assert app.schedules() == []
    app.create_schedule("s", every="1h", kind="sync", payload={"at": "x"})
    with pytest.raises((InvalidJob, InvalidPayload)):
        app.change_schedule("s", **mistake)
    assert app.get_schedule("s").payload == {"at": "x"}


def test_a_change_that_changes_nothing_of_its_times_keeps_what_is_due(
    app: Headway, clock: Any, ran: list[Any], sync: Any
) -> None:
    app.create_schedule("often", every="1m", kind="sync", catch_up="all")
    clock.advance(minutes(10))
    app.resume_schedule("often")
    app.change_schedule("often", every="1m", description="as it was")
    drain(app)
    assert len(ran) == 10


def test_what_is_caught_up_on_knows_the_time_before(app: Headway, clock: Any, ran: list[Any], sync: Any) -> None:
    payload = {"at": "{{schedule.last_fired_at}}", "folder": "{{schedule.nominal_at}}"}

    @app.job
    def span(at: str | None, folder: str) -> None:
        ran.append((at, folder))

    app.create_schedule("often", every="10m", kind="span", catch_up="all", payload=payload)
    clock.advance(minutes(30))
    drain(app)
    assert ran == [
        (None, "2026-05-17T12:10:00Z"),
        ("2026-05-17T12:10:00Z", "2026-05-17T12:20:00Z"),
        ("2026-05-17T12:20:00Z", "2026-05-17T12:30:00Z"),
    ]


def test_what_was_skipped_falls_into_the_span_of_the_next(app: Headway, clock: Any, sync: Any) -> None:
    app.create_schedule("often", every="10m", kind="sync", overlap="skip")
    app.pause("nightly")
    for _ in range(3):
        clock.advance(minutes(10))
        drain(app, "default")
    assert app.get_schedule("often").last_fired_at == NOON + minutes(10)


def test_more_than_one_round_can_hold_is_fired_in_portions(app: Headway, clock: Any, sync: Any) -> None:
    for number in range(3):
        app.create_schedule(f"s{number}", every="1m", kind="sync", catch_up="all", options={"queue": "aside"})
    clock.advance(minutes(700))
    drain(app, "default")
    for number in range(3):
        fires = app.fires(schedule=f"s{number}", limit=1_000)
        assert sorted(fire.nominal_at for fire in fires) == [NOON + minutes(n) for n in range(1, 701)]


def test_one_refused_job_does_not_stop_the_others_of_its_batch(
    app: Headway, clock: Any, ran: list[Any], sync: Any
) -> None:
    @app.job
    def off() -> None: ...

    drain(app)
    app.change_definition("off", active=False)
    for number in range(3):
        app.create_schedule(f"s{number}", every="10m", kind="sync", payload={"at": str(number)})
    app.create_schedule("off", every="10m", kind="off", catch_up="all")
    clock.advance(minutes(30))
    drain(app)
    assert sorted(at for at, _ in ran) == ["0", "1", "2"]
    assert [fire.status for fire in app.fires(schedule="off")] == ["failed"] * 3
    assert "not active" in (app.get_schedule("off").error or "")


def test_jitter_delays_the_job_and_not_the_fire(app: Headway, clock: Any, sync: Any) -> None:
    app.create_schedule("often", every="10m", kind="sync", jitter="5m")
    clock.advance(minutes(10))
    drain(app)
    (job,) = app.jobs(kind="sync")
    assert job.scheduled_for is not None
    assert NOON + minutes(10) < job.scheduled_for <= NOON + minutes(15)
    assert app.get_schedule("often").last_fired_at == NOON + minutes(10)


def test_a_schedule_of_a_template_lays_its_payload_over_it(app: Headway, clock: Any, ran: list[Any], sync: Any) -> None:
    template = app.create_template("in", "sync", {"at": "x", "folder": "/in"}, options={"priority": 3})
    app.create_schedule("often", every="10m", template="in", payload={"at": "{{schedule.name}}"})
    clock.advance(minutes(10))
    app.change_template("in", payload={"folder": "/out"})
    drain(app)
    assert ran == [("often", "/out")]
    (job,) = app.jobs(kind="sync")
    assert (job.template_id, job.template_revision, job.priority) == (template.id, 2, 3)


def test_a_preview_is_in_local_time_across_a_change_of_the_clock(app: Headway, call: Call) -> None:
    times = call(
        app,
        "preview_schedule",
        None,
        3,
        cron="30 1 * * *",
        tz="America/New_York",
        after=datetime(2026, 10, 31, tzinfo=UTC),
    )
    assert [time.isoformat() for time in times] == [
        "2026-10-31T01:30:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:30:00-05:00",
    ]
    assert times[0].tzinfo == ZoneInfo("America/New_York")
    with pytest.raises(InvalidJob, match="count"):
        call(app, "preview_schedule", None, 0, every="1m")


@pytest.mark.parametrize("wrong_by", [timedelta(days=-400), timedelta(days=400)])
def test_a_host_with_a_wrong_clock_fires_by_the_clock_of_the_database(
    postgres_migrated_url: str, wrong_by: timedelta, request: pytest.FixtureRequest
) -> None:
    right = Headway(postgres_migrated_url)
    wrong = Headway(postgres_migrated_url, clock=HeldClock(NOON + wrong_by))
    request.addfinalizer(right.close)
    request.addfinalizer(wrong.close)

    @wrong.schedule(every="10m", catch_up="all", payload={"at": "{{schedule.nominal_at}}"})
    @wrong.job
    def report(at: str) -> None: ...

    with held(right, NOON) as clock:
        for _ in range(3):
            drain(wrong)
            clock.advance("10m")
        times = sorted(job.payload["at"] for job in wrong.jobs())
        assert times == ["2026-05-17T12:10:00Z", "2026-05-17T12:20:00Z"]
        assert wrong.get_schedule("report").next_fire_at == NOON + minutes(30)
        wrong.pause_schedule("report")
        assert wrong.resume_schedule("report").next_fire_at == NOON + minutes(40)


def test_tenants_have_their_own_schedules(app: Headway, clock: Any, ran: list[Any], sync: Any) -> None:
    acme = app.tenant("acme")
    acme.create_schedule("often", every="10m", kind="sync", payload={"at": "{{meta.tenant}}"})
    app.create_schedule("often", every="10m", kind="sync", payload={"at": "{{meta.tenant}}"})
    app.create_schedule("other", every="1d", kind="sync", tenant="globex")
    assert [each.tenant for each in acme.schedules()] == ["acme"]
    assert len(app.schedules()) == 3
    assert app.get_schedule("other", tenant="globex").tenant == "globex"
    with pytest.raises(NotFound):
        app.get_schedule("other")
    with pytest.raises(NotAllowed):
        acme.get_schedule("other", tenant="globex")
    clock.advance(minutes(10))
    drain(app)
    assert sorted(at for at, _ in ran) == ["acme", "default"]
    assert {job.tenant for job in acme.jobs()} == {"acme"}


def test_a_secret_by_schema_is_not_shown_where_a_template_names_the_kind(app: Headway) -> None:
    @app.job(schema={"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}})
    def login(pin: str) -> None: ...

    app.create_template("in", "login", {"pin": "1111"})
    app.create_schedule("often", every="10m", template="in", payload={"pin": "2222"})
    assert app.get_schedule("often").payload == {"pin": "[redacted]"}
    app.create_trigger("t", "a.b", template="in", payload={"pin": "3333"}, when={"event.password": "x", "event.n": 1})
    trigger = app.get_trigger("t")
    assert (trigger.payload, trigger.when) == ({"pin": "[redacted]"}, {"event.password": "[redacted]", "event.n": 1})


def test_a_secret_in_a_stored_payload_is_not_shown_but_used(app: Headway, clock: Any, ran: list[Any]) -> None:
    @app.job
    def login(password: str) -> None:
        ran.append(password)

    app.create_schedule("often", every="10m", kind="login", payload={"password": "hunter22"})
    assert app.get_schedule("often").payload == {"password": "[redacted]"}
    clock.advance(minutes(10))
    drain(app)
    assert ran == ["hunter22"]
    assert app.jobs()[0].payload == {"password": "[redacted]"}
