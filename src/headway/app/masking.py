"""Masks the secret fields of payloads and states that people read, known by their name or their schema."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

import msgspec

from headway.define.definitions import Definitions
from headway.model.audit import without_payloads
from headway.model.event import Event
from headway.model.job import Attempt, AuditEntry, Job, Outcome
from headway.model.journal_row import JournalRow
from headway.model.machine import Child, StepExecution
from headway.model.signal import Signal
from headway.model.template import Template
from headway.model.trigger import Trigger
from headway.secrets import REDACTED, is_secret_name, mask

T = TypeVar("T")


def masked(value: T, definitions: Definitions) -> T:
    """The value, or each of a list, with its secrets masked; the same object if it has none."""
    shown: Any = value
    match value:
        case list():
            shown = copy(value)  # a page says where it ended
            shown[:] = [masked(each, definitions) for each in value]
        case Job():
            schema = definitions.schema_of(value.kind)
            shown = _replaced(
                value, payload=_mask(value.payload, schema), state=_mask(value.state, schema), meta=_mask(value.meta)
            )
        case Template():
            schema = definitions.schema_of(value.kind)
            shown = _replaced(value, payload=mask(value.payload, schema), options=mask(value.options))
        case Trigger():
            kind = value.kind or value.template_kind
            schema = None if kind is None else definitions.schema_of(kind)
            shown = _replaced(
                value,
                payload=mask(value.payload, schema),
                options=mask(value.options),
                when=_masked_paths(value.when),
            )
        case Event() | Signal():
            shown = _replaced(value, payload=_mask(value.payload))
        case JournalRow(kind="signal"):
            shown = _replaced(value, value=_mask(value.value))
        case Attempt() | StepExecution():
            shown = _replaced(value, state=_mask(value.state))
    return shown  # type: ignore[no-any-return]


def masked_for_viewers(value: T, definitions: Definitions) -> T:
    """The same for those who may only look: results, too, by the names in them, and whole payloads in the audit, which
    does not know what their kinds call secret."""
    shown: Any = masked(value, definitions)
    match shown:
        case list():
            found = copy(shown)
            found[:] = [masked_for_viewers(each, definitions) for each in shown]
            shown = found
        case Job() | Child():
            shown = _replaced(shown, result=_mask(shown.result))
        case Outcome() | JournalRow():
            shown = _replaced(shown, value=_mask(shown.value))
        case AuditEntry():
            shown = without_payloads(shown)
    return shown  # type: ignore[no-any-return]


def _mask(value: Any, schema: Any = None) -> Any:
    """The same for a value that may be JSON text, which stays as it is where it holds no secret."""
    if not isinstance(value, msgspec.Raw):
        return mask(value, schema)
    if not bytes(value):
        return value
    found = msgspec.json.decode(value)
    shown = mask(found, schema)
    return value if shown is found else msgspec.Raw(msgspec.json.encode(shown))


def mask_payload(payload: Any, kind: str, definitions: Definitions) -> Any:
    """The payload of a job that is not stored, without its secrets."""
    return mask(payload, definitions.schema_of(kind))


def _masked_paths(when: dict[str, Any]) -> dict[str, Any]:
    """Conditions by path, with the values of secret fields masked."""
    if not any(is_secret_name(path.rpartition(".")[2]) for path in when):
        return when
    return {path: REDACTED if is_secret_name(path.rpartition(".")[2]) else value for path, value in when.items()}


def _replaced(value: msgspec.Struct, /, **fields: Any) -> msgspec.Struct:
    if all(getattr(value, name) is new for name, new in fields.items()):
        return value
    return msgspec.structs.replace(value, **fields)
