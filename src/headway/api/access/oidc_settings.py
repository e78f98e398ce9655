"""The settings of the OIDC issuer: the section [oidc] of headway.toml, and HEADWAY_OIDC_* variables."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args
from urllib.parse import urlsplit

from headway.config import OIDC_NAMES
from headway.errors import ConfigError
from headway.model.access import Role

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""With public keys only: a token that is signed with a shared secret could be signed by everybody who checks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Whose tokens are accepted, and what their claims mean."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    tenant_claim: str = "tenant"
    role_claim: str = "role"
    roles: Mapping[str, Role] | None = None  # what the values of the role's claim mean; None: they are our roles
    superadmins: tuple[str, ...] = ()  # subjects
    client_id: str | None = None  # of this server at the issuer: browsers can log in
    client_secret: str | None = field(default=None, repr=False)


def oidc_settings(given: Mapping[str, Any]) -> OidcSettings | None:
    """Checked settings; None where there is no issuer. Raises `ConfigError`."""
    if not given:
        return None
    for name in given:
        if name not in OIDC_NAMES:
            close = difflib.get_close_matches(name, OIDC_NAMES, 1)
            hint = f": did you mean {close[0]!r}?" if close else f": its settings are {', '.join(OIDC_NAMES)}"
            raise ConfigError(f"[oidc] has no setting {name!r}{hint}")
    for name in ("issuer", "audience"):
        if not given.get(name):
            raise ConfigError(f"[oidc] needs {name}: tokens are accepted from one issuer, for one audience")
    values = dict(given)
    for name in ("issuer", "audience", "jwks_url", "tenant_claim", "role_claim", "client_id", "client_secret"):
        if name in values and (not isinstance(values[name], str) or not values[name]):
            raise ConfigError(f"oidc.{name}={values[name]!r} must be a text")
    for name in ("issuer", "jwks_url"):
        if name in values:
            check_url(name, values[name])
    for name in ("algorithms", "superadmins"):
        if name in values:
            values[name] = _texts(name, values[name])
    for each in values.get("algorithms", ()):
        if each not in ALGORITHMS:
            raise ConfigError(f"oidc.algorithms: {each!r} is not one of {', '.join(ALGORITHMS)}")
    if "roles" in values:
        values["roles"] = _roles(values["roles"])
    return OidcSettings(**values)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    texts = [each.strip() for each in value.split(",")] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(each, str) and each for each in texts):
        raise ConfigError(f"oidc.{name}={value!r} must be a list of texts")
    return tuple(texts)


def _roles(value: Any) -> dict[str, Role]:
    if isinstance(value, str):  # as in a variable: ops=operator,staff=viewer
        value = {name.strip(): role.strip() for name, _, role in (part.partition("=") for part in value.split(","))}
    allowed = tuple(role for role in get_args(Role) if role != "superadmin")
    if not isinstance(value, Mapping) or not all(role in allowed for role in value.values()):
        raise ConfigError(f"oidc.roles={value!r} must map values of the claim to {', '.join(allowed)}")
    return {str(name): cast(Role, role) for name, role in value.items()}


def check_url(name: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    try:
        if parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback:
            return
    except ValueError:
        pass
    raise ConfigError(f"oidc.{name}={url!r} must be an https URL: who can change what it says can log in as anybody")
