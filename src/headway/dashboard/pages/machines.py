"""Machines: kinds with their graph, and how many stand at each step."""

from __future__ import annotations

from markupsafe import Markup

from headway.api.wire.problems import Refused
from headway.dashboard.drawn.machine import machine_graph
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/machines")
async def list_machines(visit: Visit) -> Page:
    found = (await visit.ask("GET", "/machines")).items
    graphs: dict[str, Markup | None] = {}
    for each in found:
        try:
            graph = (await visit.ask("GET", "/machines/{kind}/graph", kind=each.kind)).graph
            graphs[each.kind] = machine_graph(graph, standing=each.steps)
        except Refused:
            graphs[each.kind] = None  # this server has none of the application's code
    return Page("machines.html", {"machines": found, "graphs": graphs})
