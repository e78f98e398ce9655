"""Writes what the TypeScript client knows of the wire, clients/typescript/src/wire.ts, from our OpenAPI document: zod
schemas for what the server says, types for what it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.api import chapters
from headway.api.document.openapi import document

WIRE = Path(__file__).parents[1] / "clients" / "typescript" / "src" / "wire.ts"

OPERATIONS = (
    "create_job",
    "create_jobs",
    "list_jobs",
    "get_job",
    "change_job",
    "list_attempts",
    "get_result",
    "cancel_job",
    "retry_job",
    "run_job",
    "move_job",
    "delete_job",
    "signal_job",
    "fork_job",
    "explain_job",
    "list_journal",
    "emit",
    "claim_jobs",
    "heartbeat",
    "settle_jobs",
    "release_jobs",
    "upload_artifact",
)
"""What the client asks for; a route that is renamed fails here."""

_HEADER = """\
/** What is said over the wire. Made from the OpenAPI document by tools/typescript_wire.py: do not edit. */

import { z } from "zod";
"""
_TIMES = ("_at", "_for", "_after", "_before")


class Wire:
    """The schemas that these operations reach: those of answers as zod, those of requests as types."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self._schemas: Mapping[str, Any] = described["components"]["schemas"]
        self._paths: Mapping[str, Any] = described["paths"]

    def text(self) -> str:
        operations = dict(self._operations())
        answers: dict[str, Any] = {}
        requests: dict[str, Any] = {}
        queries: dict[str, str] = {}
        self._reach(self._named("Problem"), answers)
        for name in OPERATIONS:
            said = operations[name]
            for status, answer in said["responses"].items():
                if int(status) < 300:
                    for content in answer.get("content", {}).values():
                        self._reach(content["schema"], answers)
            body = said.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                self._reach(body["schema"], requests)
            asked = [each for each in said["parameters"] if each["in"] == "query"]
            if asked:
                queries[_query_name(name)] = self._query(asked)
        parts = [_HEADER]
        parts += [self._zod_export(name, schema) for name, schema in answers.items()]
        parts += [self._type_export(name, schema) for name, schema in requests.items()]
        parts += [f"export interface {name} {text}" for name, text in queries.items()]
        return "\n".join(parts)

    def _operations(self) -> Iterator[tuple[str, Any]]:
        for methods in self._paths.values():
            for each in methods.values():
                yield each["operationId"], each

    def _named(self, title: str) -> dict[str, str]:
        """The schema of this title that the API answers with; another module may have one of the same title."""
        names = [name for name in self._schemas if _short(name) == title and "overview" not in name]
        (name,) = names
        return {"$ref": f"#/components/schemas/{name}"}

    def _reach(self, schema: Any, into: dict[str, Any]) -> None:
        """Add every schema that this one names, those first that others need."""
        if isinstance(schema, list):
            for each in schema:
                self._reach(each, into)
        elif isinstance(schema, dict):
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            if name and _short(name) not in into:
                self._reach(self._schemas[name], into)
                into[_short(name)] = self._schemas[name]
            for each in schema.values():
                self._reach(each, into)

    # what the server says: unknown fields are left out, so that a newer server may say more

    def _zod_export(self, name: str, schema: Mapping[str, Any]) -> str:
        fields = "".join(
            f"  {_key(field)}: {self._zod(each, field in schema.get('required', ()))},\n"
            for field, each in schema["properties"].items()
        )
        words = _comment(schema)
        return f"{words}export const {name} = z.object({{\n{fields}}});\nexport type {name} = z.infer<typeof {name}>;\n"

    def _zod(self, schema: Mapping[str, Any], required: bool = True) -> str:
        text = self._zod_shape(schema)
        if not required:
            text += f".default({json.dumps(schema['default'])})" if "default" in schema else ".optional()"
        return text

    def _zod_shape(self, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            return _short(schema["$ref"])
        if "enum" in schema:
            return f"z.enum({json.dumps(schema['enum'])})"
        if "anyOf" in schema:
            others = [self._zod_shape(each) for each in schema["anyOf"] if each != {"type": "null"}]
            text = others[0] if len(others) == 1 else f"z.union([{', '.join(others)}])"
            return text + (".nullable()" if {"type": "null"} in schema["anyOf"] else "")
        match schema.get("type"):
            case "string":
                return "z.string()"
            case "integer" | "number":
                return "z.number()"
            case "boolean":
                return "z.boolean()"
            case "array":
                return f"z.array({self._zod_shape(schema.get('items', {}))})"
            case "object":
                return f"z.record(z.string(), {self._zod_shape(schema.get('additionalProperties') or {})})"
            case None:
                return "z.unknown()"
        raise ValueError(f"no zod for {schema}")

    # what it is told

    def _type_export(self, name: str, schema: Mapping[str, Any]) -> str:
        return f"{_comment(schema)}export interface {name} {self._fields(schema)}"

    def _fields(self, schema: Mapping[str, Any]) -> str:
        fields = "".join(
            f"  {_key(field)}: {self._type(each, field)};\n"
            if field in schema.get("required", ())
            else f"  {_key(field)}?: {self._type(each, field)} | undefined;\n"
            for field, each in schema["properties"].items()
        )
        return f"{{\n{fields}}}\n"

    def _query(self, asked: list[Any]) -> str:
        fields = "".join(
            f"  {_key(each['name'])}?: {self._query_type(each['schema'], each['name'])} | undefined;\n"
            for each in asked
        )
        return f"{{\n{fields}}}\n"

    def _query_type(self, schema: Mapping[str, Any], field: str) -> str:
        if schema.get("type") == "array":  # one or several
            one = self._type(schema["items"], field)
            return f"{one} | readonly ({one})[]"
        return self._type(schema, field)

    def _type(self, schema: Mapping[str, Any], field: str = "") -> str:
        if "$ref" in schema:
            return _short(schema["$ref"])
        if "enum" in schema:
            return " | ".join(map(json.dumps, schema["enum"]))
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self._type(each, field) for each in schema["anyOf"]))
        match schema.get("type"):
            case "string":
                return "string | Date" if field.endswith(_TIMES) else "string"
            case "integer" | "number":
                return "number"
            case "boolean":
                return "boolean"
            case "null":
                return "null"
            case "array":
                inner = self._type(schema.get("items", {}))
                return f"readonly ({inner})[]" if " | " in inner else f"readonly {inner}[]"
            case "object":
                return "object"
            case None:
                return "unknown"
        raise ValueError(f"no type for {schema}")


def _short(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[2]


def _query_name(operation: str) -> str:
    return "".join(word.capitalize() for word in operation.split("_")) + "Query"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _comment(schema: Mapping[str, Any]) -> str:
    words = " ".join(str(schema.get("description", "")).split())
    return f"/** {words} */\n" if words else ""


def derived() -> str:
    """wire.ts as the table of routes makes it."""
    return Wire(document(chapters.ROUTES)).text()


if __name__ == "__main__":
    WIRE.write_text(derived(), "utf-8")
