"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from headway.api.problems import MEDIA_TYPE, TITLES, Problem
from headway.api.routes import PREFIX, Route

_REF = "#/components/schemas/{name}"
_ALWAYS = (400, 401, 403, 404, 413, 422, 500, 503)  # any request can meet these
_WITH_BODY = (415,)


def document(routes: Sequence[Route], root_path: str = "") -> dict[str, Any]:
    """OpenAPI 3.1 of these routes: every status, every problem. `root_path` is where the API is mounted."""
    types = [Problem]
    for route in routes:
        types += [each for each in (route.body, *route.answers.values()) if each is not None and each not in types]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    found = {id(each): schema for each, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, found)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway", "version": version("headway")},
        "servers": [{"url": root_path or "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "hw_…"}},
        },
    }


def _operation(route: Route, schemas: dict[int, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "x-roles": list(route.roles),
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {},
    }
    if route.body is not None:
        said["requestBody"] = {"content": {"application/json": {"schema": schemas[id(route.body)]}}}
    for status, body in route.answers.items():
        said["responses"][str(status)] = {"description": "Done"} | (
            {} if body is None else {"content": {"application/json": {"schema": schemas[id(body)]}}}
        )
    if route.streams:
        said["responses"]["200"].setdefault("content", {})["text/event-stream"] = {"schema": {"type": "string"}}
    with_body = _WITH_BODY if route.body is not None else ()
    for status in sorted({*_ALWAYS, *with_body, *route.problems}):
        said["responses"][str(status)] = {
            "description": TITLES[status],
            "content": {MEDIA_TYPE: {"schema": schemas[id(Problem)]}},
        }
    return said


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.params]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    (_,), components = msgspec.json.schema_components([route.query], ref_template=_REF)
    properties = components[route.query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]
