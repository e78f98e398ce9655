"""What one check of the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing that was looked at: how it is, in words, and what mends it."""

    name: str
    status: Literal["ok", "note", "problem"]
    detail: str
    fix: str | None = None


def ok(name: str, detail: str) -> Finding:
    return Finding(name, "ok", detail)


def note(name: str, detail: str) -> Finding:
    return Finding(name, "note", detail)


def problem(name: str, detail: str, fix: str) -> Finding:
    return Finding(name, "problem", detail, fix)
