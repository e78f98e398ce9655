"""The dashboard as a part of the server: finds the page, asks who visits, and answers with HTML."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from headway.api import Api
from headway.api.access.sessions import is_same_origin
from headway.api.routes import PREFIX
from headway.api.wire.bodies import read_body
from headway.api.wire.exchange import Exchange
from headway.api.wire.problems import Refused, problem_of
from headway.dashboard.action_table import ACTIONS
from headway.dashboard.asset_files import Assets
from headway.dashboard.list_table import copied_list
from headway.dashboard.live import Live
from headway.dashboard.navigation import sections
from headway.dashboard.pages import PAGES
from headway.dashboard.rendering import Renderer
from headway.dashboard.table import Download, Form, Page, PageRoute, Redirect
from headway.dashboard.visit import Visit
from headway.logs import get_logger
from headway.model.access import ApiKey

_log = get_logger("headway.dashboard")
_LARGEST_FORM = 2 * 2**20
_SAID = "headway-said"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Site:
    """The pages of one server. `Api` asks it for every path that is not the API's own."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._assets = Assets()
        self._renderer = Renderer(self._assets)
        self._live = Live()
        self._links: dict[str, str] = {}  # tokens that log in once, each with its key

    async def __call__(self, request: Request, path: str) -> Response:
        """The answer for this path, which is below the mount point."""
        try:
            response = await self._answer(request, path)
        except Exception as error:
            response = self._problem(request, error)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    async def aclose(self) -> None:
        await self._live.aclose()

    @property
    def open_tabs(self) -> int:
        """How many tabs are looked at now."""
        return self._live.tabs

    def let_in_once(self, token: str, key: str) -> None:
        """Log in the first visitor who shows this token, with this key: for a person at this machine."""
        self._links[token] = key

    async def _answer(self, request: Request, path: str) -> Response:
        if path.startswith("/assets/"):
            _is_of(request, "/assets/{name}")
            return self._asset(path.removeprefix("/assets/"))
        fixed: dict[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {
            ("GET", "/login"): self._login_page,
            ("POST", "/login"): self._login,
            ("GET", "/login/once"): self._login_once,
            ("POST", "/logout"): self._logout,
        }
        if (request.method, path) in fixed:
            _is_of(request, path)
            return await fixed[request.method, path](request)
        try:
            key = await self._api.counted_caller(request)
        except Refused as refused:
            if refused.status != 401 or request.method != "GET":
                raise
            return _to(f"{_root(request)}/login?next={quote(_with_query(request, path), safe='')}")
        tenant, path = _split_tenant(path)
        visit = Visit(self._api, request, key, root=_root(request), tenant=tenant, path=path)
        if path == "/live" and request.method == "GET":
            _is_of(request, path)
            return await self._stream(request, key, visit)
        return await self._page(request, visit)

    async def _page(self, request: Request, visit: Visit) -> Response:
        route, params = _find(request.method, visit.path)
        _is_of(request, route.path if visit.tenant is None else "/t/{tenant}" + route.path)
        if request.method == "POST":
            made = await route.make(visit, await _form(request), **params)
        else:
            made = await route.make(visit, **params)
        if isinstance(made, Download):
            named = {"Content-Disposition": f'attachment; filename="{made.name}"'}
            return StreamingResponse(made.parts, 200, named, made.media_type)
        if isinstance(made, Redirect):
            response: Response = _to(made.to)
            if made.said is not None:
                _say(response, made, secure=request.url.scheme == "https", path=visit.root or "/")
            return response
        said = _said(request)
        html = await asyncio.to_thread(
            self._renderer.page,
            made,
            visit,
            {"nav": sections(visit), "said": said, "fragment": _is_fragment(request), "listed": copied_list(visit)},
        )
        response = Response(html, made.status, media_type="text/html")
        if said is not None:
            response.delete_cookie(_SAID, path=visit.root or "/")
        return response

    async def _stream(self, request: Request, key: ApiKey, visit: Visit) -> Response:
        of = urlsplit(visit.query.get("of", "/"))
        asked = {**request.scope, "query_string": of.query.encode()}
        route, params = _find("GET", of.path)

        async def parts() -> dict[str, str]:
            of_page = Visit(self._api, Request(asked), key, root=visit.root, tenant=visit.tenant, path=of.path)
            made = await route.make(of_page, **params)
            if not isinstance(made, Page):
                return {}
            return await asyncio.to_thread(self._renderer.live_parts, made, of_page)  # a page may be long

        return self._live.stream(
            tenant=key.tenant_id,
            visitor=key.id,
            view=f"{key.id} {visit.tenant} {of.geturl()}",
            parts=parts,
            allowed=lambda: self._api.caller(request),
            stopping=self._api.stopping,
        )

    def _asset(self, name: str) -> Response:
        found = self._assets.find(name)
        if found is None:
            raise Refused(404, "there is no such file")
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(found.body, 200, kept, found.media_type)

    async def _login_page(self, request: Request, *, wrong: str | None = None, status: int = 200) -> Response:
        values = {
            "root": _root(request),
            "next": request.query_params.get("next", "/"),
            "wrong": wrong,
            "oidc": f"{_root(request)}{PREFIX}/login/oidc" if self._api.has_oidc_login else None,
        }
        return Response(self._renderer.page(Page("login.html"), None, values), status, media_type="text/html")

    async def _login(self, request: Request) -> Response:
        if not is_same_origin(request):
            raise Refused(403, "the login form has to be one of this server's", code="CrossSite")
        given = (await _form(request)).get("key", "").strip()
        try:
            _, cookie = await self._api.log_in(request, given)
        except Refused as refused:
            return await self._login_page(request, wrong=refused.detail, status=refused.status)
        return _to(_root(request) + _within(request.query_params.get("next")), cookie)

    async def _login_once(self, request: Request) -> Response:
        key = self._links.pop(request.query_params.get("token", ""), None)
        if key is None:
            used = "this link was used already, or is another server's"
            return await self._login_page(request, wrong=used, status=401)
        _, cookie = await self._api.log_in(request, key)
        return _to(f"{_root(request)}/", cookie)

    async def _logout(self, request: Request) -> Response:
        await self._api.caller(request)  # which refuses a form of another site
        return _to(f"{_root(request)}/login", await self._api.log_out(request))

    def _problem(self, request: Request, error: Exception) -> Response:
        problem, headers = problem_of(error, request.scope["headway"].request_id, below=request.scope["root_path"])
        if problem.status >= 500:
            _log.error("a page could not be made", request_id=problem.request_id, exc_info=error)
        page = Page("problem.html", {"problem": problem, "root": _root(request), "fragment": _is_fragment(request)})
        return Response(self._renderer.page(page, None, {}), problem.status, headers, media_type="text/html")


def _is_of(request: Request, path: str) -> None:
    """Note the template of its path, for its span."""
    Exchange.of(request).route = _root(request) + path


def _find(method: str, path: str) -> tuple[PageRoute, dict[str, str]]:
    for route in PAGES:
        found = route.pattern.match(path)
        if found and route.method == method:
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
    raise Refused(404, "there is no such page")


def _split_tenant(path: str) -> tuple[str | None, str]:
    if not path.startswith("/t/"):
        return None, path
    tenant, slash, rest = path.removeprefix("/t/").partition("/")
    return unquote(tenant), slash + rest or "/"


async def _form(request: Request) -> Form:
    body = await read_body(request, _LARGEST_FORM)
    try:
        return Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1_000))
    except ValueError:
        raise Refused(400, "the form cannot be read") from None


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))


def _with_query(request: Request, path: str) -> str:
    return path + (f"?{request.url.query}" if request.url.query else "")


def _within(path: str | None) -> str:
    """A path of this site, whatever was asked for."""
    if path is None or not path.startswith("/") or path.startswith(("//", "/\\")) or any(each < " " for each in path):
        return "/"
    return path


def _to(url: str, cookie: str | None = None) -> Response:
    response = RedirectResponse(url, 303)
    if cookie is not None:
        response.headers.append("Set-Cookie", cookie)
    return response


def _is_fragment(request: Request) -> bool:
    return request.headers.get("x-headway-part") == "1"


def _say(response: Response, redirect: Redirect, *, secure: bool, path: str) -> None:
    """For the next page, by a cookie that it takes away: the URL stays what it is."""
    text = base64.urlsafe_b64encode(json.dumps([redirect.said, redirect.tone, redirect.undo]).encode()).decode()
    response.set_cookie(_SAID, text[:3_500], max_age=60, path=path, httponly=True, samesite="lax", secure=secure)


def _said(request: Request) -> Any:
    try:
        text, tone, undo = json.loads(base64.urlsafe_b64decode(request.cookies[_SAID]))
        name, params = undo or ("", {})
        taken_back = ACTIONS.get(name), {str(each): str(value) for each, value in params.items()}
        return {"text": str(text), "tone": "bad" if tone == "bad" else "good", "undo": taken_back}
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
