"""Secrets: payloads name them, the worker's environment gives them, and nothing that is stored or logged shows them."""

from headway.secrets.masking import mask
from headway.secrets.names import is_secret_name
from headway.secrets.redaction import (
    REDACTED,
    redact,
    redact_head,
    redact_json,
    redact_tail,
    redact_values,
)
from headway.secrets.references import (
    REFERENCE,
    Path,
    allow,
    check,
    get,
    is_reference,
    paths,
    resolve,
    resolve_text,
    show,
)
from headway.secrets.stream import Stream
from headway.secrets.values import add_value, forget, longest

__all__ = [
    "REDACTED",
    "REFERENCE",
    "Path",
    "Stream",
    "add_value",
    "allow",
    "check",
    "forget",
    "get",
    "is_reference",
    "is_secret_name",
    "longest",
    "mask",
    "paths",
    "redact",
    "redact_head",
    "redact_json",
    "redact_tail",
    "redact_values",
    "resolve",
    "resolve_text",
    "show",
]
