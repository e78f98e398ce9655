"""A form made from a JSON Schema: one field for each simple property; what is not simple is written as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headway.api.wire.problems import Refused

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")
_PREFIX = "p."


@dataclass(frozen=True)
class Input:
    """One field."""

    name: str
    label: str
    kind: str  # text, number, boolean, choice, json
    required: bool
    value: str
    hint: str
    choices: tuple[str, ...] = ()


def inputs_of(schema: Any, payload: str | None, given: Mapping[str, str]) -> list[Input] | None:
    """The fields for an object's properties; None where the schema says nothing of them. What was given before is
    filled in, or else what a payload has."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        return None
    known = _members(payload)
    required = schema.get("required") or ()
    return [
        _input(name, _resolved(each, schema), name in required, known.get(name), given)
        for name, each in properties.items()
    ]


def payload_of(schema: Any, given: Mapping[str, str]) -> str:
    """The JSON text of what was filled in. Numbers stay as they were typed; raises `Refused` for what is no number."""
    parts = []
    for each in inputs_of(schema, None, given) or []:
        text = given.get(_PREFIX + each.name, "")
        if each.kind == "boolean":
            value = "true" if text else "false"
        elif text == "" and (not each.required or each.kind != "text"):
            continue
        elif each.kind == "number":
            if not _NUMBER.match(text.strip()):
                raise Refused(422, f"{each.name} is not a number: {text!r}")
            value = text.strip()
        elif each.kind == "json":
            try:
                json.loads(text)
            except ValueError as error:
                raise Refused(422, f"{each.name} is not JSON: {error}") from None
            value = text
        else:
            value = json.dumps(text, ensure_ascii=False)
        parts.append(f"{json.dumps(each.name, ensure_ascii=False)}: {value}")
    return "{" + ", ".join(parts) + "}"


def _input(name: str, schema: Any, required: bool, stored: str | None, given: Mapping[str, str]) -> Input:
    kind, choices = _kind(schema)
    default = schema.get("default") if isinstance(schema, dict) else None
    value = given.get(_PREFIX + name)
    if value is None and stored is not None:
        value = json.loads(stored) if kind in ("text", "choice") and stored.startswith('"') else stored
    if value is None and default is not None:
        value = default if isinstance(default, str) else json.dumps(default)
    hint = " ".join(str(schema.get(each, "")) for each in ("title", "description") if isinstance(schema, dict)).strip()
    return Input(name, name.replace("_", " "), kind, required, value or "", hint, choices)


def _kind(schema: Any) -> tuple[str, tuple[str, ...]]:
    if not isinstance(schema, dict):
        return "json", ()
    values = [each for each in schema.get("enum") or () if each is not None]
    if values and all(isinstance(each, str) for each in values):
        return "choice", tuple(values)
    type_ = schema.get("type", "")
    if isinstance(type_, list):  # an optional value
        type_ = next((each for each in type_ if each != "null"), "") if len(type_) == 2 and "null" in type_ else ""
    return {"string": "text", "integer": "number", "number": "number", "boolean": "boolean"}.get(
        type_ if isinstance(type_, str) else "", "json"
    ), ()


def _resolved(schema: Any, root: Any) -> Any:
    ref = schema.get("$ref") if isinstance(schema, dict) else None
    if not isinstance(ref, str) or not ref.startswith("#/$defs/"):
        return schema
    return root.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {})


def _members(payload: str | None) -> dict[str, str]:
    """The members of a JSON object, each as its own text."""
    try:
        found = msgspec.json.decode(payload or "{}", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: bytes(value).decode().strip() for name, value in found.items()}
