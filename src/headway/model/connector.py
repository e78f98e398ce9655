"""Connector configurations: where a connector's requests go and what they carry, under a name of a tenant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from headway.errors import InvalidJob
from headway.model.duration import to_ms
from headway.model.event import check_pattern, covers
from headway.secrets import is_reference, is_secret_name

HTTP = "connector.http.request"
WEBHOOK = "connector.webhook.deliver"
KINDS = (HTTP, WEBHOOK)
LONGEST_NAME = 80
"""A webhook endpoint's triggers are named after it and after the event."""
MOST_EVENTS = 50
MOST_REDIRECTS = 5
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]*\Z")
# the client's own, or one that would change where the request ends or who it comes from
_OWN_HEADERS = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"),
        *("expect", "proxy-authorization", "proxy-connection", "webhook-id", "webhook-timestamp", "webhook-signature"),
    )
)
_OPTIONS = {
    HTTP: ("timeout", "max_response", "redirects", "expect"),
    WEBHOOK: ("timeout", "ordered", "signatures"),
}


class NewConnector(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration to be stored: a row's worth of values, already checked."""

    id: str
    tenant: str = "default"
    tenant_id: str
    name: str
    kind: str
    url: str
    headers: str = "{}"  # JSON text: a text, a reference to a secret, or a list of these, by header
    options: str = "{}"  # JSON text
    events: str = "[]"  # JSON text: the events that become deliveries
    description: str = ""
    enabled: bool = True
    created_by: str | None = None


class Connector(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration as it is stored; it holds no secret, only the names of secrets."""

    id: str
    tenant_id: str
    tenant: str
    name: str
    kind: str
    url: str
    headers: dict[str, Any]
    options: dict[str, Any]
    events: list[str]
    description: str
    enabled: bool
    disabled_reason: str | None  # why Headway disabled it
    secret_version: int  # of a webhook endpoint: its secret is derived from this
    old_secret_ends_at: datetime | None  # until then the secret before signs, too
    revision: int
    created_by: str | None
    created_at: datetime
    updated_at: datetime


class ConnectorChange(msgspec.Struct, frozen=True, kw_only=True):
    """What `change_connector` sets; UNSET leaves it as it is. Every change counts the revision up."""

    of_revision: int | msgspec.UnsetType = msgspec.UNSET  # refused where the row has another one by now
    name: str | msgspec.UnsetType = msgspec.UNSET
    url: str | msgspec.UnsetType = msgspec.UNSET
    headers: str | msgspec.UnsetType = msgspec.UNSET
    options: str | msgspec.UnsetType = msgspec.UNSET
    events: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET
    disabled_reason: str | msgspec.UnsetType | None = msgspec.UNSET
    secret_version: int | msgspec.UnsetType = msgspec.UNSET
    old_secret_ends_at: datetime | msgspec.UnsetType | None = msgspec.UNSET


def check_headers(headers: object) -> dict[str, Any]:
    """Headers as people give them: a text, a reference to a secret, or a list of these that is joined. Raises
    `InvalidJob`, also for a secret that is written out."""
    if not isinstance(headers, Mapping) or len(headers) > 100:
        raise InvalidJob(f"headers={headers!r} is not a mapping of at most 100 headers")
    checked: dict[str, Any] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER.match(name):
            raise InvalidJob(f"{name!r} is not the name of a header")
        if name.lower() in _OWN_HEADERS or name.lower() in map(str.lower, checked):
            raise InvalidJob(f"the header {name} is set by Headway, or given twice: take it away")
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if not (isinstance(part, str) and len(part) <= 4_096 and _VALUE.match(part)) and not is_reference(part):
                raise InvalidJob(
                    f"the header {name} is neither a text of one line, nor a reference to a secret, "
                    '{"$secret": "NAME"}, nor a list of these'
                )
        if _is_secret(name) and not any(map(is_reference, parts)):
            raise InvalidJob(
                f"the header {name} holds a secret, and secrets are not stored: give a reference to a variable of the "
                'worker\'s environment, {"$secret": "NAME"} or ["Bearer ", {"$secret": "NAME"}]'
            )
        checked[name] = value
    return checked


def check_options(kind: str, options: object) -> dict[str, Any]:
    """The limits of a configuration; raises `InvalidJob`."""
    known = _OPTIONS[kind]
    if not isinstance(options, Mapping):
        raise InvalidJob(f"options={options!r} is not a mapping")
    for name, value in options.items():
        match name:
            case _ if name not in known:
                raise InvalidJob(f"{kind} has no option {name}: it takes {', '.join(known)}")
            case "timeout" if not 1 <= to_ms(value, name) <= 300_000:
                raise InvalidJob(f"timeout={value!r} is not from 1 ms to 5 minutes")
            case "max_response" if not _is_whole(value, 0, 10_485_760):
                raise InvalidJob(f"max_response={value!r} is not from 0 to 10,485,760 bytes")
            case "redirects" if not _is_whole(value, 0, MOST_REDIRECTS):
                raise InvalidJob(f"redirects={value!r} is not from 0 to {MOST_REDIRECTS}")
            case "expect" if not (isinstance(value, list) and all(_is_whole(each, 100, 599) for each in value)):
                raise InvalidJob(f"expect={value!r} is not a list of statuses")
            case "ordered" if not isinstance(value, bool):
                raise InvalidJob(f"ordered={value!r} is not true or false")
            case "signatures" if value not in (["v1"], ["v1a"], ["v1", "v1a"], ["v1a", "v1"]):
                raise InvalidJob(f"signatures={value!r} is not a list of v1 (HMAC-SHA256) and v1a (ed25519)")
    return dict(options)


def check_patterns(kind: str, events: object) -> list[str]:
    """The patterns of events that an endpoint gets, without those that another one covers; raises `InvalidJob`."""
    if not isinstance(events, list | tuple) or len(events) > MOST_EVENTS:
        raise InvalidJob(f"events={events!r} is not a list of at most {MOST_EVENTS} events")
    if events and kind != WEBHOOK:
        raise InvalidJob(f"{kind} takes no events: only {WEBHOOK} does")
    for event in events:
        check_pattern(event)
    return [each for each in dict.fromkeys(events) if not any(o != each and covers(o, each) for o in events)]


def _is_secret(header: str) -> bool:
    return header.lower() in ("authorization", "cookie") or is_secret_name(header)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
