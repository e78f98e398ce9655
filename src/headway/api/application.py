"""The ASGI application: finds the route, checks who asks, decodes, calls the handler, encodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.api import chapters
from headway.api.access.callers import Callers
from headway.api.access.keys import Keys
from headway.api.access.noted import Noted
from headway.api.access.oidc_settings import OidcSettings, oidc_settings
from headway.api.access.places import SHARE, Place, Places
from headway.api.access.rates import BodyBytes, LargeBodies, Rates
from headway.api.access.sessions import Sessions
from headway.api.access.tenants import Tenants, check_role
from headway.api.aside import Aside
from headway.api.call import Answer, Call, ServerParts
from headway.api.document import reference
from headway.api.document.openapi import document
from headway.api.enqueues import Enqueues
from headway.api.routes import PREFIX, SUPERADMINS, NoQuery, Route
from headway.api.routing import Endpoint, Router, sent_path
from headway.api.serving.database_watch import DatabaseWatch
from headway.api.serving.host import host_stops
from headway.api.serving.schema_watch import SchemaWatch
from headway.api.serving.settings import ServerSettings, server_settings
from headway.api.spans import begin_span, end_span
from headway.api.streams import Streams
from headway.api.wire.bodies import LARGE, decode_body, decode_query, read_body, read_upload
from headway.api.wire.exchange import Exchange
from headway.api.wire.problems import MEDIA_TYPE, Refused, problem_of
from headway.api.wire.replays import request_with_key
from headway.api.wire.views import LargeList
from headway.api.workers.gateway import Gateway
from headway.app import Headway
from headway.app.verbs import Verbs
from headway.errors import HeadwayError, StoreUnavailable
from headway.logs import get_logger
from headway.model.access import ApiKey
from headway.store.patience import comes_last
from headway.version import __version__
from headway.worker.watchdog import Watchdog

_log = get_logger("headway.api")
_READ_S = 10.0  # a read that takes longer is 503
_READY_S = 1.0
_USES_EVERY_S = 60.0
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PROBES = ("/healthz", "/readyz")  # asked by address, without a Host of ours; they reveal nothing
_UNTRACED = frozenset({*_PROBES, "/metrics"})  # asked every few seconds, by machines

_JSON = (b"content-type", b"application/json")
_encode = msgspec.json.Encoder().encode

_ROUTES = {(route.method, route.path): route for route in chapters.ROUTES}


class PeoplesPages(Protocol):
    """What answers every path but the API's own: the dashboard."""

    async def __call__(self, request: Request, path: str) -> Response: ...

    async def aclose(self) -> None: ...


class Api:
    """Headway over HTTP, as an ASGI application: to run behind a server, or to mount in another application."""

    def __init__(
        self,
        app: Headway,
        settings: ServerSettings | None = None,
        *,
        oidc: OidcSettings | None = None,
        site: Callable[[Api], PeoplesPages] | None = None,
    ) -> None:
        self.app = app
        self.settings = settings or server_settings(app._config.get("server", {}))
        self.stopping = asyncio.Event()
        self.keys = Keys(app)
        self._sessions = Sessions(app, self.keys, self.settings)
        self.noted = Noted(app)
        self._sessions.begun = self.noted.login
        self._callers = Callers(app, self.keys, self._sessions, oidc or oidc_settings(app._config.get("oidc", {})))
        self._workers = Gateway(app, __version__)
        self._streams = Streams()
        self._places = Places(SHARE[app.store.dialect])
        self._aside = Aside(self._places.has_others)
        self._parts = ServerParts(
            stopping=self.stopping,
            workers=self._workers,
            streams=self._streams,
            enqueues=Enqueues(app),
            callers=self._callers,
            sessions=self._sessions,
            noted=self.noted,
            aside=self._aside,
        )
        self._tenants = Tenants(app)
        self._watch = DatabaseWatch(app)
        self._schema = SchemaWatch(app)
        self._rates = Rates(self.settings)
        self._bytes = BodyBytes(self.settings)
        self._large = LargeBodies()
        self._uses: asyncio.Task[None] | None = None
        self._host: asyncio.Task[None] | None = None
        self._tending: asyncio.Task[None] | None = None
        self._watchdog: Watchdog | None = None
        self._described: tuple[str, dict[str, Any]] | None = None  # the OpenAPI document, for a root path
        self._site = None if site is None else site(self)
        self._router = Router()
        self._templates: dict[Endpoint, str] = {}
        _ = app._tracing  # where OpenTelemetry is wanted and missing, say so now
        self._add("GET", "/healthz", self._healthz)
        self._add("GET", "/readyz", self._readyz)
        self._add("GET", "/metrics", self._guarded(self._metrics))
        self._add("GET", f"{PREFIX}/openapi.json", self._for_callers(self._openapi))
        self._add("GET", f"{PREFIX}/docs", self._for_callers(self._docs))
        self._add("GET", f"{PREFIX}/login/oidc", self._oidc("begin"))
        self._add("GET", f"{PREFIX}/login/oidc/callback", self._oidc("end"))
        for route in chapters.ROUTES:
            self._add(route.method, PREFIX + route.path, self._endpoint(route))

    def _add(self, method: str, path: str, endpoint: Endpoint) -> None:
        self._router.add(method, path, endpoint)
        self._templates[endpoint] = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._not_http(scope, receive, send)
            return
        if self._uses is None:  # a host that mounts this may not run its lifespan
            self._begin()
        root_path = scope.get("root_path", "")
        path = sent_path(scope).removeprefix(root_path)  # not every host has it there
        if self.settings.prefix or scope.get("root_path") != "":  # else it is right as it is, and copying it costs
            scope = {
                **scope,
                "root_path": root_path + self.settings.prefix,
                "path": root_path + scope["path"].removeprefix(root_path),
            }
        request = Request(scope, receive)
        exchange = Exchange(scope, send)
        tracing = self.app._tracing
        traced = tracing is not None and path.removeprefix(self.settings.prefix) not in _UNTRACED
        span = begin_span(tracing, scope, exchange) if tracing is not None and traced else None
        try:
            response = await self._respond(request, exchange, path)
            await response(scope, receive, exchange.send)
        finally:
            if span is not None:
                end_span(span, exchange)
            exchange.log()

    async def aclose(self) -> None:
        """Store what is not stored yet. A host that runs no lifespan calls this at its end."""
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None
        if self._uses is not None:
            self._uses.cancel()
            self._uses = None
        if self._host is not None:
            self._host.cancel()
            self._host = None
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait([self._tending])  # else what it starts last would not be stopped below
            self._tending = None
        if self._site is not None:
            await self._site.aclose()
        await self._streams.aclose()
        await self._workers.aclose()
        await self._watch.aclose()
        await self._try_store_uses()

    async def _not_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await send({"type": "websocket.close", "code": 1000})
            return
        await receive()
        self._begin()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, request: Request, exchange: Exchange, path: str) -> Response:
        if not path.startswith(f"{self.settings.prefix}/"):
            below = Refused(404, "there is no such path", fix=f"everything here is below {self.settings.prefix}/")
            return self._problem(below, exchange)
        path = path.removeprefix(self.settings.prefix)
        if path not in _PROBES and not exchange.asks_one_of(self.settings.hosts):
            return self._problem(_unknown_host(request), exchange)
        if self._site is not None and not path.startswith(("/api/", "/metrics", *_PROBES)):
            return await self._site(request, request.scope["path"].removeprefix(request.scope["root_path"]))
        endpoint, request.scope["path_params"], methods = self._router.find(request.method, path)
        if endpoint is None and methods:
            allowed = {"Allow": ", ".join(sorted(methods))}
            return self._problem(Refused(405, "this path has no such method", headers=allowed), exchange)
        if endpoint is None:
            return self._problem(_no_path(path), exchange)
        exchange.route = request.scope["root_path"] + self._templates[endpoint]
        return await endpoint(request)

    def _begin(self) -> None:
        if self._uses is None:
            self._uses = asyncio.create_task(self._write_uses())
            self._host = asyncio.create_task(self._stop_with_host())
            if self.settings.tick:
                self._tending = asyncio.create_task(self._workers.tend())
            _ = self.app._is_observed  # by OpenTelemetry, from now on
            _ = self.app._exporter  # which counts
            self._watchdog = Watchdog(metrics=self.app._worker_metrics)
            self._watchdog.start()

    async def _write_uses(self) -> None:
        while True:
            await asyncio.sleep(_USES_EVERY_S)
            await self._try_store_uses()

    async def _stop_with_host(self) -> None:
        await host_stops()
        self.stopping.set()

    async def _try_store_uses(self) -> None:
        try:
            await self.keys.write_uses()
            await self._sessions.write_uses()
            await self.noted.store()
        except HeadwayError as error:
            _log.warning("uses of keys and sessions, or the audit of requests, were not stored", error=str(error))

    def _guarded(self, answer: Endpoint) -> Endpoint:
        """The same; what it raises becomes a problem, and a silent database is 503."""

        async def endpoint(request: Request) -> Response:
            try:
                async with self._watch.request():
                    return await answer(request)
            except Exception as error:
                return self._problem(error, Exchange.of(request))

        return endpoint

    def _endpoint(self, route: Route) -> Endpoint:
        async def answer(request: Request) -> Response:
            if self._schema.is_due:
                await self._schema.check()
            exchange = Exchange.of(request)
            sent = exchange.sent
            key = await self.counted_caller(request)
            with self.noted.refusals(route, key, exchange):
                check_role(key, route.roles)
                _refuse_nul(request.scope["path_params"])
                verbs = await self._tenants.verbs(key, sent.get("headway-tenant"))
                exchange.tenant_id = verbs.tenant_id
                self.noted.looked(route, key, verbs.tenant_id, exchange)
                size = 0 if route.upload else self._counted_size(route, exchange, verbs.tenant_id)
                async with self._large.turn(verbs.tenant_id, size):
                    body = b"" if route.upload else await self._read(request, route, verbs.tenant_id, size)
                    return await self._answered(route, request, sent, key, verbs, body)

        return self._guarded(answer)

    async def _answered(
        self, route: Route, request: Request, sent: Mapping[str, str], key: ApiKey, verbs: Verbs, body: bytes
    ) -> Response:
        query = request.query_params.multi_items() if request.scope["query_string"] else []
        async with self._places.taken(verbs.tenant_id, _sort(route)) as place:
            call = await self._call(route, request, sent, key, verbs, place, request.path_params, query, body)
            comes_last.set(len(body) > LARGE)  # it has this request's task to itself
            answer = await _within(route, call)
            return await asyncio.to_thread(_large_response, answer) if type(answer) is LargeList else _response(answer)

    def _counted_size(self, route: Route, exchange: Exchange, tenant_id: str | None) -> int:
        """The size that the body is said to have, 0 if none is said; counts in the tenant's budget."""
        declared = exchange.sent.get("content-length", "")
        size = int(declared) if declared.isdecimal() and len(declared) < 12 else 0
        if size > route.limit:
            return 0  # it is refused without being read
        self._bytes.take(tenant_id, size)
        return size

    async def _read(self, request: Request, route: Route, tenant_id: str | None, size: int) -> bytes:
        body = await read_body(request, route.limit)
        if not size:
            self._bytes.take(tenant_id, len(body))
        return body

    async def caller(self, request: Request) -> ApiKey:
        """Who asks, with their rights, in the shape of a key; raises `Refused`."""
        exchange = Exchange.of(request)
        with self.noted.strangers(exchange, sent="authorization" in exchange.sent or "cookie" in exchange.sent):
            key = await self._callers.check(request)
        exchange.key_id, exchange.tenant_id = key.id, key.tenant_id
        return key

    async def counted_caller(self, request: Request) -> ApiKey:
        """The same, for a request that counts in the rates of its key and tenant; raises `Refused` with 429, too."""
        key = await self.caller(request)
        Exchange.of(request).headers += self._rates.take(key=key.id, tenant=key.tenant_id)
        return key

    def route(self, method: str, path: str) -> Route:
        return _ROUTES[method, path]

    async def ask(
        self,
        request: Request,
        key: ApiKey,
        method: str,
        path: str,
        *,
        params: Mapping[str, str],
        query: list[tuple[str, str]],
        body: Any,
        tenant: str | None,
        headers: Mapping[str, str],
    ) -> Any:
        """What the route of this path answers to the holder of the key: for the pages, which can do no more than it."""
        route = self.route(method, path)
        with self.noted.refusals(route, key, exchange := Exchange.of(request)):
            check_role(key, route.roles)
            _refuse_nul(params)
            verbs = await self._tenants.verbs(key, tenant)
            self.noted.looked(route, key, verbs.tenant_id, exchange)
            encoded = b"" if body is None else msgspec.json.encode(body)
            sent = {"content-type": "application/json", **headers}  # what a browser sends is about the page
            async with self._watch.request(), self._places.taken(verbs.tenant_id, _sort(route)) as place:
                call = await self._call(route, request, sent, key, verbs, place, params, query, encoded)
                return await _within(route, call)

    async def log_in(self, request: Request, key: str) -> tuple[ApiKey, str]:
        """Begin a session of the key with this text; gives the cookie to set, too. Raises `Refused`."""
        with self.noted.strangers(exchange := Exchange.of(request), sent=True):
            found = await self.keys.check(f"Bearer {key}", exchange.address)
        _, cookie = await self._sessions.begin(request, found)
        return found, cookie

    async def log_out(self, request: Request) -> str:
        """End the session of the request; gives the cookie to set."""
        return await self._sessions.end(request)

    async def _call(
        self,
        route: Route,
        request: Request,
        sent: Mapping[str, str],
        key: ApiKey,
        verbs: Verbs,
        place: Place,
        params: Mapping[str, str],
        query: list[tuple[str, str]],
        body: bytes,
    ) -> Call[Any, Any]:
        exchange = Exchange.of(request)
        return Call(
            app=self.app,
            verbs=verbs,
            key=key,
            params=params,
            query=decode_query(query, route.query or NoQuery) if query or route.query is not None else None,
            body=await self._body(body, sent.get("content-type"), route, verbs.tenant_id),
            headers=sent,
            request_id=exchange.request_id,
            address=exchange.address,
            server=self._parts,
            http=request,
            place=place,
            size=len(body),
            upload=read_upload(request, route.limit) if route.upload else None,
            request=request_with_key(request, body, verbs, key)
            if route.creates and "idempotency-key" in sent
            else None,
        )

    async def _body(self, body: bytes, content_type: str | None, route: Route, tenant_id: str | None) -> Any:
        if route.body is not None:
            decode = partial(decode_body, body, content_type, route.body, quotes=route.quotes)
            return decode() if len(body) <= LARGE else await self._aside.run(tenant_id, decode)
        if body.strip() not in (b"", b"{}"):
            raise Refused(422, "this takes no body")
        return None

    @property
    def has_oidc_login(self) -> bool:
        """Whether browsers can log in with the issuer, at /login/oidc."""
        return self._callers.login is not None

    def _oidc(self, step: Literal["begin", "end"]) -> Endpoint:
        """A browser on its way to the issuer, or back: it has no key yet."""

        async def answer(request: Request) -> Response:
            login = self._callers.login
            if login is None:
                raise Refused(
                    404, "browsers cannot log in here", fix="set issuer and client_id in [oidc] of headway.toml"
                )
            return await (login.begin if step == "begin" else login.end)(request)

        return self._guarded(answer)

    def _for_callers(self, describe: Callable[[Request], Response]) -> Endpoint:
        """Readable with any key, session or token, and not without one. Made in a thread: it takes a while."""

        async def answer(request: Request) -> Response:
            await self.caller(request)
            return await self._aside.run(None, partial(describe, request))

        return self._guarded(answer)

    def _problem(self, error: Exception, exchange: Exchange) -> Response:
        request_id = exchange.request_id
        problem, headers = problem_of(error, request_id, below=exchange.root_path)
        if problem.status == 500:
            _log.error("a request failed", request_id=request_id, exc_info=error)
        elif problem.status == 503:
            _log.warning(f"a request was answered 503: {type(error).__name__}", request_id=request_id, error=str(error))
        return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)

    async def _healthz(self, _: Request) -> Response:
        return _response({"status": "up"})

    async def _metrics(self, request: Request) -> Response:
        """For Prometheus, with the key of a super admin: it covers every tenant."""
        check_role(await self.caller(request), SUPERADMINS)
        return Response(await asyncio.to_thread(self.app.metrics), 200, media_type=_METRICS_TYPE)

    async def _readyz(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(_READY_S):
                await self.app.store.arun(self.app.store.ops.tenants([]))
                await self._schema.check()
        except (HeadwayError, TimeoutError) as error:
            away = StoreUnavailable(f"the database is not ready: {error}")
            return self._problem(away, Exchange.of(request))
        return _response({"status": "ready"})

    def _document(self, request: Request) -> dict[str, Any]:
        # kept, because it takes a while to make
        root_path = request.scope.get("root_path", "")
        if self._described is None or self._described[0] != root_path:
            self._described = (root_path, document(chapters.ROUTES, root_path))
        return self._described[1]

    def _docs(self, request: Request) -> Response:
        page = reference.page(self._document(request))
        headers = {"Content-Security-Policy": reference.CONTENT_SECURITY_POLICY}
        return Response(page, 200, headers, "text/html")

    def _openapi(self, request: Request) -> Response:
        return _response(self._document(request))


def _refuse_nul(params: Mapping[str, str]) -> None:
    for value in params.values():
        if "\0" in value:
            raise Refused(404, "no name or id holds a NUL character")


def _no_path(path: str) -> Refused:
    fix = "leave out the slash at its end" if path.endswith("/") else ""
    return Refused(404, "there is no such path", fix=fix)


def _unknown_host(request: Request) -> Refused:
    return Refused(
        400,
        f"this server is not known as {request.headers.get('host', '')!r}",
        code="UnknownHost",
        fix="add the name to hosts in the section [server] of headway.toml, or to HEADWAY_SERVER_HOSTS",
    )


def _sort(route: Route) -> str:
    """Which requests take equally long, more or less; "" for those whose clients say how long, and for heartbeats,
    which must not come late."""
    if route.upload or route.file or route.path.endswith("/heartbeat"):
        return ""
    return f"{route.method} {route.path}"


async def _within(route: Route, call: Call[Any, Any]) -> Any:
    """The handler's answer; a read that takes too long is refused with 503."""
    if route.method != "GET" or route.waits:
        return await route.handler(call)
    try:
        async with asyncio.timeout(_READ_S):
            return await route.handler(call)
    except TimeoutError:
        raise StoreUnavailable(f"the database did not answer within {_READ_S:.0f} s") from None


def _large_response(answer: LargeList) -> Response:
    """Item by item, and each is freed here: all of them at once would hold up the event loop, in whose hands they are
    left otherwise."""
    for index, item in enumerate(answer.items):
        answer.items[index] = msgspec.Raw(_encode(item))
    return _response(answer)


def _response(answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    status, body = 200, answer
    headers: Mapping[str, str] = {}
    if isinstance(answer, Answer):
        status, headers, body = answer.status, answer.headers, answer.body
    return _JsonResponse(b"" if status == 204 else _encode(body), status, headers)


class _JsonResponse(Response):
    """As Starlette would make it, at a third of the cost: every request has one."""

    media_type = "application/json"

    def __init__(self, content: bytes, status: int, headers: Mapping[str, str]) -> None:
        self.status_code = status
        self.background = None
        self.body = content
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
        ]
        if status != 204:
            self.raw_headers.append((b"content-length", b"%d" % len(content)))
        self.raw_headers.append(_JSON)
