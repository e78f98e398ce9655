"""The files that pages load: styles and scripts, each under a name made from its content, so that it can be kept."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Asset:
    name: str  # as it is served: live.3f2a91c07b.js
    media_type: str
    body: bytes


class Assets:
    """All of them, in memory: together they are smaller than a picture."""

    def __init__(self) -> None:
        self._by_name: dict[str, Asset] = {}
        self._served: dict[str, str] = {}
        for each in sorted(files("headway.dashboard").joinpath("assets").iterdir(), key=lambda found: found.name):
            body = each.read_bytes()
            stem, _, ending = each.name.rpartition(".")
            served = f"{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{ending}"
            kind = "text/javascript" if ending == "js" else mimetypes.guess_type(each.name)[0] or "text/plain"
            self._by_name[served] = Asset(served, f"{kind}; charset=utf-8" if kind.startswith("text") else kind, body)
            self._served[each.name] = served

    def served_name(self, name: str) -> str:
        return self._served[name]

    def find(self, served: str) -> Asset | None:
        return self._by_name.get(served)

    @property
    def size(self) -> int:
        return sum(len(each.body) for each in self._by_name.values())
