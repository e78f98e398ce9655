"""A kind's JSON Schema, checked at definition and applied to its payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from headway.errors import InvalidJob, InvalidPayload


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
            self._validator = jsonschema_rs.validator_for(self.source, validate_formats=True, retriever=_refuse_remote)
        except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidJob(f"the schema cannot be used: {reason}") from error

    def check(self, text: str, kind: str) -> None:
        """Raises `InvalidPayload` with the path of the first fault in this JSON text."""
        for error in self._validator.iter_errors(msgspec.json.decode(text)):
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            raise InvalidPayload(f"{kind}: the payload does not fit the schema at ${path}: {error.message}")


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is remote, and only references within the schema are followed: copy it to $defs")
