"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.api.document.examples import EXAMPLES
from headway.api.document.samples import sample
from headway.api.routes import PREFIX, Route
from headway.api.wire.problems import MEDIA_TYPE, TITLES, Problem, problem_of
from headway.errors import NotFound
from headway.version import __version__

_REF = "#/components/schemas/{name}"
_ALWAYS = (400, 401, 403, 404, 408, 413, 422, 429, 500, 503)  # any request can meet these
_WITH_BODY = (415,)
_TEXT = {"type": "string"}
_FILE_TYPE = "*/*"  # its own
_FILE = {"type": "string", "format": "binary"}
_ANSWERS = {
    200: "Done",
    201: "Created",
    202: "Still going",
    204: "Done; nothing is left to say",
    206: "The part that was asked for",
}
_REQUEST_ID = {"X-Request-Id": {"description": "The id of the request, as the server's log has it.", "schema": _TEXT}}
_RETRY_AFTER = {"Retry-After": {"description": "After how many seconds to try again.", "schema": _TEXT}}
_REPLAYED = {
    "Idempotent-Replayed": {"description": "true if this request was done before.", "schema": {"enum": ["true"]}}
}
_PROBLEM = msgspec.to_builtins(problem_of(NotFound("there is no job 0197a5c2"), "5f0c8f6f5a2b4c1d")[0])
_ETAG = {"ETag": {"description": "The version of what is shown, for If-Match.", "schema": _TEXT}}
_PRINTABLE = {"type": "string", "pattern": "^[!-~]{1,255}$"}


def document(routes: Sequence[Route], root_path: str = "") -> dict[str, Any]:
    """OpenAPI 3.1 of these routes: every status, every problem. `root_path` is where the API is mounted."""
    types = [Problem]
    for route in routes:
        types += [each for each in (route.body, *route.answers.values()) if each is not None and each not in types]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    found = {id(each): schema for each, schema in zip(types, schemas, strict=True)}
    answers = {id(each) for route in routes for each in (Problem, *route.answers.values())}
    for each, schema in zip(types, schemas, strict=True):
        if id(each) in answers and "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            components[name]["examples"] = [_PROBLEM if each is Problem else sample(components[name], components)]
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, found, routes)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway", "version": __version__, "description": "A durable work engine over HTTP."},
        "servers": [{"url": root_path or "/"}],
        "security": [{"key": []}],
        "tags": [{"name": name} for name in dict.fromkeys(route.chapter for route in routes)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "hw_…"}},
        },
    }


def _operation(route: Route, schemas: Mapping[int, Any], routes: Sequence[Route]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.chapter],
        "x-roles": list(route.roles),
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_headers(route)],
        "responses": {},
    }
    if route.body is not None:
        content: dict[str, Any] = {"schema": schemas[id(route.body)]}
        if route.name in EXAMPLES:
            content["example"] = EXAMPLES[route.name]
        said["requestBody"] = {"required": _is_required(route.body), "content": {"application/json": content}}
    if route.upload:
        said["requestBody"] = {"required": True, "content": {_FILE_TYPE: {"schema": _FILE}}}
    for status, body in route.answers.items():
        said["responses"][str(status)] = _answer(route, status, None if body is None else schemas[id(body)], routes)
    with_body = _WITH_BODY if route.body is not None else ()
    for status in sorted({*_ALWAYS, *with_body, *route.problems}):
        said["responses"][str(status)] = {
            "description": TITLES[status],
            "headers": _REQUEST_ID | (_RETRY_AFTER if status in (429, 503) else {}),
            "content": {MEDIA_TYPE: {"schema": schemas[id(Problem)]}},
        }
    return said


def _answer(route: Route, status: int, schema: Any, routes: Sequence[Route]) -> dict[str, Any]:
    content = {} if schema is None else {"application/json": {"schema": schema}}
    if route.file:
        content[_FILE_TYPE] = {"schema": _FILE}
    if route.streams:
        content["text/event-stream"] = {"schema": _TEXT}
    said: dict[str, Any] = {"description": _ANSWERS[status], "headers": dict(_REQUEST_ID)}
    if route.creates:
        said["headers"] |= _REPLAYED
    if route.tagged:
        said["headers"] |= _ETAG
    if content:
        said["content"] = content
    if status == 201:
        links = {
            each.name: {"operationId": each.name, "parameters": {"id": "$response.body#/id"}}
            for each in routes
            if each.path.startswith(f"{route.path}/{{id}}") and each.params == ["id"] and not each.waits
        }
        if links:
            said["links"] = links
    return said


def _is_required(body: Any) -> bool:
    """Whether a request without a body says too little."""
    return any(field.required for field in msgspec.structs.fields(body)) if isinstance(body, type) else True


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in route.params]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    (_,), components = msgspec.json.schema_components([route.query], ref_template=_REF)
    properties = components[route.query.__name__]["properties"]
    required = components[route.query.__name__].get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _given(schema)}
        for name, schema in properties.items()
    ]


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that may be left out: it has no null."""
    if "anyOf" not in schema:
        return schema
    others = [each for each in schema["anyOf"] if each != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    return {**rest, **others[0]} if len(others) == 1 else {**rest, "anyOf": others}


def _headers(route: Route) -> list[dict[str, Any]]:
    headers = [("Headway-Tenant", "Of a super admin: the tenant to act for, by its name or id.", _TEXT)]
    if route.creates:
        headers.append(("Idempotency-Key", "The same request with the same key is done once.", _PRINTABLE))
    if 412 in route.problems:
        headers.append(("If-Match", "Only if it is still this version, as its ETag says.", _TEXT))
    if route.streams:
        headers.append(("Last-Event-ID", "The last event that was received: fence-offset.", _TEXT))
    return [
        {"name": name, "in": "header", "required": False, "description": text, "schema": schema}
        for name, text, schema in headers
    ]
