"""Schedules in words: "at 02:00 every day in America/New_York"."""

from __future__ import annotations

from typing import Any

from headway.dashboard.shown.numbers import duration
from headway.errors import HeadwayError
from headway.model.cron_words import explain_cron


def schedule_words(trigger: Any) -> str:
    if trigger["every_ms"]:
        return f"every {duration(trigger['every_ms'] / 1_000).replace('.0 ', ' ')}"
    if not trigger["cron"]:
        return "never"
    try:
        said = explain_cron(trigger["cron"])
    except (HeadwayError, ValueError):
        said = trigger["cron"]  # a row that was written by hand
    return said if trigger["tz"] == "UTC" else f"{said} in {trigger['tz'].rpartition('/')[2].replace('_', ' ')}"
