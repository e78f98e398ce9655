"""An example of each answer, made from its schema and from what fields of a name mostly hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ID = "0197a5c2-7f1e-7c3b-9d52-0c9d8e7f6a5b"
_TIME = "2026-11-16T12:00:00Z"
_DEPTH = 2  # of lists within lists that have an item

# by the name of a field; elsewhere null is preferred, because most fields are empty most of the time
_BY_NAME: dict[str, Any] = {
    "queue": "mail",
    "kind": "welcome",
    "definition_key": "welcome",
    "tenant": "acme",
    "name": "welcome",
    "slug": "acme",
    "status": "queued",
    "payload": {"user_id": 7},
    "result": {"sent": True},
    "queued_at": _TIME,
    "worker_id": "7b1c5a52-0f5e-4d5c-9a49-5e6b0f6f2a02",
    "request_id": "5f0c8f6f5a2b4c1d9e3a7b6c5d4e3f2a",
    "next_cursor": None,
}
_BY_FORMAT = {"uuid": _ID, "date-time": _TIME, "date": _TIME[:10]}


def sample(schema: Mapping[str, Any], components: Mapping[str, Any], name: str = "", depth: int = 0) -> Any:
    """A value that the schema allows."""
    if "$ref" in schema:
        return sample(components[str(schema["$ref"]).rpartition("/")[2]], components, name, depth)
    if "enum" in schema:
        return _BY_NAME[name] if _BY_NAME.get(name) in schema["enum"] else schema["enum"][0]
    if "anyOf" in schema:
        choices = schema["anyOf"]
        is_null = {"type": "null"} in choices and _BY_NAME.get(name) is None
        return None if is_null else sample(choices[0], components, name, depth)
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            return {each: sample(inner, components, each, depth + 1) for each, inner in fields.items()}
        case "array" if "prefixItems" in schema:
            return [sample(each, components, name, depth + 1) for each in schema["prefixItems"]]
        case "array":
            return (
                [sample(schema["items"], components, name, depth + 1)] if "items" in schema and depth < _DEPTH else []
            )
        case "string" if "format" in schema:
            return _BY_FORMAT.get(schema["format"], "")
        case "string":
            return _BY_NAME[name] if _BY_NAME.get(name) else _text(name)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return schema.get("default", False)
        case "null":
            return None
    return _BY_NAME.get(name)


def _text(name: str) -> str:
    match name.rpartition("_")[2]:
        case "id":
            return _ID
        case "at" | "for" | "since" | "until":
            return _TIME
    return "…"
