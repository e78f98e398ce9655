"""What a report looks like: JSON, CSV or an HTML page, as text that is made page by page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from html import escape
from typing import Any, TypeGuard

import msgspec

from headway.connectors.report_chart import Chart
from headway.connectors.report_rows import Row, Rows, number_text, text_of, time_text
from headway.printable import cell_text


class Report(msgspec.Struct, kw_only=True):
    """One report while it is written: what it is about, and what was counted so far."""

    title: str
    columns: tuple[str, ...]
    made_at: datetime
    most: int  # rows
    chart: Chart | None = None
    count: int = 0
    truncated: bool = False
    totals: dict[str, int | float] = {}

    async def pages(self, rows: Rows) -> AsyncIterator[Sequence[Row]]:
        """The rows up to the most, counted."""
        async for page in rows:
            room = self.most - self.count
            if len(page) > room:
                self.truncated = True
                page = page[:room]
            self.count += len(page)
            self._add(page)
            yield page
            if self.truncated:
                return

    def _add(self, page: Sequence[Row]) -> None:
        for row in page:
            for name in self.columns:
                value = row.get(name)
                if _is_number(value):
                    self.totals[name] = self.totals.get(name, 0) + value
            if self.chart is not None:
                self.chart.add(row)


Format = Callable[[Report, Rows], AsyncIterator[str]]


async def as_json(report: Report, rows: Rows) -> AsyncIterator[str]:
    head = {"title": report.title, "made_at": report.made_at.isoformat(), "columns": list(report.columns)}
    yield json.dumps(head, ensure_ascii=False)[:-1] + ', "rows": ['
    first = True
    async for page in report.pages(rows):
        texts = (_dump({name: row.get(name) for name in report.columns}) for row in page)
        text = ",\n".join(texts)
        yield text if first or not text else f",\n{text}"
        first = first and not text
    tail = {"count": report.count, "truncated": report.truncated, "totals": report.totals}
    yield f"], {_dump(tail)[1:]}\n"


def _dump(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def as_csv(report: Report, rows: Rows) -> AsyncIterator[str]:
    yield _lines([[_cell(name) for name in report.columns]])
    async for page in report.pages(rows):
        yield _lines([[_cell(row.get(name)) for name in report.columns] for row in page])


def _cell(value: Any) -> Any:
    """A number stays one."""
    return value if _is_number(value) else cell_text(text_of(value))


def _lines(rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue()


_STYLE = """
:root { color-scheme: light; font: 14px/1.45 system-ui, sans-serif; color: #1c2430; background: #fff }
body { margin: 2rem; display: flex; flex-direction: column }
header { order: -2 } h1 { font-size: 1.5em; margin: 0 0 .25rem } p { color: #5a6675; margin: 0 0 1.25rem }
figure { order: -1; margin: 0 0 1.5rem; break-inside: avoid } figcaption { color: #5a6675; margin-bottom: .5rem }
svg { width: 100%; height: auto; max-height: 16rem } rect { fill: #2f6fde } line { stroke: #c9d1dc }
text { font-size: 10px; fill: #5a6675 }
table { border-collapse: collapse; width: 100% }
th, td { padding: .35em .6em; border-bottom: 1px solid #e3e8ee; text-align: left; vertical-align: top }
th { border-bottom-color: #8996a6; vertical-align: bottom }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.w { min-width: 12.5em; overflow-wrap: anywhere }
time { font-variant-numeric: tabular-nums; display: inline-block; min-width: 5.5em }
tfoot td { font-weight: 600 } tfoot tr:first-child td { border-top: 2px solid #8996a6 }
@page { margin: 12mm; @bottom-right { content: counter(page) " / " counter(pages); font: 9px sans-serif } }
@media print { :root { font-size: 11px } body { margin: 0 } tr { break-inside: avoid }
  thead { display: table-header-group } tfoot { display: table-row-group; break-before: avoid } }
"""
_WIDE = """@page { size: landscape } @media print { :root { font-size: 9px } }
"""
_WIDER = """@page { size: landscape } @media print { :root { font-size: 7px } th, td { padding: .3em .4em } }
"""
_LONG = 16
"""Letters of a text whose column is not squeezed to less than about as many: an id would be a letter a line."""


def _style(columns: int) -> str:
    """More columns print on a page that lies on its side, in smaller letters."""
    return _STYLE + (_WIDER if columns > 12 else _WIDE if columns > 6 else "")


async def as_html(report: Report, rows: Rows) -> AsyncIterator[str]:
    begun = False
    async for page in report.pages(rows):
        if not begun:
            yield _head(report, page)
        begun = True
        yield "".join(_table_row(report, row) for row in page)
    if not begun:
        yield _head(report, ())
    yield f"</tbody><tfoot>{_totals(report)}</tfoot></table>\n"
    if report.chart is not None and report.chart.has_values:
        yield report.chart.figure()
    yield "</body></html>\n"


def _head(report: Report, page: Sequence[Row]) -> str:
    """Everything before the rows. The heading of a column of numbers, judged by the first page, is aligned like the
    numbers."""
    title = escape(report.title)
    numeric = {name for name in report.columns if any(_is_number(row.get(name)) for row in page)}
    names = "".join(
        f'<th class="n">{_heading(name)}</th>' if name in numeric else f"<th>{_heading(name)}</th>"
        for name in report.columns
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title><style>{_style(len(report.columns))}</style></head><body>\n"
        f"<header><h1>{title}</h1><p>{report.made_at:%Y-%m-%d %H:%M} UTC</p></header>\n"
        f"<table><thead><tr>{names}</tr></thead><tbody>\n"
    )


def _table_row(report: Report, row: Row) -> str:
    return f"<tr>{''.join(_td(row.get(name)) for name in report.columns)}</tr>\n"


def _heading(name: str) -> str:
    return escape(name).replace("_", "_<wbr>")


def _td(value: Any) -> str:
    if _is_number(value):
        return f'<td class="n">{number_text(value)}</td>'
    if isinstance(value, datetime):
        return f'<td><time datetime="{value.isoformat()}">{time_text(value)}</time></td>'
    text = text_of(value)
    return f'<td class="w">{escape(text)}</td>' if len(text) > _LONG else f"<td>{escape(text)}</td>"


def _totals(report: Report) -> str:
    said = f"{report.count:,} rows" + (", and more that are left out" if report.truncated else "")
    cells = [_td(report.totals[name]) if name in report.totals else "<td></td>" for name in report.columns]
    if report.columns and report.columns[0] not in report.totals:
        return f"<tr><td>{said}</td>{''.join(cells[1:])}</tr>"
    # the first column has a total of its own
    return f'<tr>{"".join(cells)}</tr><tr><td colspan="{len(cells) or 1}">{said}</td></tr>'


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


FORMATS: dict[str, tuple[Format, str]] = {
    "json": (as_json, "application/json"),
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "html": (as_html, "text/html; charset=utf-8"),
}
