"""Charts of time: bars for what happened, lines for how long it took; each with a table of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup, escape

from headway.dashboard.shown.times import iso

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
                left, width = _LEFT + index * step + step * 0.1, max(1.0, step * 0.8)
                parts.append(
                    f'<rect class="{each.shape}" x="{left:.1f}" y="{ground:.1f}" width="{width:.1f}" '
                    f'height="{height:.1f}"/>'
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
        parts.append(f'<path class="line {each.shape}" d="{" ".join(path)}"/>')
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
    parts: list[str],
    top: float,
    show: Callable[[float], str],
) -> Markup:
    ground = _HEIGHT - _BOTTOM
    frame = []
    is_empty = not any(value for each in series for value in each.values)
    if is_empty:
        middle, y = (_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + ground) / 2
        frame.append(f'<text x="{middle}" y="{y}" text-anchor="middle">nothing in this time</text>')
    for part in (0.0,) if is_empty else (0.0, 0.5, 1.0):
        y = ground - part * (ground - _TOP)
        frame.append(
            f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(show(top * part))}</text>'
        )
    often = max(1, -(-len(at) // _TICKS))
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(at))
    is_long = len(at) > 1 and (at[-1] - at[0]).total_seconds() > 2 * 86_400
    form, pattern = ("day", "%d %b") if is_long else ("clock", "%H:%M")
    for index in range(0, len(at), often):
        moment = at[index]
        frame.append(
            f'<text x="{_LEFT + index * step:.1f}" y="{_HEIGHT - 6}" data-at="{iso(moment)}" data-form="{form}">'
            f"{moment:{pattern}}</text>"
        )
    legend = "".join(f'<li data-shape="{each.shape}">{escape(each.name)}</li>' for each in series)
    drawn = "".join([*frame, *parts])
    return Markup(  # noqa: S704 - numbers, and texts that are escaped
        f'<figure class="chart-box"><figcaption>{escape(title)}<ul>{legend}</ul></figcaption>'
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{drawn}</svg>'
        f"{_table(title, at, series, show)}</figure>"
    )


def _table(title: str, at: Sequence[datetime], series: Sequence[Series], show: Callable[[float], str]) -> str:
    """The same for those who do not see the picture."""
    head = "".join(f"<th>{escape(each.name)}</th>" for each in series)
    rows = []
    for index, moment in enumerate(at):
        values = (each.values[index] for each in series)
        cells = "".join(f"<td>{'' if value is None else escape(show(value))}</td>" for value in values)
        rows.append(f'<tr><td data-at="{iso(moment)}">{moment:%Y-%m-%d %H:%M} UTC</td>{cells}</tr>')
    return (
        '<details class="numbers"><summary>Numbers</summary><div class="table" tabindex="0"><table>'
        f'<caption class="visually-hidden">{escape(title)}</caption>'
        f"<thead><tr><th>Time</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


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
