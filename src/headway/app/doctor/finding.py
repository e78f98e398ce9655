"""The result of one check of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its result, in words, and how to fix it."""

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
