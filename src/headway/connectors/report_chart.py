"""The chart of a report: bars as SVG, of any number of rows in little memory."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import Any

from headway.connectors.report_rows import Row, number_text, text_of, time_text

_MOST_BARS = 64
_WIDTH, _HEIGHT, _FOOT = 800.0, 200.0, 18.0


class Chart:
    """Sums a column over rows that follow each other. When there are too many bars, two become one."""

    def __init__(self, value: str, label: str | None) -> None:
        self._value = value
        self._label = label
        self._bars: list[tuple[str, float]] = []  # the label of its first row, and the sum
        self._rows_each = 1
        self._in_last = 0

    def add(self, row: Row) -> None:
        value = row.get(self._value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = 0
        if self._bars and self._in_last < self._rows_each:
            label, total = self._bars[-1]
            self._bars[-1] = (label, total + value)
            self._in_last += 1
            return
        if len(self._bars) == _MOST_BARS:
            pairs = zip(self._bars[::2], self._bars[1::2], strict=True)
            self._bars = [(one[0], one[1] + two[1]) for one, two in pairs]
            self._rows_each *= 2
            self._in_last = self._rows_each
        label = "" if self._label is None else _label(row.get(self._label))
        self._bars.append((label, float(value)))
        self._in_last = 1

    @property
    def has_values(self) -> bool:
        return any(total for _, total in self._bars)

    def figure(self) -> str:
        highest = max(0.0, *(total for _, total in self._bars))
        lowest = min(0.0, *(total for _, total in self._bars))
        scale = _HEIGHT / ((highest - lowest) or 1)
        zero = highest * scale
        step = _WIDTH / len(self._bars)
        bars = [
            f'<rect x="{(index + 0.1) * step:.1f}" y="{zero - max(total, 0) * scale:.1f}" width="{step * 0.8:.1f}" '
            f'height="{abs(total) * scale:.1f}"><title>{escape(label)}: {number_text(total)}</title></rect>'
            for index, (label, total) in enumerate(self._bars)
        ]
        first, last = self._bars[0][0], self._bars[-1][0]
        top = number_text(max(total for _, total in self._bars))
        each = "" if self._rows_each == 1 else f", {self._rows_each:,} rows to a bar"
        return (
            f"<figure><figcaption>{escape(self._value)}{each}; the highest is {top}"
            f'</figcaption>\n<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT + _FOOT:g}" role="img" '
            f'preserveAspectRatio="xMinYMid" aria-label="{escape(self._value)}">\n{"".join(bars)}'
            f'<line x1="0" x2="{_WIDTH:g}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
            f'<text x="0" y="{_HEIGHT + 14:g}">{escape(first)}</text>'
            f'<text x="{_WIDTH:g}" y="{_HEIGHT + 14:g}" text-anchor="end">{escape(last)}</text></svg></figure>\n'
        )


def _label(value: Any) -> str:
    return time_text(value) if isinstance(value, datetime) else text_of(value)
