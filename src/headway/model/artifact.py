"""Artifacts: files that a job's attempts store, by reference; what they are, and which names they may have."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from datetime import datetime

import msgspec

from headway.errors import InvalidArtifact
from headway.model.spill import PAYLOAD_NAME, is_result_name

NAME_BYTES = 255
"""The longest file name that the usual file systems take."""
TYPE_CHARS = 255

_UNKNOWN_TYPE = "application/octet-stream"
_TYPE = re.compile(
    r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+(; ?[a-z0-9_-]+=([a-z0-9!#$&^_.+-]+|\"[ a-z0-9:/=._+-]*\"))*", re.I
)
_FORBIDDEN = frozenset('/\\:*?"<>|')
# Windows opens a device for these, whatever their extension
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{n}" for port in ("com", "lpt") for n in "0123456789¹²³"}
)
# controls, invisible formatting (a name that shows its letters in another order), surrogates, unassigned, line ends
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """One that is being written, already checked: whose it is, and where its bytes go."""

    id: str
    tenant_id: str
    job_id: str
    fence: int
    name: str
    content_type: str
    store: str
    path: str


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that an attempt stored. Its bytes are whole, and never change."""

    id: str
    tenant_id: str
    job_id: str
    fence: int  # of the attempt that stored it; 0: the job's payload, which came with it
    name: str
    content_type: str
    size: int  # bytes
    sha256: str  # in hex
    store: str  # the folder or object store that has the bytes
    path: str  # where they are in it
    created_at: datetime


class NewPayload(msgspec.Struct, frozen=True):
    """A payload that is being written for a job that is not enqueued yet."""

    id: str
    tenant_id: str
    job_id: str
    store: str

    @property
    def path(self) -> str:
        return path_of(self.tenant_id, self.job_id, self.id)


class WrittenPayload(msgspec.Struct, frozen=True):
    """The bytes of a payload are there, whole; `job_id` is the job that may have them."""

    id: str
    job_id: str
    size: int
    sha256: str


class TrashedBytes(msgspec.Struct, frozen=True):
    """Bytes that no artifact has."""

    id: str
    store: str
    path: str


def path_of(tenant_id: str, job_id: str, artifact_id: str) -> str:
    """Where an artifact's bytes are in its store. The name that a handler chose is no part of it."""
    return f"{tenant_id}/{job_id}/{artifact_id}"


def checked_name(name: object) -> str:
    """The name in its composed form; raises `InvalidArtifact` unless it is a plain file name on every system."""
    if not isinstance(name, str):
        raise InvalidArtifact(f"an artifact's name is a string, not {type(name).__name__}")
    composed = unicodedata.normalize("NFC", name)
    flaw = _flaw(composed)
    if flaw is not None:
        shown = name if len(name) <= 80 else f"{name[:80]}…"
        raise InvalidArtifact(
            f"an artifact cannot be named {shown!r}: {flaw}; give a plain file name, such as report.csv"
        )
    return composed


def file_name(artifact: Artifact) -> str:
    """What to call its file in a folder: its name, unless somebody wrote one into the row that leads elsewhere."""
    if is_result_name(artifact.name):
        return "result.json"
    if artifact.name == PAYLOAD_NAME:
        return "payload.json"
    return artifact.name if _flaw(artifact.name) is None else artifact.id


def _flaw(name: str) -> str | None:
    if not name or name.isspace():
        return "it is empty"
    if any(unicodedata.category(char) in _UNSHOWN for char in name):
        return "it has characters that cannot be shown"
    if len(name.encode()) > NAME_BYTES:
        return f"it is longer than {NAME_BYTES} bytes"
    if found := sorted(_FORBIDDEN & set(name)):
        return f"it has a {found[0]}"
    if name.startswith((".", " ")):
        return "it begins with a dot or a space"
    if name.endswith((".", " ")):
        return "it ends with a dot or a space"
    if name.split(".")[0].rstrip().casefold() in _DEVICES:
        return "it names a device of Windows"
    return None


def checked_type(content_type: object, name: str) -> str:
    """The content type, guessed from the name where none is given; raises `InvalidArtifact`."""
    if content_type is None:
        guessed, encoding = mimetypes.guess_type(name, strict=False)
        return _UNKNOWN_TYPE if guessed is None or encoding is not None else guessed
    if not isinstance(content_type, str) or len(content_type) > TYPE_CHARS or not _TYPE.fullmatch(content_type):
        raise InvalidArtifact(f"content_type={str(content_type)[:80]!r} is not a media type, such as text/csv")
    return content_type
