"""Settings: what they are, their defaults, and where they are read from (HEADWAY_* variables, headway.toml)."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import ConfigError

DAY_MS = 86_400_000
FILE = "headway.toml"

# the settings of headway.toml and of the environment, without the sections that other parts read
NAMES = (
    "url",
    "app",
    "tenant",
    "tz",
    "queues",
    "order",
    "concurrency",
    "lease",
    "heartbeat",
    "reap_every",
    "promote_every",
    "sweep_every",
    "pace",
    "idle_pace",
    "grace",
    "database_timeout",
    "hints",
    "strict_kinds",
    "payload_limit",
    "result_limit",
    "spill_limit",
    "retention",
    "artifacts",
    "log_level",
    "log_format",
    "log_fields",
    "otel",
    "metrics",
)
SECTIONS = ("commands", "connectors", "secrets", "server", "oidc")
"""Sections of the file; each part reads its own."""
SERVER_NAMES = (
    "host",
    "port",
    "prefix",
    "root_path",
    "workers",
    "tls_cert",
    "tls_key",
    "trusted_proxies",
    "hosts",
    "key_rate",
    "tenant_rate",
    "tenant_bytes",
    "session_idle",
    "session_max",
    "tick",
    "metrics",
)
"""The settings of the section [server]; HEADWAY_SERVER_PORT is its port."""
OIDC_NAMES = (
    "issuer",
    "audience",
    "jwks_url",
    "algorithms",
    "tenant_claim",
    "role_claim",
    "roles",
    "superadmins",
    "client_id",
    "client_secret",
)
"""The settings of the section [oidc]; HEADWAY_OIDC_ISSUER is its issuer."""
_IN_VARIABLES = {"server": SERVER_NAMES, "oidc": OIDC_NAMES}


def _retention() -> dict[str, int]:
    jobs = {"succeeded": 7 * DAY_MS, "canceled": 30 * DAY_MS, "failed": 30 * DAY_MS, "dead": 90 * DAY_MS}
    return (
        jobs
        | {"events": 7 * DAY_MS, "failed_events": 30 * DAY_MS, "fires": 30 * DAY_MS, "audit": 365 * DAY_MS}
        | {
            "stats_minutes": 2 * DAY_MS,
            "stats_hours": 60 * DAY_MS,
            "stats_days": 730 * DAY_MS,
            "errors": 90 * DAY_MS,  # since they were seen last
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an app and its workers behave; durations are whole milliseconds here and strings like "60s" at the edge."""

    lease_ms: int = 60_000
    heartbeat_ms: int = 20_000
    reap_every_ms: int = 30_000
    promote_every_ms: int = 1_000
    sweep_every_ms: int = 300_000
    pace_ms: int = 25
    idle_pace_ms: int = 100  # the pace of a queue that has had no work for a minute
    grace_ms: int = 30_000  # how long a stopping worker waits for its jobs
    database_timeout_ms: int = 60_000  # how long a call waits for the database
    strict_kinds: bool | None = None  # whether an enqueue refuses unknown kinds; None: only if the code defines any
    otel: bool = False  # whether spans and metrics go to OpenTelemetry
    hints: bool = True  # whether an enqueue wakes workers in other processes of this machine
    tz: str = "UTC"  # the zone of schedules that name none
    concurrency: int = 20
    payload_limit: int = 1_048_576  # bytes of JSON
    result_limit: int = 1_048_576
    spill_limit: int = 67_108_864  # of a payload or result that goes to an artifact
    artifacts: str | None = None  # the folder or object store of artifacts; None: a folder beside the database
    retention_ms: dict[str, int] = field(default_factory=_retention)  # of jobs by status, and of what fired


def read(env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings of the environment and the file, not yet converted; a variable overrides the file.

    The file is $HEADWAY_CONFIG, or headway.toml in the current folder if there is one.
    """
    env = os.environ if env is None else env
    _tell_of_misspelled(env)
    values = _from_file(env.get("HEADWAY_CONFIG"))
    for name in NAMES:
        value = env.get(f"HEADWAY_{name.upper()}")
        # an empty variable counts as unset, except for the database: work must not go elsewhere unnoticed
        if value is not None and (value != "" or name == "url"):
            values[name] = value
    for section, names in _IN_VARIABLES.items():
        found = {name: env.get(f"HEADWAY_{section.upper()}_{name.upper()}") for name in names}
        if given := {name: value for name, value in found.items() if value}:
            values[section] = {**values.get(section, {}), **given}
    return values


def urls(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The sources that name a database, in order of precedence: the variable, then the file."""
    env = os.environ if env is None else env
    said = {"HEADWAY_URL": env.get("HEADWAY_URL"), str(path(env)): _from_file(env.get("HEADWAY_CONFIG")).get("url")}
    return {source: str(url) for source, url in said.items() if url is not None}


def path(env: Mapping[str, str] | None = None) -> Path:
    """The absolute path of the file that `read` reads; it may not exist."""
    env = os.environ if env is None else env
    return Path(env.get("HEADWAY_CONFIG") or FILE).resolve()


def _tell_of_misspelled(env: Mapping[str, str]) -> None:
    """Warn once of each variable that looks like one of ours: others, which have our prefix by chance, are not ours."""
    known = {f"HEADWAY_{name.upper()}" for name in ("config", *NAMES)}
    known |= {f"HEADWAY_{section}_{name}".upper() for section, names in _IN_VARIABLES.items() for name in names}
    for name in env:
        # Kubernetes sets HEADWAY_SERVICE_HOST for a service of that name
        if not name.startswith("HEADWAY_") or "_SERVICE_" in name or name in known | _OTHERS | _told:
            continue
        if close := difflib.get_close_matches(name, known, 1, cutoff=_CLOSE):
            from headway.logs import get_logger

            _told.add(name)
            get_logger("headway").warning(f"{name} is no setting, and is ignored: did you mean {close[0]}?")


_CLOSE = 0.88
_OTHERS = frozenset({"HEADWAY_KEY", "HEADWAY_TEST_URL", "HEADWAY_DEV_KEY", "HEADWAY_DEV_LINK"})
_told: set[str] = set()


def _from_file(named: str | None) -> dict[str, Any]:
    named = named or None
    path = Path(named or FILE)
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        if named is None:
            return {}
        raise ConfigError(f"HEADWAY_CONFIG names {named}, which does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path.resolve()} is not valid TOML: {error}") from error
    for name in values:
        if name not in (*NAMES, *SECTIONS):
            close = difflib.get_close_matches(name, (*NAMES, *SECTIONS), 1)
            hint = f": did you mean {close[0]!r}?" if close else f": the settings are {', '.join(NAMES)}"
            raise ConfigError(f"{path.resolve()} has an unknown setting {name!r}{hint}")
    return values
