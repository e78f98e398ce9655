"""HttpUrl: a URL read strictly, so that no two readers can disagree about the host that it names."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import NoReturn
from urllib.parse import quote, urlencode, urljoin

import msgspec

from headway.errors import InvalidJob

LONGEST = 4_096
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?\Z", re.IGNORECASE | re.DOTALL)
# every other character has another meaning to some reader: control characters, spaces, backslashes
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_PORTS = {"http": 80, "https": 443}
# as they are: what a path or a query may hold, and escapes
_SAFE = "/:@!$&'()*+,;=-._~%"


class HttpUrl(msgspec.Struct, frozen=True):
    """`host` is in lower case: a name, an IPv4 address, or an IPv6 address without brackets."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""  # with its question mark

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        return (self.path or "/") + self.query

    @property
    def origin(self) -> tuple[str, str, int]:
        return (self.scheme, self.host, self.port)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def with_path(self, path: str) -> HttpUrl:
        """The URL below this one: `path` is appended, and cannot name another host. Raises `InvalidJob`."""
        if not isinstance(path, str) or not path.startswith("/") or path.startswith("//"):
            raise InvalidJob(f"path={path!r} does not start with one slash: give one like /v1/charges")
        if any(step in (".", "..") for step in re.split(r"[/\\]|%2f|%5c", _dots(path.partition("?")[0]))):
            raise InvalidJob(f"path={path!r} has . or .. in it: write the path that it means")
        if "#" in path:
            raise InvalidJob(f"path={path!r} has a # in it: escape it as %23")
        query = "" if not self.query else f"&{self.query[1:]}" if "?" in path else self.query
        return read_url(f"{self.scheme}://{self.authority}{self.path.rstrip('/')}{path}{query}")

    def with_query(self, query: list[tuple[str, str]]) -> HttpUrl:
        added = urlencode(query)
        if not added:
            return self
        return msgspec.structs.replace(self, query=f"{self.query}&{added}" if self.query else f"?{added}")

    def redirected(self, location: str) -> HttpUrl:
        """Where this Location header leads; raises `InvalidJob`."""
        if _FORBIDDEN.search(location):
            _refuse(location, "it has a control character, a space or a backslash")
        return read_url(urljoin(str(self), location))


def read_url(text: object) -> HttpUrl:
    """Raises `InvalidJob` for what is not an http or https URL, or may be read in two ways."""
    if not isinstance(text, str) or not text or len(text) > LONGEST:
        raise InvalidJob(f"the URL is not a text of 1 to {LONGEST:,} characters")
    if _FORBIDDEN.search(text):
        _refuse(text, "it has a control character, a space or a backslash")
    found = _URL.match(text)
    if found is None:
        _refuse(text, "it does not start with https:// or http://")
    scheme, authority, path, query = found[1].lower(), found[2], found[3], found[4] or ""
    if "@" in authority:
        _refuse(text, "it holds a user or password: give credentials as a header with a reference to a secret")
    host, port = _host_and_port(text, authority)
    return HttpUrl(scheme, _host(text, host), _port(text, port, scheme), quote(path, _SAFE), quote(query, _SAFE + "?"))


def _host_and_port(text: str, authority: str) -> tuple[str, str | None]:
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            _refuse(text, "its IPv6 address is not closed by ]")
        return host + "]", rest[1:] if rest else None
    host, colon, port = authority.partition(":")
    return host, port if colon else None


def _host(text: str, host: str) -> str:
    if host.startswith("["):
        try:
            address = IPv6Address(host[1:-1])
        except ValueError:
            _refuse(text, f"{host} is no IPv6 address")
        if address.scope_id is not None:
            _refuse(text, f"{host} names an interface of this machine")
        return str(address)
    if not host.isascii():
        _refuse(text, "its host is not ASCII: write it as the name system does, as in xn--bcher-kva.example")
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.match(labels[-1]):
        # readers differ about 127.1, 0177.0.0.1, 0x7f000001 and 2130706433: only the plain form is taken
        try:
            return str(IPv4Address(name))
        except ValueError:
            _refuse(text, f"{host} is no IPv4 address of four decimal numbers")
    if len(name) > 253 or not all(_LABEL.match(label) for label in labels):
        _refuse(text, f"{host!r} is no host name")
    return name


def _port(text: str, port: str | None, scheme: str) -> int:
    if port is None:
        return _PORTS[scheme]
    if not (port.isascii() and port.isdigit()) or len(port) > 5 or not 1 <= int(port) <= 65_535:
        _refuse(text, f"{port!r} is no port")
    return int(port)


def _dots(path: str) -> str:
    return re.sub("%2e", ".", path, flags=re.IGNORECASE).lower()


def _refuse(text: str, reason: str) -> NoReturn:
    raise InvalidJob(f"the URL {text[:100]!r} cannot be used: {reason}")
