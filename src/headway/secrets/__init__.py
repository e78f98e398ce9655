"""Secrets: payloads name them, the worker's environment holds them, and nothing that people read shows them."""

from headway.secrets.declared import Grant, read
from headway.secrets.exposure import exposed, holds
from headway.secrets.masking import mask
from headway.secrets.names import is_secret_name
from headway.secrets.redaction import REDACTED, redact, redact_head, redact_tail
from headway.secrets.references import (
    REFERENCE,
    Path,
    check,
    check_none,
    first_reference,
    is_reference,
    paths,
    refers,
    resolve_text,
    secret,
    show,
)
from headway.secrets.stream import Stream
from headway.secrets.urls import show_url, url_secrets
from headway.secrets.values import Known, add_own, forget, guess, own, process
from headway.secrets.vault import Keyring, Owner, Vault

__all__ = [
    "REDACTED",
    "REFERENCE",
    "Grant",
    "Keyring",
    "Known",
    "Owner",
    "Path",
    "Stream",
    "Vault",
    "add_own",
    "check",
    "check_none",
    "exposed",
    "first_reference",
    "forget",
    "guess",
    "holds",
    "is_reference",
    "is_secret_name",
    "mask",
    "own",
    "paths",
    "process",
    "read",
    "redact",
    "redact_head",
    "redact_tail",
    "refers",
    "resolve_text",
    "secret",
    "show",
    "show_url",
    "url_secrets",
]
