"""connector.http.request: one HTTP request as a job, tried again as its answer says."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

import msgspec

from headway.connectors.exchange import Answer, Exchanges, Headers, Request
from headway.connectors.kind import ConnectorKind, Resources
from headway.define.context import Context
from headway.define.enqueuer import Binding
from headway.define.toml_table import Table
from headway.errors import ArtifactsUnavailable, ConnectorFailed, InvalidArtifact, InvalidJob, InvalidPayload
from headway.model.artifact import Artifact, checked_type
from headway.model.codec import encode
from headway.model.connector import HTTP, MOST_REDIRECTS, check_headers, check_options
from headway.model.connector import Connector as Config
from headway.model.duration import to_ms
from headway.model.http_url import HttpUrl, read_url
from headway.secrets import exposed, first_reference, is_reference
from headway.shell import command

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BODIES = ("json", "form", "text", "base64")
KEPT_HEADERS = ("content-type", "etag", "last-modified", "link", "location", "x-request-id")
BODY_FILE = "response"
"""The name of the artifact that `keep: "artifact"` stores."""
_TRY_AGAIN = (408, 425, 429)
_SAFE = ("GET", "HEAD", "OPTIONS")  # they only read
_LONGEST_DELAY_S = 86_400.0
_MOST_RESPONSE = 10_485_760
_SECRET_HEADERS = frozenset({"authorization", "cookie"})
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


class Connector(ConnectorKind):
    connector = "http.request"
    about = "Send an HTTP request"
    keys = ("max_response",)
    defaults: ClassVar[Mapping[str, Any]] = {"timeout": "5m30s"}  # longer than any request
    payload_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "url": {**_TEXT, "maxLength": 4096},
            "config": {**_TEXT, "maxLength": 128},
            "path": {**_TEXT, "maxLength": 4096},
            "method": {"enum": list(METHODS)},
            "headers": {"type": "object"},
            "query": _TEXTS,
            "json": {},
            "form": {"type": "object"},
            "text": _TEXT,
            "base64": _TEXT,
            "timeout": {"type": ["string", "number"]},
            "expect": {"type": "array", "items": {"type": "integer", "minimum": 100, "maximum": 599}},
            "max_response": {"type": "integer", "minimum": 0, "maximum": _MOST_RESPONSE},
            "keep": {"enum": ["auto", "json", "text", "artifact", "none"]},
            "keep_headers": {"type": "array", "items": _TEXT, "maxItems": 50},
            "redirects": {"type": "integer", "minimum": 0, "maximum": MOST_REDIRECTS},
            "idempotency_key": {"type": ["boolean", "string"], "maxLength": 255},
            "fence": {"type": "boolean"},
        },
        "oneOf": [{"required": ["url"]}, {"required": ["config"]}],
    }

    def __init__(self, table: Table, resources: Resources, *, binding: Binding | None = None) -> None:
        super().__init__(table, resources, binding=binding)
        self._exchanges = Exchanges(resources.networks)
        self._max_response = table.size("max_response", "256KB") or 0

    def check_fields(self, fields: dict[str, Any]) -> None:
        if "url" in fields:
            read_url(fields["url"])
            if "path" in fields:
                raise InvalidJob("path goes with config: give the whole url, or a config and a path")
        elif "path" in fields:
            HttpUrl("https", "a.example", 443, "").with_path(fields["path"])
        check_headers(fields.get("headers", {}))
        check_options(HTTP, {name: fields[name] for name in ("timeout", "expect", "redirects") if name in fields})
        given = [name for name in BODIES if name in fields]
        if len(given) > 1:
            raise InvalidJob(f"a request has one body: give one of {', '.join(given)}")
        if given and fields.get("method", "POST") in ("GET", "HEAD"):
            raise InvalidJob(f"a {fields['method']} has no body: leave out {given[0]}, or give a method")
        if isinstance(fields.get("idempotency_key"), str) and not fields["idempotency_key"].isprintable():
            raise InvalidJob("idempotency_key is not a text of one line")
        if "base64" in fields:
            _from_base64(fields["base64"])

    async def perform(self, ctx: Context, fields: dict[str, Any]) -> Any:
        config = await self._config(ctx, fields["config"]) if "config" in fields else None
        options = {} if config is None else config.options
        answer = await self._exchanges.send(self._request(ctx, fields, config))
        expected = {*fields.get("expect", ()), *options.get("expect", ())}
        if 200 <= answer.status < 300 or answer.status in expected:
            return await self._result(ctx, fields, answer)
        raise refused(answer)

    async def _config(self, ctx: Context, name: str) -> Config:
        store = self.resources.store()
        found = await store.arun(
            store.ops.connectors(None, tenant_id=ctx.claim.tenant_id, name=name, kind=None, limit=1, after=None)
        )
        if not found or found[0].kind != HTTP:
            raise ConnectorFailed(
                f'tenant {ctx.tenant} has no connector "{name}" for {HTTP}: headway connectors create, then '
                + command("jobs retry", ctx.job_id),
                retry=False,
            )
        if not found[0].enabled:
            raise ConnectorFailed(
                f'connector "{name}" is disabled{_why(found[0])}: '
                f"{command('connectors change', name, enable=True)}, then {command('jobs retry', ctx.job_id)}",
                retry=False,
            )
        return found[0]

    def _request(self, ctx: Context, fields: dict[str, Any], config: Config | None) -> Request:
        options = {} if config is None else config.options
        url = _url(fields, config)
        body, content_type = _body(ctx, fields, url)
        given = {**_own_headers(ctx, fields, content_type)}
        for name, value in [*({} if config is None else config.headers).items(), *fields.get("headers", {}).items()]:
            given = {each: kept for each, kept in given.items() if each.lower() != name.lower()} | {name: value}
        keep_none = fields.get("keep") == "none"
        most = fields.get("max_response", options.get("max_response", self._max_response))
        return Request(
            method=_method(fields),
            url=url,
            headers=lambda url, foreign: headers_for(ctx, given, url, foreign),
            body=body,
            has_secret_body=any(name in fields and first_reference(fields[name]) is not None for name in BODIES),
            timeout_s=to_ms(fields.get("timeout", options.get("timeout", "30s")), "timeout") / 1_000,
            max_response=0 if keep_none else most,
            redirects=fields.get("redirects", options.get("redirects", 0)),
        )

    async def _result(self, ctx: Context, fields: dict[str, Any], answer: Answer) -> dict[str, Any]:
        names = [name.lower() for name in fields.get("keep_headers", KEPT_HEADERS)]
        result: dict[str, Any] = {
            "status": answer.status,
            "headers": {name: value for name, value in answer.headers if name in names},
            "body": _kept_body(fields.get("keep", "auto"), answer),
            "truncated": answer.truncated and fields.get("keep") != "none",
            "url": str(answer.url),
            "redirects": answer.redirects,
            "timings": {"first_byte_ms": answer.first_byte_ms, "total_ms": answer.total_ms},
        }
        # the request was sent: it must not fail because its answer cannot be stored
        try:
            text = encode(result, limit=self.resources.result_limit, what="result")
        except InvalidPayload:
            result |= {"body": None, "truncated": True}
            text = encode(result, limit=_MOST_RESPONSE, what="result")
        keep_file = fields.get("keep") == "artifact"
        if exposed(text, ctx.keyring.given) is not None or (keep_file and _has_secret(answer.body, ctx.keyring.given)):
            # such as an API that repeats the token
            result |= {"body": None, "headers": {}, "url": None, "withheld": "the answer holds the value of a secret"}
        elif keep_file:
            kept = await _kept_file(ctx, fields, answer)
            result |= {"artifact": kept.id, "size": kept.size, "sha256": kept.sha256}
        return result


async def _kept_file(ctx: Context, fields: dict[str, Any], answer: Answer) -> Artifact:
    """Raises `ConnectorFailed` where it cannot be stored: the answer is known, so a request that may have changed
    something is not sent again by itself; one that only reads is."""
    try:
        return await ctx.aartifact(BODY_FILE, answer.body, content_type=_type_of_file(answer))
    except ArtifactsUnavailable as error:
        if _method(fields) in _SAFE:
            raise
        raise ConnectorFailed(
            f"{answer.url.authority} answered {answer.status}, but its answer could not be stored: {error}. It is not "
            f"sent again by itself; {command('jobs retry', ctx.job_id)} does that, with the same Idempotency-Key",
            retry=False,
        ) from error


def _method(fields: dict[str, Any]) -> str:
    return str(fields.get("method", "POST" if any(name in fields for name in BODIES) else "GET"))


def headers_for(ctx: Context, given: Mapping[str, Any], url: HttpUrl, foreign: bool) -> Headers:
    """The headers with their secrets, for this URL; those that hold one stay behind when a redirect leaves the first
    origin. Raises `SecretMissing`, `ConnectorFailed`."""
    made: Headers = []
    for name, value in given.items():
        parts = value if isinstance(value, list) else [value]
        is_secret = name.lower() in _SECRET_HEADERS or any(map(is_reference, parts))
        if foreign and is_secret:
            continue
        text = "".join(
            ctx.keyring.get_for_host(part["$secret"], url.scheme, url.host) if is_reference(part) else part
            for part in parts
        ).strip()
        try:
            text.encode("latin-1")
        except UnicodeEncodeError:
            text = "\n"
        if "\n" in text or "\r" in text or "\0" in text:
            raise ConnectorFailed(f"the header {name} would have more than one line, or no Latin text", retry=False)
        made.append((name, text))
    return made


def refused(answer: Answer) -> ConnectorFailed:
    """What an unsuccessful answer means for the job: 408, 425, 429 and 5xx are tried again, when the answer says so;
    any other is final."""
    said = answer.beginning()
    message = f"{answer.url.authority} answered {answer.status}" + (f": {said}" if said else "")
    if answer.status in _TRY_AGAIN or answer.status >= 500:
        return ConnectorFailed(message, delay_s=retry_after(answer.header("retry-after"), datetime.now(UTC)))
    return ConnectorFailed(message, retry=False)


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, at most a day; None without one that can be read."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value), _LONGEST_DELAY_S)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), _LONGEST_DELAY_S)


def _url(fields: dict[str, Any], config: Config | None) -> HttpUrl:
    url = read_url(fields["url"] if config is None else config.url)
    if "path" in fields:
        url = url.with_path(fields["path"])
    return url.with_query([(name, _shown(value)) for name, value in fields.get("query", {}).items()])


def _own_headers(ctx: Context, fields: dict[str, Any], content_type: str | None) -> dict[str, str]:
    made: dict[str, str] = {"traceparent": ctx.traceparent}
    if ctx.tracestate is not None:
        made["tracestate"] = ctx.tracestate
    key = fields.get("idempotency_key", True)
    if key is not False:
        made["Idempotency-Key"] = ctx.job_id if key is True else key
    if fields.get("fence", True):
        made["Headway-Fence"] = str(ctx.fence)
    if content_type is not None:
        made["Content-Type"] = content_type
    return made


def _body(ctx: Context, fields: dict[str, Any], url: HttpUrl) -> tuple[bytes | None, str | None]:
    def resolved(value: Any) -> Any:
        return ctx.keyring.resolve_for_host(value, url.scheme, url.host)

    if "json" in fields:
        return msgspec.json.encode(resolved(fields["json"])), "application/json"
    if "form" in fields:
        pairs = [(name, _shown(value)) for name, value in resolved(fields["form"]).items()]
        return urlencode(pairs).encode(), "application/x-www-form-urlencoded"
    if "text" in fields:
        return fields["text"].encode(), "text/plain; charset=utf-8"
    if "base64" in fields:
        return _from_base64(fields["base64"]), "application/octet-stream"
    return None, None


def _has_secret(body: bytes, secrets: Mapping[str, str]) -> bool:
    """Whether bytes hold the value of a secret as they are or, if they are JSON, in one of its strings."""
    text = body.decode("utf-8", "replace")
    if exposed(msgspec.json.encode(text).decode(), secrets) is not None:
        return True
    try:
        return exposed(text, secrets) is not None
    except (msgspec.MsgspecError, RecursionError):
        return False


def _type_of_file(answer: Answer) -> str | None:
    given = answer.header("content-type")
    try:
        return None if given is None else checked_type(given, BODY_FILE)
    except InvalidArtifact:
        return None  # a service may say anything; its bytes are kept anyway


def _kept_body(keep: str, answer: Answer) -> Any:
    if keep in ("none", "artifact"):
        return None
    is_json = "json" in (answer.header("content-type") or "").partition(";")[0]
    if keep == "json" or (keep == "auto" and is_json and not answer.truncated):
        try:
            value = msgspec.json.decode(answer.body)
            encode(value, limit=_MOST_RESPONSE, what="body")
            return value
        except (msgspec.MsgspecError, InvalidPayload, RecursionError):
            if keep == "json":
                raise ConnectorFailed(
                    f"{answer.url.authority} answered {answer.status}, but not with JSON: {answer.beginning()}",
                    retry=False,
                ) from None
    # no store can hold NUL
    return answer.body.decode("utf-8", "replace").replace("\0", "�")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidJob("base64 holds what is not base64") from None


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _why(config: Config) -> str:
    return f" ({config.disabled_reason})" if config.disabled_reason else ""
