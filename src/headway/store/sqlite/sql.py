"""Loads the statements of the .sql files beside it, by their `-- name:` headers."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "sql"

_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statements(verb: str) -> dict[str, str]:
    """The named statements of `sql/<verb>.sql`, without their comments."""
    parts = _HEADER.split((FOLDER / f"{verb}.sql").read_text("utf-8"))
    return {name: _bare(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _bare(body: str) -> str:
    lines = (line for line in body.splitlines() if not line.startswith("--"))
    return "\n".join(lines).strip().removesuffix(";")
