"""A job's attempts on a line of time, with the waits between them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from markupsafe import Markup

from headway.dashboard.shown.numbers import duration

_WIDTH, _HEIGHT, _TOP, _BAR = 720, 34, 16, 14
_LEAST = 3.0  # width of an attempt that took no time
_ROOM = 56  # for the words above a wait
_MOST = 200  # attempts that are drawn


def attempts_timeline(attempts: list[Any], now: datetime) -> Markup:
    """Oldest on the left, with the waits between named where there is room; nothing for one attempt, of which there is
    nothing to compare. The table below says the same in words."""
    shown = attempts[-_MOST:]
    if len(shown) < 2:
        return Markup("")
    begin = shown[0]["started_at"]
    end = max(each["finished_at"] or now for each in shown)
    whole = max((end - begin).total_seconds(), 0.001)
    scale = (_WIDTH - _LEAST) / whole
    middle = _TOP + _BAR / 2
    parts = [Markup('<line class="axis" x1="0" x2="{0}" y1="{1}" y2="{1}"/>').format(_WIDTH, middle)]
    ended: datetime | None = None
    for each in shown:
        left = (each["started_at"] - begin).total_seconds() * scale
        if ended is not None and (waited := (each["started_at"] - ended).total_seconds()) * scale > _ROOM:
            parts.append(
                Markup('<text class="wait" x="{:.1f}" y="{}" text-anchor="middle">waited {}</text>').format(
                    left - waited * scale / 2, _TOP - 4, duration(waited)
                )
            )
        ended = each["finished_at"] or now
        ran = (ended - each["started_at"]).total_seconds()
        parts.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" rx="2"><title>{}</title></rect>'
            ).format(
                each["status"],
                left,
                _TOP,
                max(_LEAST, ran * scale),
                _BAR,
                f"attempt {each['fence']}: {each['status']}, {duration(ran)}",
            )
        )
    label = f"{len(attempts)} attempts in {duration(whole)}"
    return Markup(
        '<svg class="timeline" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">{3}</svg><p class="sub">{2}</p>'
    ).format(_WIDTH, _HEIGHT, label, Markup("").join(parts))
