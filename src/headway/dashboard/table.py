"""The table of pages: which path each has, and the function that makes it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import ImmutableMultiDict


class Form(ImmutableMultiDict[str, str]):
    """What a person filled in; `getlist` gives all values of a name."""


@dataclass(frozen=True)
class Page:
    """A template, and the values that it shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True)
class Redirect:
    """Where a form leads, and what the next page says of it."""

    to: str
    said: str | None = None
    tone: str = "good"
    undo: tuple[str, Mapping[str, str]] | None = None  # the action that takes it back, and what it is about


@dataclass(frozen=True)
class Download:
    """A file, sent while it is made."""

    name: str
    media_type: str
    parts: AsyncIterator[bytes]


Maker = Callable[..., Awaitable[Page | Redirect | Download]]


@dataclass(frozen=True)
class PageRoute:
    """One path of the dashboard. A GET has (visit, **params), a POST has (visit, form, **params)."""

    method: str
    path: str
    make: Maker
    pattern: re.Pattern[str]


class Pages:
    """The pages of one file; `@pages.get("/jobs/{id}")` adds one."""

    def __init__(self) -> None:
        self.all: list[PageRoute] = []

    def get(self, path: str) -> Callable[[Maker], Maker]:
        return self._add("GET", path)

    def post(self, path: str) -> Callable[[Maker], Maker]:
        return self._add("POST", path)

    def _add(self, method: str, path: str) -> Callable[[Maker], Maker]:
        def add(make: Maker) -> Maker:
            # a key, such as a train's, may have slashes in it
            pattern = re.sub(
                r"{(\w+)}", lambda found: f"(?P<{found[1]}>{'.+' if found[1] == 'key' else '[^/]+'})", path
            )
            self.all.append(PageRoute(method, path, make, re.compile(pattern + r"\Z")))
            return make

        return add
