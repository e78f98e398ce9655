"""Settings, read strictly from HEADWAY_* of the environment: a wrong one is named."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from headway_client.errors import ConfigError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*")


def seconds(value: str | float | timedelta) -> float:
    """
    >>> seconds("250ms"), seconds("1m30s"), seconds("5"), seconds(timedelta(hours=1))
    (0.25, 90.0, 5.0, 3600.0)
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str):
        parts = _PART.findall(value)
        if parts and not _PART.sub("", value.strip()):
            return sum(float(number) * _UNITS[unit] for number, unit in parts)
        if re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            return float(value)
    elif not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise ValueError("is not a duration such as 30s, 5m or 1h30m")


def _some_seconds(text: str) -> float:
    found = seconds(text)
    if not found:
        raise ValueError("leaves no time for a request: give some seconds")
    return found


def _address(text: str) -> str:
    """Without the path of the API, which requests add.

    >>> _address("https://jobs.example.com/below/api/v1/")
    'https://jobs.example.com/below'
    """
    found = re.match(r"https?://[^/?#\s]+", text)
    if found is None:
        raise ValueError("is not an address such as https://jobs.example.com")
    if "@" in found[0]:
        raise ValueError("has a user or password, which the API does not read: leave it out, and set HEADWAY_KEY")
    if urlsplit(found[0]).port == 0:  # raises ValueError for what is no port, or no address in brackets
        raise ValueError("has the port 0")
    path = text[found.end() :]
    if re.search(r"[?#\s]", path):
        raise ValueError("has more than a host and a path: leave out what follows ? or #, and spaces")
    return found[0] + path.rstrip("/").removesuffix("/api/v1").rstrip("/")


def _key(text: str) -> str:
    if not text.startswith("hw_"):
        raise ValueError("is not a key: keys begin with hw_")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("is not a key: it has a space, the end of a line or another character that no key has")
    return text


def _count(text: str) -> int:
    if not text.isdigit():
        raise ValueError("is not a whole number from 0")
    return int(text)


def _level(text: str) -> str:
    if text.lower() not in ("debug", "info", "warning", "error"):
        raise ValueError("is none of debug, info, warning, error")
    return text.lower()


def _format(text: str) -> str:
    if text not in ("json", "text"):
        raise ValueError("is neither json nor text")
    return text


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError("is neither true nor false")
    return text.lower() in ("true", "1")


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if not text.isascii() or not text.isprintable():
        raise ValueError("is no tenant's name or id: those are ASCII")
    return text


_READERS: dict[str, Callable[[str], Any]] = {
    "api": _address,
    "key": _key,
    "tenant": _text,
    "timeout": _some_seconds,
    "retries": _count,
    "grace": seconds,
    "log_level": _level,
    "log_format": _format,
    "otel": _switch,
}
_OTHERS = frozenset({"app", "metrics"})  # of the engine, and so near to one of ours that they look like typos
_SYNONYMS = {"api_url": "api", "api_key": "key"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the server is, who asks, and how patient a client is; a field per variable: HEADWAY_API and so on."""

    api: str = "http://127.0.0.1:8420"
    key: str = ""
    tenant: str | None = None  # for a super admin's key
    timeout: float = 10.0  # seconds for one request, beside what it asks to wait
    retries: int = 4  # of requests that may be repeated
    grace: float = 30.0  # how long a stopping worker lets its jobs run
    log_level: str = "info"
    log_format: str = "json"
    otel: bool = False  # whether a worker makes spans by OpenTelemetry

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """From the environment, under what is given; raises `ConfigError`, which names the variable."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for name, text in environ.items():
            if not name.upper().startswith("HEADWAY_"):
                continue
            field = name[len("HEADWAY_") :].lower()
            if field not in _READERS or name != name.upper():
                _check_spelling(name, field)
                continue
            try:
                values[field] = _READERS[field](text)
            except ValueError as error:
                # an address with an @ may have a password
                shown = "…" if field == "key" or "@" in text else repr(text)
                raise ConfigError(f"{name}={shown} {error}") from None
        values |= {name: value for name, value in given.items() if value is not None}
        if not values.get("key"):
            raise ConfigError("no key: set HEADWAY_KEY, or give key=; headway keys create makes one")
        for field, word in (("api", "address"), ("key", "key")):
            try:
                values[field] = _READERS[field](values.get(field, cls.api))
            except ValueError as error:
                raise ConfigError(f"the {word} {error}") from None
        return cls(**values)


def _check_spelling(name: str, field: str) -> None:
    """Other programs of Headway read other variables; one that is nearly ours is a typo."""
    if field in _OTHERS:
        return
    near = _SYNONYMS.get(field) or min(_READERS, key=lambda each: _typos(field, each))
    alike = difflib.SequenceMatcher(None, field, near).ratio() >= 0.8
    if field in _SYNONYMS or alike or _typos(field, near) <= (1 if len(near) < 7 else 2):
        raise ConfigError(f"{name} is not a setting: do you mean HEADWAY_{near.upper()}?")


def _typos(said: str, meant: str) -> int:
    """How many letters are missing, extra, wrong or swapped with the next.

    >>> _typos("kye", "key"), _typos("retrys", "retries"), _typos("apis", "api")
    (1, 2, 1)
    """
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for i, letter in enumerate(said):
        last, before, row = before, row, [i + 1]
        for j, wanted in enumerate(meant):
            best = min(before[j + 1] + 1, row[j] + 1, before[j] + (letter != wanted))
            if i and j and (letter, said[i - 1]) == (meant[j - 1], wanted):
                best = min(best, last[j - 1] + 1)
            row.append(best)
    return row[-1]
