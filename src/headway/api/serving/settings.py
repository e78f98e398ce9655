"""The settings of the server: the section [server] of headway.toml, and HEADWAY_SERVER_* variables."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from headway.config import DAY_MS, SERVER_NAMES
from headway.errors import ConfigError, InvalidJob
from headway.model.duration import Duration, to_ms
from headway.model.rate import parse_rate, show_rate

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SHORTEST_SESSION_MS = 300_000
_UNITS = ("B", "KiB", "MiB", "GiB")
_BYTES = re.compile(r"([1-9]\d{0,9})\s*(B|KiB|MiB|GiB)/([1-9]\d{0,5}(?:ms|s|m|h))\Z")
_HOST = re.compile(r"(\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?)\Z")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*\Z")


class ServerOptions(TypedDict, total=False):
    """What `headway.asgi(app, …)` takes. None: as the environment or headway.toml say."""

    hosts: Sequence[str] | None
    prefix: str | None
    key_rate: str | None
    tenant_rate: str | None
    tenant_bytes: str | None
    session_idle: Duration | None
    session_max: Duration | None
    tick: bool | None


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests in a period."""

    count: int
    period_ms: int

    def __str__(self) -> str:
        return show_rate(self.count, self.period_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How the HTTP API answers, and where `headway serve` listens."""

    host: str = "127.0.0.1"
    port: int = 8420
    prefix: str = ""
    root_path: str = ""
    workers: int = 1
    tls_cert: str | None = None
    tls_key: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # beside loopback: the names under which the server may be asked
    key_rate: Rate | None = None  # requests of one key, in one process
    tenant_rate: Rate | None = None
    tenant_bytes: Rate | None = Rate(256 * 2**20, 16_000)  # of bodies over 16 KiB, in one process
    session_idle_ms: int = 12 * 3_600_000  # a browser's session ends when it was not used for so long
    session_max_ms: int = 7 * DAY_MS  # and when it has lasted so long
    metrics: str | None = None  # where `headway serve` answers Prometheus without a key
    tick: bool | None = None  # from the start, what workers do for the fleet; None: `headway serve` does, others do not


def server_settings(given: Mapping[str, Any]) -> ServerSettings:
    """Checked settings from raw values by their public names; raises `ConfigError`."""
    if not isinstance(given, Mapping):
        raise ConfigError("[server] is a table of settings")
    for name in given:
        if name not in SERVER_NAMES:
            close = difflib.get_close_matches(name, SERVER_NAMES, 1)
            hint = f": did you mean {close[0]!r}?" if close else f": its settings are {', '.join(SERVER_NAMES)}"
            raise ConfigError(f"[server] has no setting {name!r}{hint}")
    return ServerSettings(
        **{_FIELDS.get(name, name): _READ[name](name, value) for name, value in given.items() if value is not None}
    )


def url_path(name: str, value: Any) -> str:
    """A path to put before others: "" or "/work", without a slash at its end."""
    path = str(value).rstrip("/")
    path = path if path.startswith("/") or not path else f"/{path}"
    if not _PATH.match(path):
        raise ConfigError(f"server.{name}={value!r} is not a path like /work")
    return path


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"server.{name}={value!r} must be a text")
    return value


def _whole(least: int, most: int) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = least - 1
        if isinstance(value, bool) or not least <= number <= most:
            raise ConfigError(f"server.{name}={value!r} must be a whole number from {least} to {most:,}")
        return number

    return read


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """A list; in a variable the texts are separated by commas."""
    texts = [each.strip() for each in value.split(",")] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(each, str) and each for each in texts):
        raise ConfigError(f"server.{name}={value!r} must be a list of texts")
    return tuple(texts)


def _hosts(name: str, value: Any) -> tuple[str, ...]:
    hosts = tuple(each.lower().strip("[]") for each in _texts(name, value))
    for each in hosts:
        if not _HOST.match(each) and not _is_address(each):
            raise ConfigError(f"server.{name}: {each!r} is neither a name like work.example, nor *.example, nor *")
    return hosts


def _proxies(name: str, value: Any) -> tuple[str, ...]:
    proxies = _texts(name, value)
    for each in proxies:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError:
            raise ConfigError(f"server.{name}: {each!r} is neither an address nor a network like 10.0.0.0/8") from None
    return proxies


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _rate(name: str, value: Any) -> Rate:
    try:
        return Rate(*parse_rate(value, f"server.{name}"))
    except InvalidJob as error:
        raise ConfigError(str(error)) from None


def _bytes(name: str, value: Any) -> Rate | None:
    """A rate, `256MiB/16s`; or "none"."""
    if value == "none":
        return None
    found = _BYTES.match(str(value))
    if found is None:
        raise ConfigError(f'server.{name}={value!r} is not a size per time like "256MiB/16s", or "none"')
    size, unit, period = found.groups()
    ms = to_ms(period, f"server.{name}")
    return Rate(int(size) * 1_024 ** _UNITS.index(unit), ms)


def _duration(name: str, value: Duration) -> int:
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdigit():
        value = float(value)  # environment variables are text
    try:
        ms = to_ms(value, f"server.{name}")
    except InvalidJob as error:
        raise ConfigError(str(error)) from None
    if ms < _SHORTEST_SESSION_MS:  # uses are stored once a minute
        raise ConfigError(f"server.{name}={value!r} must be five minutes or longer")
    return ms


def _switch(name: str, value: Any) -> bool:
    found = _SWITCH.get(value.lower() if isinstance(value, str) else value)
    if found is None:
        raise ConfigError(f"server.{name}={value!r} must be true or false")
    return found


_SWITCH = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
_FIELDS = {"session_idle": "session_idle_ms", "session_max": "session_max_ms"}
_READ: dict[str, Callable[[str, Any], Any]] = {
    "host": _text,
    "port": _whole(0, 65_535),
    "prefix": url_path,
    "root_path": url_path,
    "workers": _whole(1, 1_000),
    "metrics": _text,
    "tls_cert": _text,
    "tls_key": _text,
    "trusted_proxies": _proxies,
    "hosts": _hosts,
    "key_rate": _rate,
    "tenant_rate": _rate,
    "tenant_bytes": _bytes,
    "session_idle": _duration,
    "session_max": _duration,
    "tick": _switch,
}
