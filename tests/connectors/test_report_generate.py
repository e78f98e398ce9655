"""connector.report.generate: rows of the payload or of a query, as JSON, CSV or a page, in little memory."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import resource
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headway import Context, Headway
from headway.artifacts import ablocks
from headway.artifacts.sources import BLOCK
from headway.connectors.report_chart import Chart
from headway.connectors.report_formats import FORMATS, Report
from headway.connectors.report_rows import QUERIES, Rows
from headway.errors import InvalidPayload
from tests import sizes_and_seeds

KIND = "connector.report.generate"
HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headway]:
    file = tmp_path / "headway.toml"
    file.write_text(f'artifacts = "{tmp_path}/artifacts"\n[connectors.report.generate]\nqueue = "reports"\n')
    monkeypatch.setenv("HEADWAY_CONFIG", str(file))
    if request.param == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('sqlite_migrated_path')}"
    else:
        url = str(request.getfixturevalue("postgres_migrated_url"))
    app = Headway(url)
    yield app
    app.close()


def made(app: Headway, *payloads: dict[str, Any], **options: Any) -> list[tuple[dict[str, Any], str]]:
    """The result of each report, and its text."""
    jobs = [app.enqueue(KIND, payload, **options) for payload in payloads]
    app.run("reports", until_idle=True)
    found = []
    for job in jobs:
        result = app.result(job.id, timeout=0).value
        with app.open_artifact(result["artifact"]) as file:
            found.append((result, file.read().decode()))
    return found


def test_rows_become_files_that_hurt_nobody(app: Headway) -> None:
    formulas = ["=1+1", "+1", "-1", "@sum", "\t1", "\r1", " =1", "＝1", "-", '=HYPERLINK("http://x")']
    formulas += [f"{unseen}=1" for unseen in ("\ufeff", "\u200b", "\u00a0", "\x0b", "\x1f", "\u2028", " \u202e")]
    rows = [
        {"name": "A", "count": 2, "price": -1.5, "ok": True, "more": {"a": [1]}},
        {"name": HOSTILE, "count": 3, "none": None, "ok": False, "more": ["x", "y"]},
        *({"name": each, "count": 0} for each in formulas),
        {"name": 'a;=1;"+1;b - c;\n@x', "count": 0},  # as a spreadsheet splits it whose separator is another
    ]
    chart = {"value": "count", "label": "name"}
    (of_csv, table), (of_json, text), (_, page) = made(
        app,
        {"rows": rows},
        {"rows": rows, "format": "json", "limit": 2, "columns": ["count", "name"], "name": "out.json"},
        {"rows": rows, "format": "html", "title": HOSTILE, "chart": chart},
    )
    assert (of_csv["name"], of_csv["rows"], of_csv["truncated"]) == ("report.csv", 20, False)
    head, first, second, *rest = list(csv.reader(io.StringIO(table, newline="")))
    assert head == ["name", "count", "price", "ok", "more", "none"]
    assert first == ["A", "2", "-1.5", "true", '{"a": [1]}', ""]
    assert second[0] == HOSTILE
    assert [row[0] for row in rest] == [*(f"'{each}" for each in formulas), "a;'=1;\"'+1;b - c;\n'@x"]
    found = json.loads(text)
    assert found["rows"] == [{"count": 2, "name": "A"}, {"count": 3, "name": HOSTILE}]
    assert (found["count"], found["truncated"], found["totals"], found["columns"]) == (
        2,
        True,
        {"count": 5},
        ["count", "name"],
    )
    assert (of_json["name"], of_json["truncated"]) == ("out.json", True)
    seen = Tags(page)
    assert "script" not in seen.names
    assert "img" not in seen.names
    assert (seen.names.count("tr"), seen.names.count("rect"), seen.names.count("svg")) == (22, 20, 1)
    assert "20 rows" in page
    assert '<td class="n">5</td>' in page  # the total
    assert '<th>name</th><th class="n">count</th>' in page
    assert re.search(r'<td class="w">=HYPERLINK', page)  # a long text keeps some width when it is printed
    money = [{"sum": 812_345.67, "n": n} for n in range(3)]
    assert "landscape" not in page
    ((_, sums),) = made(app, {"rows": money, "format": "html", "chart": {"value": "sum"}})
    # no digit is lost, and the count of rows makes no column of its own
    assert '<tr><td class="n">2,437,037.01</td><td class="n">3</td></tr><tr><td colspan="2">3 rows</td></tr>' in sums
    assert "the highest is 812,345.67" in sums
    assert "default-src 'none'" in page
    assert "http:" not in re.sub(r"http://x", "", page)


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.append(tag)


def test_queries_see_the_tenant_of_the_report_alone(app: Headway) -> None:
    @app.job(max_attempts=1)
    def work(ctx: Context, fail: bool = False) -> None:
        if fail:
            raise ValueError("=no")

    for tenant in ("acme", "other"):
        for fail in (False, True, True):
            app.enqueue("work", {"fail": fail}, tenant=tenant, tags=["t"])
    app.run("default", until_idle=True)
    jobs, dead, attempts, stats = made(
        app,
        {"query": "jobs", "where": {"kind": "work", "created_after": "1h"}},
        {"query": "jobs", "where": {"status": "dead", "tags": ["t"]}, "columns": ["status", "error"], "limit": 1},
        {"query": "attempts", "where": {"kind": "work"}, "format": "json"},
        {
            "query": "stats",
            "where": {"every": "hour", "kind": "work"},
            "format": "html",
            "chart": {"value": "dead", "label": "at"},
        },
        tenant="acme",
    )
    rows = list(csv.DictReader(io.StringIO(jobs[1])))
    assert ([row["status"] for row in rows].count("dead"), len(rows), tuple(rows[0])) == (2, 3, QUERIES["jobs"])
    assert list(csv.reader(io.StringIO(dead[1])))[1] == ["dead", "ValueError: =no"]
    assert (dead[0]["rows"], dead[0]["truncated"]) == (1, True)
    ran = json.loads(attempts[1])["rows"]
    assert sorted(row["status"] for row in ran) == ["failed", "failed", "succeeded"]
    assert {row["kind"] for row in ran} == {"work"}
    assert stats[0]["rows"] >= 1
    assert "<svg" in stats[1]
    assert "@page { size: landscape }" in stats[1]
    day = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
    assert re.search(f'<td><time datetime="{day}T[^"]*">{day} [0-9:]+</time></td>', stats[1])
    assert re.search(rf"<text [^>]*>{day} [0-9:]+</text>", stats[1])  # below the chart


def test_what_a_report_refuses(app: Headway) -> None:
    for payload, said in (
        ({}, "oneOf"),
        ({"rows": [], "query": "jobs"}, "oneOf"),
        ({"query": "users"}, "users"),
        ({"query": "jobs", "where": {"sql": "1=1"}}, "has no filter 'sql'"),
        ({"query": "jobs", "where": {"status": "gone"}}, "no status"),
        ({"query": "jobs", "where": {"kind": ["a"]}}, "is a text"),
        ({"query": "jobs", "where": {"created_after": "yesterday"}}, "neither a time nor an age"),
        ({"query": "jobs", "where": {"created_after": "2026-05-17T00:00:00"}}, "has no zone"),
        ({"query": "stats", "where": {"every": "year"}}, "is none of"),
        ({"query": "jobs", "columns": ["payload"]}, "has no column 'payload'"),
        ({"query": "jobs", "chart": {"value": "x"}}, "has no column 'x'"),
        ({"rows": [[1]]}, "need columns"),
        ({"rows": [], "where": {}}, "where goes with query"),
        ({"rows": [], "name": "../x"}, "plain file name"),
        ({"rows": [1]}, "rows"),
    ):
        with pytest.raises(InvalidPayload, match=said):
            app.enqueue(KIND, payload)


def test_a_chart_of_any_length_has_few_bars_and_loses_nothing() -> None:
    for count in (1, 63, 64, 65, 127, 1_000):
        chart = Chart("n", "n")
        for n in range(count):
            chart.add({"n": n})
        assert len(chart._bars) <= 64
        assert sum(total for _, total in chart._bars) == count * (count - 1) / 2
    negative = Chart("n", None)
    for n in (-3, 5, None, "x"):
        negative.add({"n": n})
    assert negative.figure().count("<rect") == 4


class OneRow(dict[str, Any]):
    """A row that can be counted while it lives."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_memory_stays_flat_however_many_rows() -> None:
    count = 1_000_000 if sizes_and_seeds.full else 5_000
    alive: weakref.WeakSet[OneRow] = weakref.WeakSet()
    most_alive = 0

    async def rows() -> Rows:
        nonlocal most_alive
        for start in range(0, count, 500):
            page = [OneRow(id=n, name=f"row number {n}", price=n / 7) for n in range(start, start + 500)]
            if not sizes_and_seeds.full:
                alive.update(page)
            most_alive = max(most_alive, len(alive))
            yield page

    async def written(format_: str) -> tuple[int, int]:
        """How long the report is, and its longest block."""
        columns = ("id", "name", "price")
        report = Report(title="t", columns=columns, made_at=datetime.now(UTC), most=count, chart=Chart("price", "id"))
        sizes = [len(block) async for block in ablocks(FORMATS[format_][0](report, rows()))]
        assert (report.count, report.totals["id"]) == (count, count * (count - 1) // 2)
        return sum(sizes), max(sizes)

    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for format_ in FORMATS:
        size, longest = asyncio.run(written(format_))
        assert size > count * 20
        assert longest < 2 * BLOCK
    assert most_alive <= 1_500  # the page that is written, and those on either side
    if sizes_and_seeds.full:
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 32 * 1_024
