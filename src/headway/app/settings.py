"""Turns arguments, environment variables and headway.toml into checked `Settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from headway.artifacts import checked_place
from headway.config import Settings
from headway.errors import ConfigError, InvalidJob
from headway.model.cron import zone
from headway.model.duration import Duration, to_ms
from headway.model.retention import FOREVER, FOREVER_MS


class SettingOptions(TypedDict, total=False):
    """What `Headway(…)` takes besides url, tenant and clock. None: as the environment or headway.toml say."""

    tz: str | None
    lease: Duration | None
    heartbeat: Duration | None
    reap_every: Duration | None
    promote_every: Duration | None
    sweep_every: Duration | None
    pace: Duration | None
    idle_pace: Duration | None
    grace: Duration | None
    database_timeout: Duration | None
    hints: bool | None
    otel: bool | None
    strict_kinds: bool | None
    concurrency: int | None
    payload_limit: int | None
    result_limit: int | None
    spill_limit: int | None
    retention: Mapping[str, Duration] | None
    artifacts: str | None


_DURATIONS = (
    "lease",
    "heartbeat",
    "reap_every",
    "promote_every",
    "sweep_every",
    "pace",
    "idle_pace",
    "grace",
    "database_timeout",
)
_SWITCHES = ("hints", "otel", "strict_kinds")
_COUNTS = ("concurrency", "payload_limit", "result_limit", "spill_limit")
_DEFAULTS = Settings()


def check_names(given: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for what is no setting."""
    unknown = sorted(set(given) - set(SettingOptions.__annotations__))
    if unknown:
        names = ", ".join(SettingOptions.__annotations__)
        raise ConfigError(f"{unknown[0]!r} is not a setting: use url, {names}")


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Checked settings from raw values by their public names; what is missing has its default. Raises `ConfigError`."""
    values: dict[str, Any] = {}
    for name in _DURATIONS:
        if given.get(name) is not None:
            values[f"{name}_ms"] = _duration(name, given[name])
    for name in _COUNTS:
        if given.get(name) is not None:
            values[name] = _count(name, given[name])
    for name in _SWITCHES:
        if given.get(name) is not None:
            values[name] = _switch(name, given[name])
    if given.get("tz") is not None:
        values["tz"] = _zone(given["tz"])
    if given.get("artifacts") is not None:
        values["artifacts"] = checked_place(given["artifacts"])
    if given.get("retention") is not None:
        values["retention_ms"] = _DEFAULTS.retention_ms | ages(given["retention"])
    made = Settings(**values)
    if made.heartbeat_ms * 2 > made.lease_ms:
        if "heartbeat_ms" not in values:
            return Settings(**{**values, "heartbeat_ms": made.lease_ms // 3})
        raise ConfigError(
            f"a heartbeat of {made.heartbeat_ms} ms is too slow for a lease of {made.lease_ms} ms: one that comes late "
            "would cost the lease; a third of the lease is a good heartbeat"
        )
    return made


def _zone(value: Any) -> str:
    try:
        return zone(value).key
    except InvalidJob as error:
        raise ConfigError(str(error)) from None


def _duration(name: str, value: Duration) -> int:
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdigit():
        value = float(value)  # environment variables are text
    try:
        ms = to_ms(value, name)
    except InvalidJob as error:
        raise ConfigError(str(error)) from None
    if ms == 0:
        raise ConfigError(f"{name}={value!r} must be longer than nothing")
    return ms


def _count(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ConfigError(f"{name}={value!r} must be a whole number from 1")
    return number


def _switch(name: str, value: Any) -> bool:
    """True or false; an environment variable has it as text."""
    named = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
    found = named.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ConfigError(f"{name}={value!r} must be true or false")
    return found


def ages(value: Any) -> dict[str, int]:
    """A retention as people write it, in milliseconds by name; raises `ConfigError`."""
    if isinstance(value, str):
        # as in an environment variable: succeeded=1d,dead=30d
        value = {name.strip(): age for name, _, age in (part.partition("=") for part in value.split(","))}
    if not isinstance(value, Mapping) or not set(value) <= set(_DEFAULTS.retention_ms):
        raise ConfigError(
            f"retention={value!r} must map {', '.join(_DEFAULTS.retention_ms)} to durations, such as "
            '{"succeeded": "7d"}'
        )
    return {name: FOREVER_MS if age == FOREVER else _duration(f"retention.{name}", age) for name, age in value.items()}
