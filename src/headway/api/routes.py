"""The table of routes: what each takes, answers and needs. Routing, access, OpenAPI and tests are made from it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec

from headway.api.call import Call
from headway.model.access import Role

Handler = Callable[[Call[Any, Any]], Awaitable[Any]]
H = TypeVar("H", bound=Handler)

PREFIX = "/api/v1"
MostCounted = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
"""Up to how many jobs a request may ask to count."""

# which roles may do what, in the contract's words; a route names one of these sets
VIEWERS: tuple[Role, ...] = ("viewer", "operator", "admin", "superadmin")
PRODUCERS: tuple[Role, ...] = ("producer", "operator", "admin", "superadmin")
READERS: tuple[Role, ...] = ("viewer", "producer", "operator", "admin", "superadmin")  # of what they name by id
OPERATORS: tuple[Role, ...] = ("operator", "admin", "superadmin")
ADMINS: tuple[Role, ...] = ("admin", "superadmin")
SUPERADMINS: tuple[Role, ...] = ("superadmin",)
WORKERS: tuple[Role, ...] = ("worker", "superadmin")
EVERYBODY: tuple[Role, ...] = ("viewer", "producer", "operator", "admin", "worker", "superadmin")


class NoQuery(msgspec.Struct):
    """The query of a route that takes none."""


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str  # below PREFIX: /jobs/{id}
    handler: Handler
    roles: tuple[Role, ...]
    answers: Mapping[int, Any]
    query: type[msgspec.Struct] | None = None
    body: Any = None
    problems: tuple[int, ...] = ()
    limit: int = 2 * 2**20  # of the body, in bytes
    waits: bool = False  # may take longer than a read
    creates: bool = False  # honours Idempotency-Key
    tagged: bool = False  # its answer has an ETag
    quotes: bool = False  # its body quotes programs: a NUL in it is for the handler to escape or refuse
    streams: bool = False  # may answer as text/event-stream
    file: bool = False  # answers with the bytes of a file
    upload: bool = False  # its body is a file, which the handler reads
    summary: str = ""
    name: str = field(default="")
    chapter: str = ""

    @property
    def params(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)


class Routes:
    """The routes of a chapter; `@routes.get("/jobs", …)` adds one."""

    def __init__(self, chapter: str) -> None:
        self.chapter = chapter
        self.all: list[Route] = []

    def get(self, path: str, **options: Any) -> Callable[[H], H]:
        return self._add("GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[H], H]:
        return self._add("POST", path, options)

    def patch(self, path: str, **options: Any) -> Callable[[H], H]:
        return self._add("PATCH", path, options)

    def delete(self, path: str, **options: Any) -> Callable[[H], H]:
        return self._add("DELETE", path, options)

    def _add(self, method: str, path: str, options: dict[str, Any]) -> Callable[[H], H]:
        def add(handler: H) -> H:
            summary = (handler.__doc__ or "").strip().partition("\n")[0]
            name = handler.__name__
            self.all.append(Route(method, path, handler, summary=summary, name=name, chapter=self.chapter, **options))
            return handler

        return add
