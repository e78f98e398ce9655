"""A job's attempts on a line of time, with the waits between them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from markupsafe import Markup

from headway.dashboard.shown.numbers import duration

_WIDTH, _HEIGHT, _BAR = 720, 44, 16
_LEAST = 3.0  # width of an attempt that took no time
_MOST = 200  # attempts that are drawn


def attempts_timeline(attempts: list[Any], now: datetime) -> Markup:
    """Oldest on the left. The table below says the same in words."""
    shown = attempts[-_MOST:]
    if not shown:
        return Markup("")
    begin = shown[0]["started_at"]
    end = max(each["finished_at"] or now for each in shown)
    whole = max((end - begin).total_seconds(), 0.001)
    scale = (_WIDTH - _LEAST) / whole
    parts = [Markup('<line class="axis" x1="0" x2="{0}" y1="{1}" y2="{1}"/>').format(_WIDTH, 4 + _BAR / 2)]
    for each in shown:
        left = (each["started_at"] - begin).total_seconds() * scale
        ran = ((each["finished_at"] or now) - each["started_at"]).total_seconds()
        parts.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="4" width="{:.1f}" height="{}" rx="2"><title>{}</title></rect>'
            ).format(
                each["status"],
                left,
                max(_LEAST, ran * scale),
                _BAR,
                f"attempt {each['fence']}: {each['status']}, {duration(ran)}",
            )
        )
    label = f"{len(attempts)} attempts in {duration(whole)}" if len(attempts) > 1 else f"one attempt, {duration(whole)}"
    parts.append(Markup('<text x="0" y="{}">{}</text>').format(_HEIGHT - 6, label))
    return Markup('<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, _HEIGHT, label, Markup("").join(parts)
    )
