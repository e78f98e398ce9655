"""When schedules of an app are due: every form of cron, and the zone of those that name none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.errors import ConfigError
from headway.testing import drain, held
from tests.app.conftest import NOON


@pytest.fixture
def sync(app: Headway, ran: list[Any]) -> Any:
    @app.job
    def sync(at: str = "", folder: str = "/") -> None:
        ran.append((at, folder))

    return sync


@pytest.mark.parametrize(
    ("cron", "due"),
    [
        ("*/20 * * * * *", NOON + timedelta(seconds=20)),
        ("0 22-6 ? * SAT-SUN", NOON + timedelta(hours=10)),
        ("0 0 L-3 * ?", datetime(2026, 5, 28, tzinfo=UTC)),
        ("0 0 ? * FRIL", datetime(2026, 5, 29, tzinfo=UTC)),
        ("0 0 * * MON#1,WED#3", datetime(2026, 5, 20, tzinfo=UTC)),
        ("0 0 31W * *", datetime(2026, 5, 29, tzinfo=UTC)),
    ],
)
def test_every_form_of_cron_is_stored_and_fires(
    app: Headway, clock: Any, ran: list[Any], sync: Any, cron: str, due: datetime
) -> None:
    app.create_schedule("s", cron, kind="sync", payload={"at": "{{schedule.nominal_at}}"})
    made = app.get_schedule("s")
    assert (made.cron, made.next_fire_at) == (cron, due)
    clock.advance(due - NOON)
    drain(app)
    assert ran == [(due.strftime("%Y-%m-%dT%H:%M:%SZ"), "/")]
    following = app.get_schedule("s").next_fire_at
    assert following == app.preview_schedule("s", 1, after=due)[0]


# the app's zone


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apps that are opened from now on have this zone."""
    monkeypatch.setenv("HEADWAY_TZ", "Asia/Tokyo")


def test_schedules_that_name_no_zone_have_the_apps(
    tokyo: None, app: Headway, clock: Any, call: Callable[..., Any]
) -> None:
    @app.schedule("0 8 * * *")
    @app.schedule("0 8 * * *", name="elsewhere", tz="America/New_York")
    @app.job
    def wake() -> None: ...

    drain(app)
    assert app.get_schedule("wake").tz == "Asia/Tokyo"
    assert app.get_schedule("wake").next_fire_at == datetime(2026, 5, 17, 23, tzinfo=UTC)
    assert app.get_schedule("elsewhere").tz == "America/New_York"
    assert call(app, "create_schedule", "made", "0 8 * * *", kind="wake").tz == "Asia/Tokyo"
    assert call(app, "create_schedule", "utc", "0 8 * * *", kind="wake", tz="UTC").tz == "UTC"
    assert call(app, "change_schedule", "utc", cron="0 9 * * *").tz == "UTC"
    assert call(app, "change_schedule", "utc", tz=None).tz == "Asia/Tokyo"
    (time,) = call(app, "preview_schedule", cron="0 8 * * *", count=1)
    assert time.isoformat() == "2026-05-18T08:00:00+09:00"
    assert call(app.tenant("acme"), "create_schedule", "theirs", "@daily", kind="wake").tz == "Asia/Tokyo"


def test_another_zone_of_the_app_moves_the_schedules_of_its_code(url: str) -> None:
    def declared(tz: str | None) -> Any:
        app = Headway(url, tz=tz)
        app.schedule("0 8 * * *")(app.job(lambda: None, name="wake"))
        with held(app, NOON):
            app.create_schedule(f"stored-{tz}", "@daily", kind="wake")
            drain(app)
            found = {each.name: each.tz for each in app.schedules()}
        app.close()
        return found

    assert declared(None) == {"stored-None": "UTC", "wake": "UTC"}
    assert declared("Asia/Tokyo") == {"stored-None": "UTC", "stored-Asia/Tokyo": "Asia/Tokyo", "wake": "Asia/Tokyo"}


def test_the_zone_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headway.toml").write_text('tz = "Europe/Berlin"\n')
    assert Headway().settings.tz == "Europe/Berlin"
    monkeypatch.setenv("HEADWAY_TZ", "Asia/Kolkata")
    assert Headway().settings.tz == "Asia/Kolkata"
    assert Headway(tz="UTC").settings.tz == "UTC"
    with pytest.raises(ConfigError, match="tz='CEST' is not a time zone: use an IANA name"):
        Headway(tz="CEST")
    monkeypatch.setenv("HEADWAY_TZ", "Mars/Olympus")
    with pytest.raises(ConfigError, match="'Mars/Olympus' is not a time zone"):
        Headway().settings  # noqa: B018
