"""The API for people: a page made from the OpenAPI document, which loads nothing from elsewhere, and its words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from headway import errors
from headway.api.wire.problems import CODES, MEDIA_TYPE, slug_of

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
summary { cursor: pointer; padding: .3rem 0 } code, pre { font-family: ui-monospace, monospace; font-size: .9em }
table { border-collapse: collapse; margin: .5rem 0 } td { padding: .15rem .8rem .15rem 0; vertical-align: top }
pre { overflow-x: auto; padding: .5rem; border: 1px solid #8886 }
.method { display: inline-block; width: 4.5rem; font-weight: 600 }
details details { margin-left: 1.5rem } small { opacity: .75 } nav a { margin-right: .8rem }
"""
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"


class Operation:
    """One method of one path, in words."""

    def __init__(self, method: str, path: str, said: Mapping[str, Any], components: Mapping[str, Any]) -> None:
        self.method, self.path, self.name = method.upper(), path, said["operationId"]
        self.summary: str = said["summary"]
        self.chapter: str = said["tags"][0]
        self.roles: list[str] = said["x-roles"]
        self.parameters = [
            (each["name"], each["in"], type_of(each["schema"]), each.get("description", ""))
            for each in said["parameters"]
        ]
        content = said.get("requestBody", {}).get("content", {}).get("application/json", {})
        self.body = None if not content else type_of(content["schema"])
        self.fields = list(_fields(content.get("schema", {}), components))
        self.example: Any = content.get("example")
        self.answers: list[tuple[str, str]] = []
        self.answer_examples: dict[str, Any] = {}  # by the status
        self.problems: list[str] = []
        for status, answer in said["responses"].items():
            kinds = answer.get("content", {})
            if MEDIA_TYPE in kinds:
                self.problems.append(status)
            else:
                words = [type_of(each["schema"]) if "json" in kind else kind for kind, each in kinds.items()]
                self.answers.append((status, " or ".join(words) or "nothing"))
                schema = kinds.get("application/json", {}).get("schema", {})
                for example in components.get(type_of(schema), {}).get("examples", ()):
                    self.answer_examples[status] = example


def operations(document: Mapping[str, Any]) -> dict[str, list[Operation]]:
    """The operations by chapter."""
    found: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            each = Operation(method, path, said, document["components"]["schemas"])
            found.setdefault(each.chapter, []).append(each)
    return found


def type_of(schema: Mapping[str, Any]) -> str:
    """A schema in few words.

    >>> type_of({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'list of string, or null'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(json.dumps(each) if each is None else str(each) for each in schema["enum"])
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(map(type_of, schema["anyOf"])))
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {type_of(schema['additionalProperties'])}"
    return "time" if schema.get("format") == "date-time" else str(kind)


def _fields(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "$ref" in schema:
        schema = components[type_of(schema)]
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        yield name, type_of(each) + (" (required)" if name in required else "")


def page(document: Mapping[str, Any]) -> str:
    """The whole API as one page."""
    chapters = operations(document)
    anchors = "".join(f'<a href="#{escape(_anchor(name))}">{escape(name)}</a>' for name in chapters)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>Headway {escape(document['info']['version'])}</title>",
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style><h1>Headway over HTTP</h1>",
        "<p>The same for programs: <a href=openapi.json>openapi.json</a>. Requests carry ",
        f"<code>Authorization: Bearer hw_…</code>.</p><nav>{anchors}<a href='#problems'>problems</a></nav>",
    ]
    for name, listed in chapters.items():
        parts.append(f'<h2 id="{escape(_anchor(name))}">{escape(name.capitalize())}</h2>')
        parts += map(_operation, listed)
    parts.append("<h2 id=problems>Problems</h2><p>The <code>code</code> of a problem, and what it means.</p><table>")
    for code, text in problems().items():
        parts.append(f'<tr id="problem-{slug_of(code)}"><td><code>{code}</code><td>{_prose(text)}')
    return "".join([*parts, "</table></html>"])


def problems() -> dict[str, str]:
    """Every code of a problem, with what it means."""
    known = {name: each.__doc__ for name, each in vars(errors).items() if isinstance(each, type) and each.__doc__}
    of_errors = {name: " ".join(doc.split()) for name, doc in known.items() if not name.startswith("_")}
    return dict(sorted((CODES | of_errors).items()))


def _prose(text: str) -> str:
    """HTML of a docstring: its `names` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _shown(example: Any) -> str:
    return f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"


def _operation(each: Operation) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{where}<td>{escape(kind)}<td>{_prose(text)}"
        for name, where, kind, text in each.parameters
    )
    rows += "".join(f"<tr><td><code>{escape(name)}</code><td>body<td>{escape(kind)}<td>" for name, kind in each.fields)
    example = "" if each.example is None else _shown(each.example)
    answers = "".join(_answer(each, status, kind) for status, kind in each.answers)
    return (
        f'<details id="{each.name}"><summary><span class=method>{each.method}</span> <code>{escape(each.path)}</code> '
        f"{_prose(each.summary)}</summary><p><small>{', '.join(each.roles)}</small></p><table>{rows}</table>{example}"
        f"<ul>{answers}<li>problems: {', '.join(each.problems)}</ul></details>"
    )


def _answer(each: Operation, status: str, kind: str) -> str:
    found = each.answer_examples.get(status)
    example = "" if found is None else f"<details><summary>example</summary>{_shown(found)}</details>"
    return f"<li><code>{status}</code> {escape(kind)}{example}"
