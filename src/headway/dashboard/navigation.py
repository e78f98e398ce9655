"""The sidebar: what a visitor may see, and where they are."""

from __future__ import annotations

from dataclasses import dataclass

from headway.dashboard.visit import Visit

_SECTIONS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("", (("Overview", "/", "/jobs/summary"), ("Jobs", "/jobs", "/jobs"), ("Errors", "/errors", "/errors"))),
    ("Order", (("Trains", "/trains", "/trains"), ("Machines", "/machines", "/machines"))),
    (
        "Sources",
        (
            ("Triggers", "/triggers", "/jobs/triggers"),
            ("Events", "/events", "/events"),
            ("Templates", "/templates", "/templates"),
            ("Connectors", "/connectors", "/connectors"),
            ("Artifacts", "/artifacts", "/artifacts"),
        ),
    ),
    (
        "Fleet",
        (("Queues", "/queues", "/queues"), ("Limits", "/limits", "/limits"), ("Workers", "/workers", "/workers")),
    ),
    (
        "Administration",
        (
            ("Tenants", "/tenants", "/admin/tenants"),
            ("Definitions", "/definitions", "/definitions"),
            ("Keys", "/keys", "/keys"),
            ("Audit", "/audit", "/audit"),
            ("Doctor", "/doctor", "/doctor"),
        ),
    ),
)


@dataclass(frozen=True)
class Entry:
    title: str
    path: str
    current: bool


@dataclass(frozen=True)
class Section:
    title: str
    entries: list[Entry]


def sections(visit: Visit) -> list[Section]:
    """Only what the API would answer."""
    found = []
    for title, entries in _SECTIONS:
        allowed = [
            Entry(name, path, _is_at(visit.path, path)) for name, path, route in entries if visit.may("GET", route)
        ]
        if allowed:
            found.append(Section(title, allowed))
    return found


def _is_at(path: str, entry: str) -> bool:
    return path == entry or (entry != "/" and path.startswith(f"{entry}/"))
