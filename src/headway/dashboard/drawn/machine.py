"""A machine's steps and transitions, with the path that a job took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from headway.dashboard.shown.numbers import count
from headway.define.machine_graph import Graph

_STEP_WIDTH, _STEP_HEIGHT, _GAP = 132, 34, 46
_MARGIN = 8
END = "[*]"


def machine_graph(
    graph: Graph, *, now: str | None = None, taken: Sequence[str] = (), standing: Mapping[str, int] = {}
) -> Markup:
    """Steps from left to right in the order of the source; edges that skip or go back bend around them."""
    names = [*graph.steps, *sorted({each.to for each in graph.edges if each.to} - set(graph.steps))]
    order = {name: index for index, name in enumerate(names)}
    edges = [(each.step, each.to) for each in graph.edges if each.to is not None and each.step in order]
    reach = max((abs(order[to] - order[step]) for step, to in edges), default=1)
    bend = 14 + 12 * min(reach, 6)
    middle = _MARGIN + bend + _STEP_HEIGHT / 2
    width = len(names) * (_STEP_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    height = 2 * (_MARGIN + bend) + _STEP_HEIGHT
    walked = set(zip(taken, [*taken[1:], now or ""], strict=False))
    parts = [
        Markup(
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0l8 4-8 4z"/></marker></defs>'
        )
    ]
    for step, to in edges:
        path = _edge(order[step], order[to], middle)
        shape = "taken" if (step, to) in walked else ""
        parts.append(
            Markup('<path class="{}" d="{}" marker-end="url(#arrow)"><title>{}</title></path>').format(
                shape, path, f"{step} to {to}"
            )
        )
    for name, index in order.items():
        shape = "now" if name == now or name in standing else "done" if name in taken else ""
        kind = "step" if name in graph.steps else "end"
        left, shown = _left(index), "end" if name == END else name
        parts.append(
            Markup(
                '<rect class="{} {}" x="{}" y="{}" width="{}" height="{}" rx="6"/>'
                '<text class="name" x="{}" y="{}" text-anchor="middle">{}</text>'
            ).format(
                *(kind, shape, left, middle - _STEP_HEIGHT / 2, _STEP_WIDTH, _STEP_HEIGHT),
                *(left + _STEP_WIDTH / 2, middle + 4, shown if len(shown) < 19 else f"{shown[:17]}…"),
            )
        )
        if name in standing:
            parts.append(_badge(left + _STEP_WIDTH, middle - _STEP_HEIGHT / 2, count(standing[name])))
    label = f"The steps of {graph.kind}" + (f"; it is at {now}" if now else "")
    label += "".join(f"; {at} at {name}" for name, at in standing.items())
    return Markup('<svg class="graph" viewBox="0 0 {} {}" width="{}" role="img" aria-label="{}">{}</svg>').format(
        width, height, width, label, Markup("").join(parts)
    )


def _badge(right: float, top: float, text: str) -> Markup:
    """How many, on the corner of a step."""
    width = 14 + 6.5 * len(text)
    return Markup(
        '<rect class="badge" x="{}" y="{}" width="{}" height="18" rx="9"/>'
        '<text class="badge" x="{}" y="{}" text-anchor="middle">{}</text>'
    ).format(right - width + 6, top - 9, width, right - width / 2 + 6, top + 4, text)


def _left(index: int) -> int:
    return _MARGIN + index * (_STEP_WIDTH + _GAP)


def _edge(start: int, end: int, middle: float) -> str:
    if end == start + 1:
        return f"M{_left(start) + _STEP_WIDTH} {middle}H{_left(end) - 2}"
    half = _STEP_HEIGHT / 2
    lift = 12 + 10 * min(abs(end - start), 6)
    side = -1 if end > start else 1  # onwards above, back below
    x1, x2 = _left(start) + _STEP_WIDTH / 2, _left(end) + _STEP_WIDTH / 2
    if start == end:
        x1, x2 = x1 - 18, x2 + 18
    y, peak = middle + side * half, middle + side * (half + lift)
    return f"M{x1} {y}C{x1} {peak} {x2} {peak} {x2} {y + side * 2}"
