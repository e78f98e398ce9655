"""URLs for people: without passwords, wherever a URL may have one, even in badly written URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from headway.secrets import redaction
from headway.secrets.names import is_secret_variable
from headway.secrets.values import Known

HIDDEN = "…"

_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^?#]*)(.*)\Z", re.DOTALL)
_CARELESS = re.compile(r"\A([^\s=:@]*):\S*@")  # without its scheme
_PAIR = re.compile(r"([?&;#])([^=&;#]*)=([^&;#]*)")


def show_url(url: str) -> str:
    """The URL without the user's password and without parameters whose name says that they are secret.

    >>> show_url("postgresql://app:kj%3Ah4@db/main?sslmode=require&password=kj3h4")
    'postgresql://app:…@db/main?sslmode=require&password=…'
    """
    found = _PARTS.match(url)
    if found is None:
        shown = redaction.redact(url, Known())  # such as host=db password=…
        return _CARELESS.sub(rf"\1:{HIDDEN}@", shown)
    scheme, authority, rest = found.groups()
    user, at, host = authority.rpartition("@")
    if not at and "@" in rest and ":" in authority.partition("/")[0] and not _is_port(authority):
        # the password itself has a question mark or a hash
        user, _, _ = authority.partition(":")
        return f"{scheme}{user}:{HIDDEN}@{_without_pairs(rest.rpartition('@')[2])}"
    name, _, password = user.partition(":")
    if password:
        user = f"{name}:{HIDDEN}"
    return f"{scheme}{user}{at}{host}{_without_pairs(rest)}"


def url_secrets(url: str) -> Iterator[str]:
    """Every secret text of this URL that a driver's error may show, escaped and unescaped."""
    found = _PARTS.match(url)
    if found is None:
        return
    _, authority, rest = found.groups()
    userinfo, _, host = authority.rpartition("@")
    user, _, password = userinfo.partition(":")
    if unquote(password) not in (unquote(user), unquote(host.partition("/")[2])):  # else it is not a secret
        # drivers end the password at the first @ or slash that is not escaped, and show what follows as a host
        for piece in {password, *re.split("[@/]", password)}:
            yield piece
            yield unquote(piece)
    for _, name, value in _PAIR.findall(rest):
        if _is_secret(name):
            yield value
            yield unquote(value)


def _without_pairs(rest: str) -> str:
    return _PAIR.sub(lambda pair: f"{pair[1]}{pair[2]}={HIDDEN}" if _is_secret(pair[2]) and pair[3] else pair[0], rest)


def _is_secret(name: str) -> bool:
    return is_secret_variable(unquote(name))


def _is_port(authority: str) -> bool:
    return authority.partition("/")[0].rpartition(":")[2].isdigit()
