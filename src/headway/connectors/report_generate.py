"""connector.report.generate: rows as a file, JSON, CSV or a page to print, stored as an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from headway.connectors.kind import ConnectorKind
from headway.connectors.report_chart import Chart
from headway.connectors.report_formats import FORMATS, Report
from headway.connectors.report_rows import QUERIES, check_where, rows_found, rows_given
from headway.define.context import Context
from headway.errors import InvalidArtifact, InvalidJob
from headway.model.artifact import checked_name

MOST_ROWS = 1_000_000
_TEXT = {"type": "string", "maxLength": 255}
_COLUMNS = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 200, "uniqueItems": True}


class Connector(ConnectorKind):
    connector = "report.generate"
    about = "Make a report: JSON, CSV or HTML, as an artifact"
    defaults: ClassVar[Mapping[str, Any]] = {"timeout": "1h"}
    payload_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "format": {"enum": list(FORMATS)},
            "name": _TEXT,
            "title": _TEXT,
            "columns": _COLUMNS,
            "rows": {"type": "array", "items": {"type": ["object", "array"]}},
            "query": {"enum": list(QUERIES)},
            "where": {"type": "object"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS},
            "chart": {
                "type": "object",
                "additionalProperties": False,
                "required": ["value"],
                "properties": {"value": _TEXT, "label": _TEXT},
            },
        },
        "oneOf": [{"required": ["rows"]}, {"required": ["query"]}],
    }

    def check_fields(self, fields: dict[str, Any]) -> None:
        try:
            checked_name(_name(fields))
        except InvalidArtifact as error:
            raise InvalidJob(str(error)) from None
        if "query" not in fields:
            if "where" in fields:
                raise InvalidJob("where goes with query: rows are written as they are")
            if any(isinstance(row, list) for row in fields["rows"]) and "columns" not in fields:
                raise InvalidJob("rows that are lists need columns, which name what is in them")
            return
        check_where(fields["query"], fields.get("where", {}))
        unknown = [name for name in _named_columns(fields) if name not in QUERIES[fields["query"]]]
        if unknown:
            known = ", ".join(QUERIES[fields["query"]])
            raise InvalidJob(f"{fields['query']} has no column {unknown[0]!r}: it has {known}")

    async def perform(self, ctx: Context, fields: dict[str, Any]) -> Any:
        write, content_type = FORMATS[fields.get("format", "csv")]
        columns = _columns(fields)
        store = self.resources.store()
        if "query" in fields:
            rows = rows_found(store, ctx.claim.tenant_id, fields["query"], fields.get("where", {}))
        else:
            rows = rows_given(fields["rows"], columns)
        chart = fields.get("chart")
        report = Report(
            title=fields.get("title", _name(fields)),
            columns=columns,
            made_at=await store.arun(store.ops.now()),
            most=fields.get("limit", MOST_ROWS),
            chart=None if chart is None else Chart(chart["value"], chart.get("label")),
        )
        kept = await ctx.aartifact(_name(fields), write(report, rows), content_type=content_type)
        return {
            "artifact": kept.id,
            "name": kept.name,
            "size": kept.size,
            "sha256": kept.sha256,
            "rows": report.count,
            "truncated": report.truncated,
        }


def _name(fields: Mapping[str, Any]) -> str:
    return str(fields.get("name", f"report.{fields.get('format', 'csv')}"))


def _named_columns(fields: Mapping[str, Any]) -> list[str]:
    chart = fields.get("chart", {})
    return [*fields.get("columns", ()), *(chart[name] for name in ("value", "label") if name in chart)]


def _columns(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that the payload names, else all of the query, or of the rows as they come."""
    if "columns" in fields:
        return tuple(fields["columns"])
    if "query" in fields:
        return QUERIES[fields["query"]]
    return tuple(dict.fromkeys(name for row in fields["rows"] for name in row))
