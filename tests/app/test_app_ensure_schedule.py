"""`ensure_schedule`: makes a schedule, or changes what differs, and nothing where nothing does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob, InvalidPayload, NotAllowed, NotFound
from headway.model.trigger import Trigger
from headway.testing import drain
from tests.app.conftest import NOON

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def kinds(app: Headway, clock: Any) -> None:
    @app.job
    def sync(folder: str = "/") -> None: ...

    @app.job
    def other() -> None: ...


def audited(app: Headway) -> list[str]:
    return [entry.action for entry in app.audit_log()]


def test_what_is_not_there_is_made(app: Headway, call: Call) -> None:
    made = call(app, "ensure_schedule", "s", "*/10 * * * *", kind="sync", payload={"folder": "a"}, actor="ada")
    assert made == app.get_schedule("s")
    assert (made.cron, made.payload, made.enabled, made.revision) == ("*/10 * * * *", {"folder": "a"}, True, 1)
    assert (made.created_by, made.next_fire_at) == ("ada", NOON + timedelta(minutes=10))


def test_what_is_so_is_left_alone(app: Headway, call: Call, clock: Any) -> None:
    app.create_template("t", "sync", {"folder": "x"})
    wanted: dict[str, Any] = {
        "template": "t", "payload": {"folder": "{{schedule.date}}"}, "options": {"priority": 7}, "tz": "Asia/Tokyo",
        "catch_up": "all", "catch_up_window": "2h", "overlap": "skip", "jitter": "30s", "start": NOON,
        "end": NOON + timedelta(days=9), "description": "the books",
    }  # fmt: skip
    made = call(app, "ensure_schedule", "s", "0 8 * * *", **wanted)
    before = audited(app)
    clock.advance("1m")
    assert call(app, "ensure_schedule", "s", "0 8 * * *", **wanted) == made
    assert audited(app) == before


@pytest.mark.parametrize(
    "change",
    [
        {"cron": "0 9 * * *"},
        {"cron": None, "every": "5m"},
        {"kind": "other", "payload": None},
        {"payload": {"folder": "b"}},
        {"options": {"priority": 8}},
        {"tz": "Asia/Tokyo"},
        {"catch_up": "none"},
        {"catch_up_window": "2h"},
        {"overlap": "skip"},
        {"jitter": "1s"},
        {"start": NOON + timedelta(days=1)},
        {"end": NOON + timedelta(days=1)},
        {"description": "new"},
        {"enabled": False},
    ],
    ids=lambda change: ",".join(change),
)
def test_what_differs_is_changed_and_what_is_not_given_has_its_default(app: Headway, change: dict[str, Any]) -> None:
    wanted: dict[str, Any] = {"cron": "0 8 * * *", "kind": "sync", "payload": {"folder": "a"}}
    first = app.ensure_schedule("s", **wanted)
    changed = app.ensure_schedule("s", **wanted | change, actor="ada")
    alike = app.create_schedule("like", **wanted | change)
    assert (changed.id, changed.revision, changed.created_at) == (first.id, 2, first.created_at)
    for field in set(Trigger.__struct_fields__) - {"id", "name", "revision"}:
        assert getattr(changed, field) == getattr(alike, field), field
    back = app.ensure_schedule("s", **wanted, enabled=True)
    for field in set(Trigger.__struct_fields__) - {"revision", "updated_at"}:
        assert getattr(back, field) == getattr(first, field), field


def test_a_pause_survives(app: Headway, call: Call, clock: Any) -> None:
    call(app, "ensure_schedule", "s", "0 8 * * *", kind="sync")
    app.pause_schedule("s")
    still = call(app, "ensure_schedule", "s", "0 9 * * *", kind="sync")
    assert (still.cron, still.enabled, still.next_fire_at) == ("0 9 * * *", False, None)
    again = call(app, "ensure_schedule", "s", "0 9 * * *", kind="sync", enabled=True)
    assert (again.enabled, again.next_fire_at) == (True, NOON + timedelta(hours=21))


def test_what_was_due_and_has_not_fired_stays_due(app: Headway, clock: Any) -> None:
    due = app.ensure_schedule("s", "@hourly", kind="sync").next_fire_at
    clock.advance("90m")
    assert app.ensure_schedule("s", "@hourly", kind="sync", payload={"folder": "b"}).next_fire_at == due
    drain(app)
    assert [fire.nominal_at for fire in app.fires(schedule="s")] == [due]


def test_it_refuses_what_create_refuses(app: Headway, call: Call) -> None:
    call(app, "ensure_schedule", "s", "@daily", kind="sync")
    with pytest.raises(InvalidJob, match="cron='x' has 1 fields"):
        call(app, "ensure_schedule", "s", "x", kind="sync")
    with pytest.raises(InvalidPayload, match="folder"):
        call(app, "ensure_schedule", "s", "@daily", kind="sync", payload={"folder": 7})
    with pytest.raises(NotFound, match='no template "t"'):
        call(app, "ensure_schedule", "s", "@daily", template="t")
    assert app.get_schedule("s").revision == 1
    app.schedule("@daily", name="code")(app.job(lambda: None, name="wake"))
    drain(app)
    with pytest.raises(NotAllowed, match='schedule "code" is declared in the code'):
        call(app, "ensure_schedule", "code", "@hourly", kind="sync")


def test_many_at_once_agree(app: Headway, url: str) -> None:
    """Each process of a deploy ensures the same: one makes it, the others find it."""
    failed: list[BaseException] = []
    begin = threading.Barrier(8)

    def ensure() -> None:
        other = Headway(url, strict_kinds=False)
        try:
            for hour in range(5):
                begin.wait()
                other.ensure_schedule("s", f"0 {hour} * * *", kind="sync")
        except BaseException as error:
            failed.append(error)
        finally:
            other.close()

    threads = [threading.Thread(target=ensure) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    (made,) = app.schedules()
    assert (made.cron, made.revision) == ("0 4 * * *", 5)
    assert sorted(audited(app)) == ["trigger.changed"] * 4 + ["trigger.created"]
