"""Charts of time: bars for what happened, lines for how long it took; each with a table of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

_WIDTH, _HEIGHT = 640, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 6, 10, 22
_TICKS = 6


@dataclass(frozen=True)
class Series:
    """Numbers over time; None where nothing is known."""

    name: str
    shape: str  # the class that colours it
    values: Sequence[float | None]


def bars(title: str, at: Sequence[datetime], series: Sequence[Series], show: Callable[[float], str]) -> Markup:
    """Bars on top of each other, one for each span."""
    most = max((sum(each.values[index] or 0 for each in series) for index in range(len(at))), default=0) or 1
    top = _round_up(most)
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(at))
    parts = []
    for index in range(len(at)):
        ground = float(_HEIGHT - _BOTTOM)
        for each in series:
            value = each.values[index] or 0
            height = value / top * (_HEIGHT - _TOP - _BOTTOM)
            if height > 0:
                ground -= height
                parts.append(
                    Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                        each.shape, _LEFT + index * step + step * 0.1, ground, max(1.0, step * 0.8), height
                    )
                )
    return _chart(title, at, series, parts, top, show)


def lines(title: str, at: Sequence[datetime], series: Sequence[Series], show: Callable[[float], str]) -> Markup:
    """One line for each series; it breaks where nothing is known."""
    top = _round_up(max((value for each in series for value in each.values if value is not None), default=0) or 1)
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(at) - 1)
    parts = []
    for each in series:
        path, down = [], False
        for index, value in enumerate(each.values):
            if value is None:
                down = False
                continue
            y = _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)
            path.append(f"{'L' if down else 'M'}{_LEFT + index * step:.1f} {y:.1f}")
            if not down:
                path.append("h0.1")  # a single value is a dot
            down = True
        parts.append(Markup('<path class="line {}" d="{}"/>').format(each.shape, " ".join(path)))
    return _chart(title, at, series, parts, top, show)


def spark(values: Sequence[float | None], label: str) -> Markup:
    """A line without axes, for a table."""
    top = max((each for each in values if each is not None), default=0) or 1
    step = 100 / max(1, len(values) - 1)
    points = [f"{index * step:.1f} {23 - (value or 0) / top * 21:.1f}" for index, value in enumerate(values)]
    path = "M" + "L".join(points) if points else ""
    return Markup(
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path d="{}"/></svg>'
    ).format(label, path)


def _chart(
    title: str,
    at: Sequence[datetime],
    series: Sequence[Series],
    parts: list[Markup],
    top: float,
    show: Callable[[float], str],
) -> Markup:
    ground = _HEIGHT - _BOTTOM
    frame = []
    for part in (0.0, 0.5, 1.0):
        y = ground - part * (ground - _TOP)
        frame.append(
            Markup(
                '<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text x="{}" y="{:.1f}" '
                'text-anchor="end">{}</text>'
            ).format(_LEFT, _WIDTH - _RIGHT, y, y, _LEFT - 6, y + 4, show(top * part))
        )
    often = max(1, -(-len(at) // _TICKS))
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(at))
    long = len(at) > 1 and (at[-1] - at[0]).total_seconds() > 2 * 86_400
    for index in range(0, len(at), often):
        text = at[index].strftime("%d %b" if long else "%H:%M")
        frame.append(Markup('<text x="{:.1f}" y="{}">{}</text>').format(_LEFT + index * step, _HEIGHT - 6, text))
    legend = Markup("").join(Markup('<li data-shape="{}">{}</li>').format(each.shape, each.name) for each in series)
    picture = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, _HEIGHT, title, Markup("").join([*frame, *parts])
    )
    return Markup('<figure class="chart-box"><figcaption>{}<ul>{}</ul></figcaption>{}{}</figure>').format(
        title, legend, picture, _table(title, at, series, show)
    )


def _table(title: str, at: Sequence[datetime], series: Sequence[Series], show: Callable[[float], str]) -> Markup:
    """The same for those who do not see the picture."""
    head = Markup("").join(Markup("<th>{}</th>").format(each.name) for each in series)
    rows = Markup("").join(
        Markup("<tr><td>{}</td>{}</tr>").format(
            moment.strftime("%Y-%m-%d %H:%M"),
            Markup("").join(
                Markup("<td>{}</td>").format("" if (value := each.values[index]) is None else show(value))
                for each in series
            ),
        )
        for index, moment in enumerate(at)
    )
    return Markup(
        '<details class="numbers"><summary>Numbers</summary><div class="table" tabindex="0"><table>'
        '<caption class="visually-hidden">{}'
        "</caption><thead><tr><th>Time (UTC)</th>{}</tr></thead><tbody>{}</tbody></table></div></details>"
    ).format(title, head, rows)


def _round_up(value: float) -> float:
    """
    >>> [_round_up(each) for each in (0.7, 3, 12, 47, 130)]
    [1.0, 5.0, 20.0, 50.0, 200.0]
    """
    size = 1.0
    while size * 10 < value:
        size *= 10
    while size > value and size > 1e-3:
        size /= 10
    return next(step * size for step in (1, 2, 5, 10) if step * size >= value)
