"""A kind's JSON Schema, checked at definition and applied to its payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from headway import secrets
from headway.errors import InvalidJob, InvalidPayload, PayloadMismatch

_MOST_CHOICES = 30
# most patterns match in linear time; one with look-around gives up after this many steps, and then does not match
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)


class Schema:
    """A compiled JSON Schema: formats are asserted, references stay inside the schema."""

    __slots__ = ("_validator", "source")

    def __init__(self, source: object) -> None:
        if not isinstance(source, Mapping):
            raise InvalidJob(
                f"schema={source!r} is not a JSON Schema: give a dict, like "
                "{'type': 'object', 'properties': {'user_id': {'type': 'integer'}}}"
            )
        self.source: dict[str, Any] = dict(source)
        try:
            self._validator = jsonschema_rs.validator_for(
                self.source, validate_formats=True, retriever=_refuse_remote, pattern_options=_PATTERNS
            )
        except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidJob(f"the schema cannot be used: {reason}") from error

    def check(self, text: str, kind: str) -> None:
        """Raises `InvalidPayload` with the path of the first fault in this JSON text; `PayloadMismatch` if
        properties are only missing or unknown.

        The value of a secret is not known before the job runs: while the text holds references, faults that a resolved
        value may fix are ignored.
        """
        payload = msgspec.json.decode(text)
        if self._validator.is_valid(payload):
            return
        errors = self._validator.iter_errors(payload)
        references = _references(text, kind)
        faults = [
            error
            for error in errors
            if not any(_comes_of(each, tuple(error.instance_path), error.kind.name) for each in references)
        ]
        if not faults:
            return
        other = [error for error in faults if error.kind.name not in _OF_ANOTHER_RELEASE]
        error = (other or faults)[0]
        path, reason = tuple(error.instance_path), _reason(error)
        if _is_masked(secrets.mask(payload, self.source), path):
            reason = f"it fails {error.kind.name} (a secret, which is not shown)"
        raise (InvalidPayload if other else PayloadMismatch)(
            f"{kind}: the payload does not fit the schema at {secrets.show(path)}: {reason}"
        )


_OF_ANOTHER_RELEASE = frozenset({"additionalProperties", "unevaluatedProperties", "required"})
# keywords by which a whole value can fail because of a part of it
_OF_THE_WHOLE = frozenset({"anyOf", "oneOfNotValid", "oneOfMultipleValid", "not", "contains", "enum", "const"})


def _comes_of(reference: secrets.Path, path: tuple[str | int, ...], fault: str) -> bool:
    """Whether resolving the reference may fix a fault at this path."""
    if path[: len(reference)] == reference:
        return True
    return fault in _OF_THE_WHOLE and reference[: len(path)] == path


def _reason(error: jsonschema_rs.ValidationError) -> str:
    choices = getattr(error.kind, "options", None)
    if error.kind.name == "enum" and isinstance(choices, list) and len(choices) <= _MOST_CHOICES:
        return f"{msgspec.json.encode(error.instance).decode()[:100]} is none of {', '.join(map(repr, choices))}"
    return error.message


def _is_masked(shown: Any, path: tuple[str | int, ...]) -> bool:
    """Whether the value at this path, around it or inside it is secret."""
    for step in path:
        if shown == secrets.REDACTED:
            return True
        shown = shown[step]
    return secrets.REDACTED in msgspec.json.encode(shown).decode()


def _references(text: str, kind: str) -> tuple[secrets.Path, ...]:
    try:
        return secrets.paths(text)
    except InvalidPayload as error:
        raise InvalidPayload(f"{kind}: {error}") from error


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is remote, and only references within the schema are followed: copy it to $defs")
