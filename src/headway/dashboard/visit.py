"""One request of a person: who it is, what they may, and the answers that the API gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from headway.api import Api
from headway.api.access.tenants import check_role
from headway.api.call import Answer
from headway.clock import from_micros
from headway.model.access import ApiKey
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.overview import MOST_COUNTED

Query = Mapping[str, Any]


COUNTED = {"most": MOST_COUNTED}
"""Asked of whatever counts jobs: no page looks at all of them."""


class Visit:
    """A page's view of the API. Whatever it asks is asked with the visitor's key."""

    def __init__(self, api: Api, request: Request, key: ApiKey, *, root: str, tenant: str | None, path: str) -> None:
        self._api = api
        self._request = request
        self.key = key
        self.root = root  # what stands before every path: the mount point
        self.tenant = tenant  # the one that a super admin looks at; None: all, or the key's own
        self.path = path  # below the root and the tenant
        self.query = request.query_params
        self.now: datetime = from_micros(api.app.clock.now())

    @property
    def is_superadmin(self) -> bool:
        return self.key.role == "superadmin"

    @property
    def base(self) -> str:
        return self._base_of(self.tenant)

    @property
    def whose(self) -> str | None:
        """The tenant whose work is shown, as a command names it; None: that of all."""
        own = self.tenant or self.key.tenant_id
        return "default" if own == DEFAULT_TENANT_ID else own

    @property
    def sees_all(self) -> bool:
        """Whether the page is about all tenants together."""
        return self.is_superadmin and self.tenant is None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query = {},  # noqa: B006 - read only
        body: Any = None,
        params: Mapping[str, str] = {},
        revision: str | None = None,
        **named: str,
    ) -> Any:
        """What the API answers to this; `path` is the route's own: "/jobs/{id}". With a revision, only if what is
        stored is still that one."""
        answer = await self._api.ask(
            self._request,
            self.key,
            method,
            path,
            params={**params, **named},
            query=[pair for name, value in query.items() for pair in _pairs(name, value)],
            body=body,
            tenant=self.tenant,
            headers={} if revision is None else {"if-match": f'"{revision}"'},
        )
        return answer.body if isinstance(answer, Answer) else answer

    def note_export(self, what: str) -> None:
        """For the audit: the visitor downloads all of this."""
        self._api.noted.exported(self._request, self.key, what, self.tenant)

    async def beginning(self, artifact_id: str, most: int) -> bytes:
        """The first bytes of an artifact, as its download has them."""
        answer = await self._api.ask(
            self._request,
            self.key,
            "GET",
            "/artifacts/{id}/content",
            params={"id": artifact_id},
            query=[],
            body=None,
            tenant=self.tenant,
            headers={"range": f"bytes=0-{most - 1}"},
        )
        return b"".join([part async for part in answer.body_iterator])

    def may(self, method: str, path: str) -> bool:
        """Whether the visitor's role may ask this."""
        return self.key.role in self._api.route(method, path).roles

    def check(self, method: str, path: str) -> None:
        """Raises `Refused` as the API would, before a form is filled in for nothing."""
        check_role(self.key, self._api.route(method, path).roles)

    def url(self, path: str, query: Query = {}, **more: Any) -> str:  # noqa: B006 - read only
        """A link to a page of this dashboard, in the tenant that is looked at."""
        return self.url_of(self.tenant, path, query, **more)

    def url_of(self, tenant: str | None, path: str, query: Query = {}, **more: Any) -> str:  # noqa: B006 - read only
        """The same for what belongs to a tenant: a super admin who looks at all of them is led into it."""
        pairs = [pair for name, value in {**query, **more}.items() for pair in _pairs(name, value)]
        base = self._base_of(tenant) if self.sees_all else self.base
        return f"{base}{path}" + (f"?{urlencode(pairs)}" if pairs else "")

    def of_tenant(self, tenant: str) -> str:
        """The overview of one tenant, for a super admin."""
        return f"{self._base_of(tenant)}/"

    def train(self, tenant: str, key: str) -> str:
        """The page of a train; trains of two tenants may have one name."""
        return self.url_of(tenant, f"/trains/{quote(key, safe='')}")

    def export(self, name: str) -> str:
        """This list as a file: with its filters, from its beginning."""
        kept = {each: self.query.getlist(each) for each in self.query if each != "cursor"}
        return self.url(f"/export/{name}", kept)

    async def tenant_names(self, ids: Iterable[str | None]) -> dict[str, str]:
        """What the tenants of these ids are called, by one look-up; nothing on a page that is not about all of them."""
        known = sorted({each for each in ids if each is not None}) if self.sees_all else []
        store = self._api.app.store
        names = await store.arun(store.ops.tenants(known)) if known else {}
        return {each: names.get(each, each) for each in known}

    async def check_still_in(self) -> None:
        """Raises `Refused` where the visitor's key or session is not valid any more: for what takes long."""
        await self._api.caller(self._request)

    @property
    def origin(self) -> str:
        """Where this server is, for commands that are shown."""
        return f"{self._request.url.scheme}://{self._request.headers.get('host', '')}{self.root}"

    def back(self, url: str | None) -> str:
        """Where a form leads: to a page of this dashboard that the visitor may see, whatever it says."""
        base = self.root if self.is_superadmin else self.base  # they may come from the list of all tenants
        inside = url is not None and (url == base or url.startswith((f"{base}/", f"{base}?")))
        if url is None or not inside or url.startswith("//") or "\\" in url or any(each < " " for each in url):
            return self.url("/")
        return url

    def _base_of(self, tenant: str | None) -> str:
        return self.root if tenant is None else f"{self.root}/t/{quote(tenant, safe='')}"

    def here(self, **changed: Any) -> str:
        """This page with other values in its query; None takes one away."""
        kept = {name: self.query.getlist(name) for name in self.query}
        kept.pop("cursor", None)
        return self.url(self.path, kept | changed)


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if value is None or value == "":
        return []
    if isinstance(value, (list, tuple)):
        return [(name, str(each)) for each in value if each != ""]
    return [(name, str(value))]
