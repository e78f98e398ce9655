"""The section `[secrets]` of headway.toml: which kinds, of which tenants, may use which secrets, and the
hosts that connectors may send them to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_*?]{1,256}\Z")
_KIND = re.compile(r"[A-Za-z0-9_.:/*?-]{1,128}\Z")
_TENANT = re.compile(r"\*|[^\s*?]{1,128}\Z")
_HOST = re.compile(r"(?:https?://)?(?:\*\.)?[a-z0-9_:-]{1,63}(?:\.[a-z0-9_-]{1,63})*\Z")
_DEFAULT = ("default",)
_KEYS = ("kinds", "tenants", "hosts")
_EXAMPLE = '[secrets.SMTP_PASSWORD] with kinds = ["send_mail"] and tenants = ["acme"]'


@dataclass(frozen=True, slots=True)
class Grant:
    """Who may use a secret: kinds by their names or patterns (None: every kind that code defines), and tenants by their
    names or ids ("*": all). A connector sends it only to these hosts, over https (`*.example` is every host below
    example), and in clear text only to loopback and to those that begin with `http://`."""

    kinds: tuple[str, ...] | None = None
    tenants: tuple[str, ...] = _DEFAULT
    hosts: tuple[str, ...] = ()


def read(section: Any, where: str) -> dict[str, Grant]:
    """The grants by name or pattern of their secrets; raises `ConfigError`."""
    if not isinstance(section, Mapping):
        raise ConfigError(f"{where}: secrets = {section!r} is not a table: write {_EXAMPLE}")
    return {name: _grant(name, given, where) for name, given in section.items()}


def _grant(name: str, given: Any, where: str) -> Grant:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {name} = {given!r} under [secrets] is not a table: write {_EXAMPLE}")
    if not _NAME.match(name):
        raise ConfigError(f"{where}: [secrets.{name}] is neither the name of a variable nor a pattern like SMTP_*")
    for key in given:
        if key not in _KEYS:
            raise ConfigError(f"{where}: {key!r} is not known in [secrets.{name}]: it has {', '.join(_KEYS)}")
    kinds = _names(given.get("kinds"), _KIND, f"{where}: [secrets.{name}] kinds")
    tenants = _names(given.get("tenants"), _TENANT, f"{where}: [secrets.{name}] tenants")
    hosts = _names(given.get("hosts"), _HOST, f"{where}: [secrets.{name}] hosts")
    return Grant(kinds, _DEFAULT if tenants is None else tenants, hosts or ())


def _names(given: Any, fits: re.Pattern[str], what: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise ConfigError(f'{what} = {given!r} is not a list: give ["name", …], or ["*"] for all')
    for each in given:
        if not isinstance(each, str) or not fits.match(each):
            raise ConfigError(f"{what}: {each!r} is not a name")
    return tuple(given)
