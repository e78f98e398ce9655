"""Definitions and schedules: what the code declares, under what operators changed."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.model.definition import NewDefinition
from headway.model.definition_merge import COLUMNS, changed, declared
from headway.model.trigger import redeclared

CODE = NewDefinition(kind="work", description="of the code", timeout_ms=1_000, queue="code", schema='{"a":1}')


def test_what_an_operator_changed_stays_until_it_is_reset() -> None:
    row = declared(None, CODE, 5)
    assert tuple(row) == COLUMNS
    assert (row["origin"], row["changed"], row["created_at"]) == ("code", "[]", 5)
    row = changed(row, "work", {"queue": "ops", "timeout_ms": None, "active": 0}, (), 6)
    assert (row["queue"], row["timeout_ms"], row["active"], row["changed"]) == (
        "ops",
        None,
        0,
        '["timeout_ms","queue"]',
    )
    row = declared(row, msgspec.structs.replace(CODE, queue="later", description="new"), 7)
    assert (row["queue"], row["timeout_ms"], row["description"]) == ("ops", None, "new")
    row = changed(row, "work", {"max_attempts": 9}, ("queue", "timeout_ms"), 8)
    assert (row["queue"], row["timeout_ms"], row["changed"]) == ("later", 1_000, '["max_attempts"]')
    assert (row["schema"], row["active"]) == ('{"a":1}', 0)


def test_a_kind_that_no_code_declared_goes_back_to_defaults() -> None:
    row = changed(None, "work", {"queue": "ops"}, (), 5)
    assert (row["origin"], row["queue"], row["code"]) == ("stored", "ops", None)
    row = changed(row, "work", {}, ("queue",), 6)
    assert (row["queue"], row["changed"], row["schema"], row["timeout_ms"]) == ("default", "[]", None, None)


def test_a_schedule_that_is_declared_again_keeps_its_next_time_and_whether_it_is_enabled() -> None:
    timing: dict[str, Any] = {"cron": "* * * * *", "every_ms": None, "tz": "UTC", "start_at": None, "end_at": None}
    before = {**timing, "enabled": 1, "next_fire_at": 10, "payload": "{}"}
    said = {**timing, "enabled": True, "next_fire_at": 99, "payload": '{"a":1}'}
    assert redeclared(before, said) == {**before, "payload": '{"a":1}'}
    for name in timing:
        other = {**said, name: "other"}
        assert redeclared(before, other) == {**other, "enabled": 1, "next_fire_at": 99}
        assert redeclared({**before, "enabled": 0}, other) == {**other, "enabled": 0, "next_fire_at": None}
