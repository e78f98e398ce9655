"""Machines: which kinds there are, and what the code says of their steps. Each machine is a job: see /jobs."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.api.access.narrowed import seen_kinds
from headway.api.call import Call
from headway.api.routes import VIEWERS, Routes
from headway.api.wire.pages import PartQuery, part
from headway.api.wire.problems import Refused
from headway.api.wire.views import Listed
from headway.define.machine import MachineKind
from headway.define.machine_graph import Graph, graph_of, mermaid
from headway.errors import NotFound

routes = Routes("machines")


class MachineShown(msgspec.Struct):
    """A kind of machine: the versions that live workers run, or that the code here has; and how many unfinished ones
    stand at each step, at least (`more`: not all were looked at)."""

    kind: str
    versions: list[int]
    steps: dict[str, int] = {}
    more: bool = False


class MachineList(msgspec.Struct):
    items: list[MachineShown]
    next_cursor: str | None


@routes.get("/machines", roles=VIEWERS, query=PartQuery, answers={200: MachineList}, problems=(422,))
async def list_machines(call: Call[None, PartQuery]) -> Listed:
    """List the kinds of machines that live workers run or that have unfinished ones, and where these stand."""
    versions: dict[str, set[int]] = {kind.name: set(kind.editions) for kind in _here(call)}
    standing = [] if call.key.queues else await call.verbs.astep_counts()
    for each in standing:
        versions.setdefault(each.kind, set())
    for known in seen_kinds(call, await call.app.aworkers()):
        kind, _, version = known.partition("@")
        if version.isdecimal():
            versions.setdefault(kind, set()).add(int(version))
    seen = sorted(kind for kind in versions if not call.key.kinds or kind in call.key.kinds)
    more = any(each.more for each in standing)
    found = [
        MachineShown(kind, sorted(versions[kind]), {at.step: at.count for at in standing if at.kind == kind}, more)
        for kind in seen
    ]
    return part("machines", call.query, found, key=lambda each: each.kind)


class GraphQuery(msgspec.Struct, forbid_unknown_fields=True):
    version: int | None = None


class GraphShown(msgspec.Struct):
    """The steps of a machine and their transitions, also as a Mermaid state diagram."""

    graph: Graph
    mermaid: str


@routes.get("/machines/{kind}/graph", roles=VIEWERS, query=GraphQuery, answers={200: GraphShown}, problems=(404, 422))
async def get_graph(call: Call[None, GraphQuery]) -> GraphShown:
    """Show a machine's steps and transitions, read from its source: where the server has the application's code."""
    name = call.params["kind"]
    found = next((kind for kind in _here(call) if kind.name == name), None)
    if found is None or (call.key.kinds and name not in call.key.kinds):
        raise Refused(
            404,
            f"this server has no code of a machine {name!r}",
            fix="headway machines graph module:app KIND prints it; headway.asgi(app) serves it where the code is",
        )
    edition = found.editions.get(call.query.version or max(found.editions))
    if edition is None:
        raise NotFound(f"machine {name} has no version {call.query.version}")
    graph = graph_of(edition, found.name)
    return GraphShown(graph, mermaid(graph))


def _here(call: Call[Any, Any]) -> list[MachineKind]:
    return [kind for kind in call.app.kinds if isinstance(kind, MachineKind)]
